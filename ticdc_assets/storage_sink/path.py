"""The paths of a storage-sink folder: parsing and building.

`parse` and `build` are inverses, if file numbers have the width of the layout.  Temporary files
(`….tmp`, `….tmp.<uuid>`) and files that TiCDC did not write parse to None.

TiCDC does not escape names in paths, so `parse` reads a path from its end, where every part has a
fixed form; the rest is database and table.  If a name contains a slash, the rest has more than two
segments: `parse` takes the first as the database and the others as the table.  Only the content of
the schema file has the true names.
"""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

# TSOs of any year after 1978 are greater; table ids are much smaller.
_MIN_TSO = 1 << 56
_MAX_NUMBER = (1 << 64) - 1

_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
_DATES = {
    "year": re.compile(r"[0-9]{4}"),
    "month": re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])"),
    "day": re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"),
}
# A dispatcher id is two concatenated 64-bit numbers.
_DATA_FILE = re.compile(r"CDC(?:_([0-9]{1,40})_)?([0-9]{6,20})")
_INDEX_FILE = re.compile(r"CDC(?:_([0-9]{1,40}))?\.index")
_SCHEMA_FILE = re.compile(r"schema_(0|[1-9][0-9]{0,19})_([0-9]{10})\.json")
# A schema file of the first servers with a storage sink, in the directory of its version.
FIRST_SCHEMA_FILE = "schema.json"


class Layout(Struct, frozen=True, kw_only=True):
    """The settings of a changefeed that determine its paths."""

    date_separator: Literal["none", "year", "month", "day"] = "day"
    partition_separator: bool = True
    # The width of file numbers in `build`; `parse` accepts every width that TiCDC allows.
    digits: int = 20
    table_id_as_path: bool = False
    # Whether file names contain a dispatcher id.  `parse` accepts both: the setting may change.
    across_nodes: bool = False
    extension: Literal[".csv", ".json"] = ".csv"


class DataDirectory(Struct, frozen=True, kw_only=True):
    """The directory of the data files of one table version (and partition, and date)."""

    database: str | None = None
    table: str | None = None
    # With use-table-id-as-path: the directory's physical table id, in place of the names.
    table_id: int | None = None
    version: int
    partition_id: int | None = None
    date: str | None = None


class DataPath(DataDirectory, frozen=True, kw_only=True):
    dispatcher: str | None = None
    number: int


class IndexPath(DataDirectory, frozen=True, kw_only=True):
    """The index file of one data directory and, across nodes, one dispatcher."""

    dispatcher: str | None = None


class TableSchemaPath(Struct, frozen=True, kw_only=True):
    database: str | None = None
    table: str | None = None
    # With use-table-id-as-path: the logical table id, in place of the names.
    table_id: int | None = None
    version: int
    # None in the path that 6.5.0 to 6.5.2, 6.6.0 and 7.0.0 write: `{version}/schema.json`.
    checksum: int | None


class DatabaseSchemaPath(Struct, frozen=True, kw_only=True):
    database: str
    version: int
    checksum: int


class MetadataPath(Struct, frozen=True):
    """The `metadata` file, which has the checkpoint of the folder."""


StoragePath = DataPath | IndexPath | TableSchemaPath | DatabaseSchemaPath | MetadataPath


def parse(path: str, layout: Layout) -> StoragePath | None:
    """Parse a path relative to the changefeed's prefix; None for any other file."""
    if path == "metadata":
        return MetadataPath()
    *directories, name = path.split("/")
    if not directories or not all(part not in ("", ".", "..") for part in directories):
        return None
    if name.endswith(layout.extension):
        match = _DATA_FILE.fullmatch(name, 0, len(name) - len(layout.extension))
        if match is not None:
            directory = _parse_data_directory(directories, layout)
            if directory is None:
                return None
            number = _parse_number(match[2].lstrip("0") or "0")
            if number is None:
                return None
            return DataPath(**asdict(directory), dispatcher=match[1], number=number)
    if name == FIRST_SCHEMA_FILE and not layout.table_id_as_path:
        return _parse_first_schema_path(directories)
    if directories.pop() != "meta":
        return None
    match = _INDEX_FILE.fullmatch(name)
    if match is not None:
        directory = _parse_data_directory(directories, layout)
        return None if directory is None else IndexPath(**asdict(directory), dispatcher=match[1])
    match = _SCHEMA_FILE.fullmatch(name)
    if match is not None:
        return _parse_schema_path(directories, match, layout)
    return None


def build(parsed: StoragePath, layout: Layout) -> str:
    """Write a path as TiCDC does."""
    match parsed:
        case MetadataPath():
            return "metadata"
        case DatabaseSchemaPath():
            return f"{parsed.database}/meta/{_build_schema_name(parsed)}"
        case TableSchemaPath():
            if parsed.checksum is None:
                return f"{_build_table_directory(parsed)}/{parsed.version}/{FIRST_SCHEMA_FILE}"
            return f"{_build_table_directory(parsed)}/meta/{_build_schema_name(parsed)}"
        case IndexPath():
            suffix = "" if parsed.dispatcher is None else f"_{parsed.dispatcher}"
            return f"{_build_data_directory(parsed)}/meta/CDC{suffix}.index"
        case DataPath():
            infix = "" if parsed.dispatcher is None else f"_{parsed.dispatcher}_"
            number = f"{parsed.number:0{layout.digits}}"
            return f"{_build_data_directory(parsed)}/CDC{infix}{number}{layout.extension}"


def _parse_data_directory(parts: list[str], layout: Layout) -> DataDirectory | None:
    """Parse a directory of data files; None for any other directory."""
    names = list(parts)
    date = None
    if layout.date_separator != "none":
        date = names.pop()
        if _DATES[layout.date_separator].fullmatch(date) is None:
            return None
    version = _parse_number(names.pop()) if names else None
    if version is None:
        return None
    if layout.table_id_as_path:
        table_id = _parse_number(names[0]) if len(names) == 1 else None
        if table_id is None:
            return None
        return DataDirectory(table_id=table_id, version=version, date=date)
    partition_id = None
    if layout.partition_separator and len(names) > 2:
        # The last directory is a partition id if a version precedes it.  But a table may be named
        # "b/5": if only the last number is as large as a TSO, that number is the version.
        outer = _parse_number(names[-1])
        if outer is not None and not outer < _MIN_TSO <= version:
            partition_id, version = version, outer
            names.pop()
    if len(names) < 2:
        return None
    return DataDirectory(
        database=names[0],
        table="/".join(names[1:]),
        version=version,
        partition_id=partition_id,
        date=date,
    )


def _parse_schema_path(
    names: list[str], match: re.Match[str], layout: Layout
) -> TableSchemaPath | DatabaseSchemaPath | None:
    version, checksum = _parse_number(match[1]), int(match[2])
    if version is None or checksum >= 1 << 32 or not names:
        return None
    if layout.table_id_as_path:
        table_id = _parse_number(names[0]) if len(names) == 1 else None
        if table_id is None:
            return None
        return TableSchemaPath(table_id=table_id, version=version, checksum=checksum)
    if len(names) == 1:
        return DatabaseSchemaPath(database=names[0], version=version, checksum=checksum)
    table = "/".join(names[1:])
    return TableSchemaPath(database=names[0], table=table, version=version, checksum=checksum)


def _parse_first_schema_path(names: list[str]) -> TableSchemaPath | None:
    version = _parse_number(names[-1])
    if version is None or len(names) < 3:
        return None
    table = "/".join(names[1:-1])
    return TableSchemaPath(database=names[0], table=table, version=version, checksum=None)


def _parse_number(text: str) -> int | None:
    """Read an unsigned 64-bit number without leading zeros."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= _MAX_NUMBER else None


def _build_table_directory(parsed: DataPath | IndexPath | TableSchemaPath) -> str:
    if parsed.table_id is not None:
        return str(parsed.table_id)
    return f"{parsed.database}/{parsed.table}"


def _build_data_directory(parsed: DataPath | IndexPath) -> str:
    parts = [_build_table_directory(parsed), str(parsed.version)]
    if parsed.partition_id is not None:
        parts.append(str(parsed.partition_id))
    if parsed.date is not None:
        parts.append(parsed.date)
    return "/".join(parts)


def _build_schema_name(parsed: TableSchemaPath | DatabaseSchemaPath) -> str:
    return f"schema_{parsed.version}_{parsed.checksum:010}.json"
