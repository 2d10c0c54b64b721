"""An export of Dumpling's as the source of a load: Spark's workers read its files."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import Export, ExportedTable
from ticdc_assets.dumpling.foreign import recognize_foreign
from ticdc_assets.dumpling.metadata import METADATA, read_metadata
from ticdc_assets.dumpling.path import ExportFile
from ticdc_assets.dumpling.reader import read_head
from ticdc_assets.dumpling.source import Readable, decompress
from ticdc_assets.dumpling.table_schema import read_table_schema
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.load.parts import (
    ExportFolder,
    Part,
    PartsReading,
    group_parts,
    split_into_portions,
)
from ticdc_assets.load.source import check_ts, choose_named
from ticdc_assets.schema.catalog import SchemaCatalog

# A schema file is larger than any that TiDB prints.
_MOST_OF_A_SCHEMA = 64 << 20


@dataclass(frozen=True)
class ExportSource:
    """An export: its folder, how a worker opens it, its inventory, and its name for people."""

    folder: ExportFolder
    open_folder: Callable[[], ExportFolder]
    export: Export
    origin: str
    dialect: Dialect

    takes_newest = False
    notes = ()

    @property
    def skipped(self) -> Sequence[tuple[str, str]]:
        return self.export.skipped

    def read_ts(self) -> int:
        """Return the TSO of the export; raise a `ConfigError` if it has none, or one to come."""
        try:
            ts = read_metadata(self.folder.read(METADATA))
        except FileNotFoundError:
            reason = "the export did not finish, or this is not its folder: it has no metadata file"
            raise ConfigError(reason, file=self.origin, setting="DIR") from None
        except (MalformedMessage, OSError) as error:
            raise ConfigError(str(error), file=f"{self.origin}/{METADATA}", setting="DIR") from None
        return check_ts(ts, setting="DIR", file=f"{self.origin}/{METADATA}")

    def choose_tables(self, names: Sequence[str]) -> list["ExportTable"]:
        """Return the tables of these names, or all; raise a `ConfigError` for an unknown one."""
        export = self.export
        if not export.tables:
            raise ConfigError(self._describe_other_files(), file=self.origin, setting="DIR")
        if not export.has_data:
            reason = "the export has no rows: export without --no-data"
            raise ConfigError(reason, file=self.origin, setting="DIR")
        tables = [ExportTable(self, table) for table in export.tables]
        if not names:
            return tables
        return choose_named(
            tables, names, self.skipped, lambda name: f"the export has no table {name}"
        )

    def _describe_other_files(self) -> str:
        """Say what a folder without a table of an export has, and what was expected."""
        names = [name for name, _ in self.skipped]
        if (foreign := recognize_foreign(names)) is not None:
            return foreign
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        found = f"it has {names[0]}{more}" if names else "it has no file of a table"
        return (
            f"is no export of Dumpling's: {found}; expected DB.TABLE-schema.sql and"
            " DB.TABLE.000000000.sql (or .csv or .parquet, compressed or not) per table, and"
            f" {METADATA}"
        )


@dataclass(frozen=True)
class ExportTable:
    """A table of an export."""

    source: ExportSource
    files: ExportedTable

    @property
    def database(self) -> str:
        return self.files.database

    @property
    def table(self) -> str:
        return self.files.table

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def size(self) -> int:
        return self.files.text_size

    @property
    def origin(self) -> str:
        return self.source.origin

    def read_schema(self, catalog: SchemaCatalog) -> TableSchema:
        files = self.files
        if files.problem is not None or files.schema_file is None:
            raise MalformedMessage(files.problem or "it has no schema file")
        database_file = self.source.export.databases.get(fold_name(files.database))
        create_database = None if database_file is None else self._read_whole(database_file)
        create_table = self._read_whole(files.schema_file)
        return read_table_schema(
            files.database, files.table, create_database, create_table, catalog
        )

    def _read_whole(self, file: ExportFile) -> bytes:
        with self.source.folder.open(file.path) as opened:
            content: Readable = decompress(opened, file.compression)
            parts = []
            size = 0
            while part := content.read(1 << 20):
                parts.append(part)
                size += len(part)
                if size > _MOST_OF_A_SCHEMA:
                    raise MalformedMessage(f"{file.path} is too large for a schema")
        return b"".join(parts)

    def check(self, schema: TableSchema) -> None:
        """Raise an error if the first data file is not as declared; each file is checked again."""
        for data in self.files.data[:1]:
            with self.source.folder.open(data.file.path) as opened:
                try:
                    read_head(opened, data.file, schema, self.source.dialect)
                except MalformedMessage as error:
                    raise MalformedMessage(f"{data.file.path}: {error.reason}") from None

    def read_portions(self, schema: TableSchema) -> Generator["ExportPortion"]:
        for parts in split_into_portions(self.files, self.source.dialect):
            yield ExportPortion(self, schema, tuple(parts))


@dataclass(frozen=True)
class ExportPortion:
    """Parts of data files."""

    table: ExportTable
    schema: TableSchema
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    # Workers read the files.
    is_here = False

    @property
    def readings(self) -> list[PartsReading]:
        source = self.table.source
        return [
            PartsReading(source.open_folder, tuple(parts), self.schema, source.dialect)
            for parts in group_parts(self.parts)
        ]
