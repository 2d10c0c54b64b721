"""Load tables, several in parallel; one that cannot be loaded stops no other."""

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.table_errors import TABLE_ERRORS, find_pause_reason
from ticdc_assets.lake.rule_checks import require_key
from ticdc_assets.load.load_table import TableLoader
from ticdc_assets.load.source import LoadSource, TableSource
from ticdc_assets.log.applied_files import find_newest_id, read_snapshot
from ticdc_assets.log.loads import append_load, choose_load_ts, read_loads
from ticdc_assets.plan.load import Load, name_loaded_incarnation
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.safe_text import describe_error
from ticdc_assets.schema.catalog import TableKey, key_of
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.stream.privacy import find_fault, protect_schema
from ticdc_assets.stream.routing import passes_filter
from ticdc_assets.stream.rules import make_rules
from ticdc_assets.upstream.snapshot import UpstreamError

_MOST_OF_A_REASON = 500
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


def require_loadable(feed: Changefeed) -> None:
    """Raise a `ConfigError` if no load can start tables of this changefeed."""
    if feed.renames_tables:
        reason = "renames tables: what is loaded would have other names than the lake's tables"
        raise ConfigError(reason, setting="target-schema or target-table")
    if get_ordering(feed) == "table_version":
        reason = (
            "is not true: rows state no commit ts, so which of them a load has already is not"
            " known; create the changefeed anew, with include-commit-ts = true and another folder,"
            " then load"
        )
        setting = f"changefeed {feed.id}: sink.csv.include-commit-ts"
        raise ConfigError(reason, setting=setting)


def load_tables(
    lake: LakeSession,
    source: LoadSource,
    names: Sequence[str] = (),
    show: ShowProgress = lambda progress: None,
) -> list[TableResult]:
    """Load tables by their names `DB.TABLE`, or all of them, as of the ts of the source.

    Raise a `ConfigError` if nothing can be loaded: nothing was written then.
    """
    require_loadable(lake.feed)
    tables = source.choose_tables(names)
    ts = source.read_ts()
    require_key(lake.feed, lake.location)
    create_tables(lake)
    # Nothing was written to a table yet.
    reader = LakeReader(lake.location)
    ts = choose_load_ts(reader, lake.feed, ts)
    known = _Known.read(reader, takes_newest=source.takes_newest)
    loading = _Loading(lake, ts, known, _Counter(tables, show))
    # A table mostly waits for storage, unless it is large: then Spark shares its cores.
    with ThreadPoolExecutor() as pool:
        return list(pool.map(loading.load, tables))


@dataclass(frozen=True)
class _Known:
    """What was loaded already."""

    loaded: frozenset[str]
    # Tables with a load that the next run takes up and that is as good as another.
    waiting: frozenset[TableKey]

    @classmethod
    def read(cls, reader: LakeReader, *, takes_newest: bool) -> "_Known":
        loads = read_loads(reader)
        waiting: frozenset[TableKey] = frozenset()
        if takes_newest:
            snapshot = read_snapshot(reader, find_newest_id(reader, reader.open("applied")))
            taken_up = snapshot.state.incarnations
            waiting = frozenset(
                key_of(load.schema)
                for load in loads
                if load.incarnation not in taken_up and not load.quarantined
            )
        return cls(
            frozenset(name_loaded_incarnation(load.schema, load.ts) for load in loads), waiting
        )

    def has(self, schema: TableSchema, ts: int) -> bool:
        return key_of(schema) in self.waiting or name_loaded_incarnation(schema, ts) in self.loaded


class _Counter:
    """Adds up what threads have done."""

    def __init__(self, tables: Sequence[TableSource], show: ShowProgress) -> None:
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
    ts: int
    known: _Known
    counter: _Counter

    def load(self, table: TableSource) -> TableResult:
        """Load one table."""
        try:
            result = self._load(table)
        except UpstreamError as error:
            result = TableResult(table.name, "failed", reason=str(error))
        except ConfigError:
            # Of the lake, not of the table.
            raise
        except OSError as error:
            result = TableResult(table.name, "failed", reason=describe_error(error))
        except TABLE_ERRORS as error:
            reason = find_pause_reason(error) or _describe_failure(error)
            result = TableResult(table.name, "failed", reason=reason)
        self.counter.add(tables=1)
        return result

    def _load(self, table: TableSource) -> TableResult:
        """Load one table; raise an error that says why it cannot be."""
        catalog = make_rules(self.lake.feed).make_catalog()
        schema = require_known_types(table.read_schema(catalog))
        if self.known.has(schema, self.ts):
            self.counter.add(size=table.size)
            return TableResult(table.name, "already loaded")
        reason = find_omission(self.lake.feed, schema)
        if reason is not None:
            # It would stay as it is now, whatever happens upstream.
            self.counter.add(size=table.size)
            return TableResult(table.name, "left out", reason=reason)
        table.check(schema)
        privacy = self.lake.feed.privacy
        schema = protect_schema(privacy, schema)
        if fault := find_fault(privacy, schema):
            self.counter.add(size=table.size)
            return TableResult(table.name, "failed", reason=fault)
        loader = TableLoader(self.lake, table, schema, self.ts)
        written = loader.write(lambda rows, size: self.counter.add(rows=rows, size=size))
        load = append_load(
            self.lake,
            Load(
                id=0,
                ts=self.ts,
                incarnation=loader.incarnation,
                schema=schema,
                version=written.version,
                rows=written.rows,
                quarantined=written.quarantined,
                origin=table.origin,
                loaded_at=datetime.now(UTC),
            ),
        )
        if load is None:
            return TableResult(table.name, "already loaded")
        return TableResult(table.name, "loaded", written.rows, written.quarantined)


def _describe_failure(error: Exception) -> str:
    """Describe a failure of storage, or of Spark, on one line."""
    found = _WORKER_ERROR.findall(str(error))
    return (
        describe_error(OSError(found[-1])) if found else describe_error(error)[:_MOST_OF_A_REASON]
    )
