"""The database upstream as the source of a load: this process reads its tables, page by page.

All connections read the same snapshot.  A table has one of them while it is read, so as many tables
as there are connections are read at a time, and of each no more is held than two portions: one is
read while Spark writes the one before it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.load.source import check_ts, choose_named
from ticdc_assets.load.upstream_pages import PageReader
from ticdc_assets.schema.catalog import SchemaCatalog, TableKey, table_key
from ticdc_assets.stream.routing import passes_filter
from ticdc_assets.upstream.ddl_jobs import (
    UnfinishedDdl,
    explain_hidden_jobs,
    find_unfinished,
)
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import TableUnreadable, UpstreamSnapshot
from ticdc_assets.upstream.sql import SYSTEM_DATABASES, decode

# Of rows as texts; each portion is a commit.
_BYTES_PER_PORTION = 32 << 20
_KINDS = {"VIEW": "a view: it has no rows of its own", "SEQUENCE": "a sequence"}
# How long to look for a TSO at which no DDL is unfinished, and how often, in seconds.
_PATIENCE, _POLL_INTERVAL = 30.0, 0.5
_UNFINISHED = (
    "at this TSO, TiDB is in the middle of a DDL of it, and readers see a part of that before its"
    " commit ts: load it when the DDL has ended, or as of before it (--at {}): {}"
)


class UpstreamSource:
    """The tables of a changefeed on its database server, at one moment."""

    def __init__(
        self, snapshot: UpstreamSnapshot, address: str, feed: Changefeed, *, takes_newest: bool
    ) -> None:
        self.snapshot = snapshot
        self._feed = feed
        self.origin = address
        self.takes_newest = takes_newest
        self.skipped: list[tuple[str, str]] = []
        self._tables: list[UpstreamTable] = []
        self.notes, unfinished = _list_unfinished(snapshot)
        listed = ", ".join(f"'{name}'" for name in SYSTEM_DATABASES)
        id = "TIDB_TABLE_ID" if snapshot.is_tidb else "NULL"
        rows = snapshot.query(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, DATA_LENGTH, {id}"
            " FROM information_schema.TABLES"
            f" WHERE LOWER(TABLE_SCHEMA) NOT IN ({listed}) ORDER BY 1, 2"
        )
        for row in rows:
            database, name, kind = (decode(value) for value in row[:3])
            id_now = int(row[4]) if row[4] is not None else None
            ddl = next((each for each in unfinished if each.concerns(database, name, id_now)), None)
            table = UpstreamTable(self, database, name, int(row[3] or 0), ddl)
            if kind == "BASE TABLE":
                self._tables.append(table)
            elif passes_filter(feed, database, name):
                self.skipped.append((table.name, _KINDS.get(kind, f"a {kind.lower()}")))
        self._spelled: dict[TableKey, list[str]] = defaultdict(list)
        for table in self._tables:
            self._spelled[table_key(table.database, table.table)].append(table.name)

    def read_ts(self) -> int:
        """Return the TSO of the snapshot; raise a `ConfigError` without one, or for one to come."""
        if self.snapshot.ts is None:
            reason = (
                "is missing: the server is not TiDB, so only you know the ts up to which it has"
                " all changes of the changefeed"
            )
            raise ConfigError(reason, setting="--at")
        # TiDB chose the newest ts itself, by its own clock.
        return self.snapshot.ts if self.takes_newest else check_ts(self.snapshot.ts, setting="--at")

    def list_spelled(self, database: str, table: str) -> list[str]:
        """List the names of tables that are one for TiDB: other servers tell cases apart."""
        return self._spelled[table_key(database, table)]

    def choose_tables(self, names: Sequence[str]) -> list["UpstreamTable"]:
        """Return the tables of these names; by default all that the changefeed's filter lets pass.

        Raise a `ConfigError` for an unknown one.
        """
        if names:
            return choose_named(
                self._tables,
                names,
                self.skipped,
                lambda name: f"{self.origin} has no table {name}, or the user may not read it",
            )
        passing = [t for t in self._tables if passes_filter(self._feed, t.database, t.table)]
        if not passing:
            reason = "has no table of the changefeed that the user may read: grant it SELECT"
            raise ConfigError(reason, setting=self.origin)
        return passing


@contextmanager
def open_upstream_source(
    open_snapshot: Callable[[int | None], AbstractContextManager[UpstreamSnapshot]],
    address: str,
    feed: Changefeed,
    ts: int | None,
    names: Sequence[str],
) -> Iterator[UpstreamSource]:
    """Open the tables of a changefeed as of a TSO.

    By default, it is the newest; if DDL of these tables, or of any, is unfinished, a newer one.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        with open_snapshot(ts) as snapshot:
            source = UpstreamSource(snapshot, address, feed, takes_newest=ts is None)
            is_unfinished = any(table.unfinished for table in source.choose_tables(names))
            if ts is not None or not is_unfinished or time.monotonic() >= until:
                yield source
                return
        time.sleep(_POLL_INTERVAL)


def _list_unfinished(snapshot: UpstreamSnapshot) -> tuple[list[str], list[UnfinishedDdl]]:
    """List the DDL that readers may see a part of; if that is hidden, say so."""
    if not snapshot.is_tidb:
        return [], []
    hidden = explain_hidden_jobs(snapshot.query)
    return ([], find_unfinished(snapshot.query)) if hidden is None else ([hidden], [])


@dataclass(frozen=True)
class UpstreamTable:
    """A table of the database."""

    source: UpstreamSource
    database: str
    table: str
    # An estimate of the server's.
    size: int
    # One that readers may see a part of.
    unfinished: UnfinishedDdl | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def origin(self) -> str:
        return f"{self.source.origin}/{self.database}"

    def read_schema(self, catalog: SchemaCatalog) -> TableSchema:
        if self.unfinished is not None:
            reason = _UNFINISHED.format(self.unfinished.start_ts, self.unfinished.sql)
            raise TableUnreadable(reason)
        spelled = self.source.list_spelled(self.database, self.table)
        if len(spelled) > 1:
            names = " and ".join(sorted(spelled))
            raise MalformedMessage(f"the database has {names}, which are one table for TiDB")
        return read_definition(self.source.snapshot.query, self.database, self.table, catalog)

    def check(self, schema: TableSchema) -> None:
        """Do nothing: the server prints rows as its own schema says."""

    def read_portions(self, schema: TableSchema) -> Generator["UpstreamPortion"]:
        snapshot = self.source.snapshot
        portion = UpstreamPortion()
        with (
            snapshot.borrow() as reader,
            closing(PageReader(reader, schema, is_tidb=snapshot.is_tidb).read()) as pages,
        ):
            for page, batch in pages:
                snapshot.pace.spend(batch.num_rows)
                portion.add(f"{self.name}: {page}", batch)
                if portion.size >= _BYTES_PER_PORTION:
                    yield portion
                    portion = UpstreamPortion()
        if portion.size:
            yield portion


@dataclass
class UpstreamPortion:
    """Rows that were read."""

    size: int = 0
    _batches: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)

    is_here = True

    def add(self, source: str, batch: pa.RecordBatch) -> None:
        """Add rows of a page."""
        self._batches.append((source, batch))
        self.size += batch.nbytes

    @property
    def readings(self) -> list["UpstreamPortion"]:
        return [self]

    def read(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows with their pages."""
        return iter(self._batches)
