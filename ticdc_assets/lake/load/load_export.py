"""Load the tables of an export, several in parallel; one that cannot be loaded stops no other."""

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.export import Export, ExportedTable
from ticdc_assets.dumpling.metadata import METADATA, read_metadata
from ticdc_assets.dumpling.path import ExportFile
from ticdc_assets.dumpling.reader import read_head
from ticdc_assets.dumpling.source import Readable, decompress
from ticdc_assets.dumpling.table_schema import read_table_schema
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.apply.table_work import TABLE_ERRORS, find_pause_reason
from ticdc_assets.lake.load.load_table import TableLoader, TableToLoad
from ticdc_assets.lake.load.parts import ExportFolder
from ticdc_assets.lake.log.loads import append_load, choose_load_ts, read_loads
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.tables import create_tables
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.plan.load import Load
from ticdc_assets.safe_text import describe_error
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.stream.routing import passes_filter
from ticdc_assets.stream.rules import make_rules

# A schema file is larger than any that TiDB prints.
_MOST_OF_A_SCHEMA = 64 << 20
_MANY_BYTES = 16 << 20
_MOST_OF_A_REASON = 500
_FAILURES: tuple[type[Exception], ...] = (*TABLE_ERRORS, OSError)
# How a message of Spark's quotes the error of the storage in a worker.
_WORKER_ERROR = re.compile(r"^(?:OSError|FileNotFoundError): (.+)$", re.MULTILINE)

Outcome = Literal["loaded", "already loaded", "left out", "failed"]


@dataclass(frozen=True)
class TableResult:
    """What became of one table; `reason` says why it failed or was left out."""

    name: str
    outcome: Outcome
    rows: int = 0
    quarantined: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class LoadProgress:
    """How much of a load is done."""

    tables: int
    all_tables: int
    rows: int
    bytes: int
    all_bytes: int


ShowProgress = Callable[[LoadProgress], None]


@dataclass(frozen=True)
class ExportSource:
    """An export: its folder, how a worker opens it, its inventory, and its name for people."""

    folder: ExportFolder
    open_folder: Callable[[], ExportFolder]
    export: Export
    origin: str


def load_export(
    lake: LakeSession,
    source: ExportSource,
    dialect: Dialect,
    names: Sequence[str] = (),
    show: ShowProgress = lambda progress: None,
) -> list[TableResult]:
    """Load tables by their names `DB.TABLE`, or all of them, as of the export's TSO.

    Raise a `ConfigError` if nothing can be loaded: nothing was written then.
    """
    tables = choose_tables(source.export, names)
    ts = read_tso(source)
    create_tables(lake)
    # Nothing was written to a table yet.
    ts = choose_load_ts(LakeReader(lake.location), lake.feed, ts)
    known = {load.incarnation for load in read_loads(LakeReader(lake.location))}
    loading = _Loading(lake, source, dialect, ts, known, _Counter(tables, show))
    small = all(table.size < _MANY_BYTES for table in tables)
    # A table mostly waits for its Delta log, unless it is large: then Spark shares its cores.
    with sized_for(lake.spark, small=small), ThreadPoolExecutor() as pool:
        return list(pool.map(loading.load, tables))


def read_tso(source: ExportSource) -> int:
    """Return the TSO of an export; raise a `ConfigError` if it did not finish."""
    try:
        return read_metadata(source.folder.read(METADATA))
    except FileNotFoundError:
        reason = "the export did not finish, or this is not its folder: it has no metadata file"
        raise ConfigError(reason, file=source.origin, setting="DIR") from None
    except (MalformedMessage, OSError) as error:
        raise ConfigError(str(error), file=f"{source.origin}/{METADATA}", setting="DIR") from None


def choose_tables(export: Export, names: Sequence[str]) -> list[ExportedTable]:
    """Return the tables of these names, or all; raise a `ConfigError` for an unknown one."""
    if not export.tables:
        raise ConfigError("the export has no tables", setting="DIR")
    if not export.has_data:
        raise ConfigError("the export has no rows: export without --no-data", setting="DIR")
    if not names:
        return list(export.tables)
    by_name = {fold_name(table.name): table for table in export.tables}
    chosen = {}
    for name in names:
        table = by_name.get(fold_name(name))
        if table is None:
            raise ConfigError(f"the export has no table {name}", setting="--table")
        chosen[table.name] = table
    return list(chosen.values())


class _Counter:
    """Adds up what threads have done."""

    def __init__(self, tables: Sequence[ExportedTable], show: ShowProgress) -> None:
        self._lock = threading.Lock()
        self._show = show
        size = sum(table.size for table in tables)
        self._now = LoadProgress(0, len(tables), 0, 0, size)

    def add(self, *, tables: int = 0, rows: int = 0, size: int = 0) -> None:
        with self._lock:
            now = self._now
            self._now = replace(
                now, tables=now.tables + tables, rows=now.rows + rows, bytes=now.bytes + size
            )
            self._show(self._now)


def find_omission(feed: Changefeed, schema: TableSchema) -> str | None:
    """Return why the changefeed sends no changes of a table, if it does not."""
    if not passes_filter(feed, schema.database, schema.table):
        return "filter.rules keep it out of the changefeed"
    if not schema.own_key and not feed.force_replicate:
        return (
            "it has no primary key and no unique key over NOT NULL columns, so TiCDC sends it only"
            " with force-replicate = true"
        )
    return None


@dataclass(frozen=True)
class _Loading:
    lake: LakeSession
    source: ExportSource
    dialect: Dialect
    ts: int
    known: set[str]
    counter: _Counter

    def load(self, files: ExportedTable) -> TableResult:
        """Load one table."""
        try:
            result = self._load(files)
        except ConfigError:
            # Of the lake, not of the table.
            raise
        except _FAILURES as error:
            reason = find_pause_reason(error) or _describe_failure(error)
            result = TableResult(files.name, "failed", reason=reason)
        self.counter.add(tables=1)
        return result

    def _load(self, files: ExportedTable) -> TableResult:
        """Load one table; raise an error that says why it cannot be."""
        schema = self._read_schema(files)
        table = TableToLoad(files, schema, self.ts, self.dialect)
        if table.incarnation in self.known:
            self.counter.add(size=files.size)
            return TableResult(files.name, "already loaded")
        reason = find_omission(self.lake.feed, schema)
        if reason is not None:
            # It would stay as it is now, whatever happens upstream.
            self.counter.add(size=files.size)
            return TableResult(files.name, "left out", reason=reason)
        self._check_heads(table)
        loader = TableLoader(self.lake, table, self.source.open_folder)
        written = loader.write(lambda rows, size: self.counter.add(rows=rows, size=size))
        append_load(
            self.lake,
            Load(
                id=0,
                ts=self.ts,
                incarnation=table.incarnation,
                schema=schema,
                version=written.version,
                rows=written.rows,
                quarantined=written.quarantined,
                origin=self.source.origin,
                loaded_at=datetime.now(UTC),
            ),
        )
        return TableResult(files.name, "loaded", written.rows, written.quarantined)

    def _read_schema(self, files: ExportedTable) -> TableSchema:
        if files.problem is not None or files.schema_file is None:
            raise MalformedMessage(files.problem or "it has no schema file")
        database_file = self.source.export.databases.get(fold_name(files.database))
        create_database = None if database_file is None else self._read_whole(database_file)
        schema = read_table_schema(
            files.database,
            files.table,
            create_database,
            self._read_whole(files.schema_file),
            make_rules(self.lake.feed).make_catalog(),
        )
        return require_known_types(schema)

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

    def _check_heads(self, table: TableToLoad) -> None:
        """Raise an error if the first data file is not as declared; each file is checked again."""
        for data in table.files.data[:1]:
            with self.source.folder.open(data.file.path) as source:
                try:
                    read_head(source, data.file, table.schema, table.dialect)
                except MalformedMessage as error:
                    raise MalformedMessage(f"{data.file.path}: {error.reason}") from None


def _describe_failure(error: Exception) -> str:
    """Describe a failure of the export's storage, or of Spark, on one line."""
    found = _WORKER_ERROR.findall(str(error))
    return (
        describe_error(OSError(found[-1])) if found else describe_error(error)[:_MOST_OF_A_REASON]
    )
