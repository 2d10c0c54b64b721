"""The inventory of an export: its tables with their files, and what is left out."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from msgspec import Struct, field

from ticdc_assets.dumpling.metadata import METADATA
from ticdc_assets.dumpling.path import ExportFile, parse_path
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.catalog import TableKey, table_key

_KINDS = {
    "view": "a view: it has no rows of its own",
    "sequence": "a sequence",
    "other": "no table",
}


_NAME_END = re.compile(r"\W")
# How many times as long as a Parquet file or a compressed one the same rows are as text, about.
_DENSITY = 8


class DataFile(Struct, frozen=True):
    """A file with rows, and its size in bytes."""

    file: ExportFile
    size: int

    @property
    def text_size(self) -> int:
        """About how many bytes its rows have as text."""
        is_dense = self.file.format == "parquet" or self.file.compression != "none"
        return self.size * _DENSITY if is_dense else self.size


class ExportedTable(Struct, frozen=True):
    """The files of one table; `problem` says why it cannot be loaded."""

    database: str
    table: str
    schema_file: ExportFile | None
    data: tuple[DataFile, ...]
    problem: str | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def text_size(self) -> int:
        """About how many bytes its rows have as text."""
        return sum(data.text_size for data in self.data)


class Export(Struct, frozen=True):
    """All tables of an export, sorted; the files of databases by their folded names."""

    tables: tuple[ExportedTable, ...]
    databases: dict[str, ExportFile]
    # Files and objects that are not loaded, and why.
    skipped: tuple[tuple[str, str], ...]

    @property
    def has_data(self) -> bool:
        return any(table.data or table.problem for table in self.tables)


class _Found(Struct):
    """What was found under one name."""

    names: set[tuple[str, str]] = field(default_factory=set)
    schema_file: ExportFile | None = None
    data: list[DataFile] = field(default_factory=list)
    # Files that may have rows of it, and why they are not read.
    unread: list[tuple[str, str]] = field(default_factory=list)


def list_export(entries: Iterable[tuple[str, int, str | None]]) -> Export:
    """Take the inventory of a folder's files: their paths, sizes, and why one cannot be read."""
    found: dict[TableKey, _Found] = defaultdict(_Found)
    databases: dict[str, ExportFile] = {}
    hidden: dict[TableKey, ExportFile] = {}
    skipped: list[tuple[str, str]] = []
    unread: list[tuple[str, str]] = []
    for path, size, problem in sorted(entries):
        if path == METADATA and problem is None:
            continue
        try:
            file = _read_entry(path, size, problem)
        except MalformedMessage as error:
            unread.append((path, error.reason))
            continue
        key = table_key(file.database, file.table)
        match file.role:
            case "data":
                found[key].data.append(DataFile(file, size))
                found[key].names.add((file.database, file.table))
            case "schema":
                found[key].schema_file = file
                found[key].names.add((file.database, file.table))
            case "database":
                databases[key[0]] = file
            case "view" | "sequence":
                hidden[key] = file
            case "other":
                skipped.append((path, _KINDS["other"]))
    for key, file in hidden.items():
        # Dumpling also writes a table that stands for a view until all tables exist.
        found.pop(key, None)
        skipped.append((f"{file.database}.{file.table}", _KINDS[file.role]))
    by_name: dict[str, list[_Found]] = defaultdict(list)
    for key, table in found.items():
        by_name[".".join(key)].append(table)
    for path, reason in unread:
        concerned = _find_tables(path, by_name)
        if not concerned:
            skipped.append((path, reason))
        for table in concerned:
            table.unread.append((path, reason))
    tables = (_make_table(table) for _, table in sorted(found.items()))
    return Export(tuple(tables), databases, tuple(sorted(skipped)))


def _read_entry(path: str, size: int, problem: str | None) -> ExportFile:
    """Read what the listing says of a file; raise `MalformedMessage` for one that is not read."""
    if problem is not None:
        raise MalformedMessage(problem)
    file = parse_path(path)
    if file is None:
        raise MalformedMessage("not a file of Dumpling's")
    if file.role == "data" and not size:
        # Dumpling creates a file with its first row.
        raise MalformedMessage("it is empty")
    return file


def _find_tables(path: str, by_name: Mapping[str, list[_Found]]) -> list[_Found]:
    """Find the tables with the longest name with which the name of a file begins."""
    name = fold_name(unquote(path.rpartition("/")[2]))
    ends = [match.start() for match in _NAME_END.finditer(name)]
    heads = (name[:end] for end in reversed(ends))
    return next((by_name[head] for head in heads if head in by_name), [])


def _make_table(found: _Found) -> ExportedTable:
    database, table = min(found.names)
    problem = None
    if len(found.names) > 1:
        spelled = " and ".join(f"{database}.{table}" for database, table in sorted(found.names))
        problem = f"the export has {spelled}, which are one table for TiDB"
    elif found.unread:
        (path, reason), *others = found.unread
        more = f" (and {len(others)} more)" if others else ""
        problem = f"its file {path} is not read: {reason}{more}"
    elif found.schema_file is None:
        problem = "the export has no schema file of it: export without --no-schemas"
    return ExportedTable(database, table, found.schema_file, tuple(found.data), problem)
