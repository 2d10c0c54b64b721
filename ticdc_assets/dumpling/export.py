"""The inventory of an export: its tables with their files, and what is left out."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct, field

from ticdc_assets.dumpling.metadata import METADATA
from ticdc_assets.dumpling.path import ExportFile, parse_path
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.schema.catalog import TableKey, table_key

_KINDS = {
    "view": "a view: it has no rows of its own",
    "sequence": "a sequence",
    "other": "no table",
}


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
        return any(table.data for table in self.tables)


class _Found(Struct):
    """What was found under one name."""

    names: set[tuple[str, str]] = field(default_factory=set)
    schema_file: ExportFile | None = None
    data: list[DataFile] = field(default_factory=list)


def list_export(entries: Iterable[tuple[str, int, str | None]]) -> Export:
    """Take the inventory of a folder's files: their paths, sizes, and why one cannot be read."""
    found: dict[TableKey, _Found] = defaultdict(_Found)
    databases: dict[str, ExportFile] = {}
    hidden: dict[TableKey, ExportFile] = {}
    skipped: list[tuple[str, str]] = []
    for path, size, problem in sorted(entries):
        try:
            if problem is not None:
                raise MalformedMessage(problem)
            file = None if path == METADATA else parse_path(path)
        except MalformedMessage as error:
            skipped.append((path, error.reason))
            continue
        if file is None:
            if path != METADATA:
                skipped.append((path, "not a file of Dumpling's"))
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
    tables = (_make_table(table) for _, table in sorted(found.items()))
    return Export(tuple(tables), databases, tuple(sorted(skipped)))


def _make_table(found: _Found) -> ExportedTable:
    database, table = min(found.names)
    problem = None
    if len(found.names) > 1:
        spelled = " and ".join(f"{database}.{table}" for database, table in sorted(found.names))
        problem = f"the export has {spelled}, which are one table for TiDB"
    elif found.schema_file is None:
        problem = "the export has no schema file of it: export without --no-schemas"
    return ExportedTable(database, table, found.schema_file, tuple(found.data), problem)
