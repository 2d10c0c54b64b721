"""Clients of a real TiDB, and what TiCDC sends of what they do: each change with its commit ts."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.test_load import read_rows
from tests.sql_server import run_on
from tests.tidb_server import Tidb
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.load.load import TableResult, load_tables
from ticdc_assets.load.upstream_source import UpstreamSource
from ticdc_assets.log.loads import read_loads
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.load_source import open_database
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.sql import quote, quote_text
from ticdc_assets.verify.verify import Environment, verify
from ticdc_assets.views.asof import as_of

Row = dict[str, str | None]
_TYPES = {"id": "int", "v": "varchar(20)"}


@dataclass
class TidbFeed:
    """The changefeed of one database; its tables have an `id` and texts."""

    server: Tidb
    database: str
    # Held from before a commit until the feed has its changes.
    lock: threading.Lock = field(default_factory=threading.Lock)
    _sent: list[tuple[int, Message]] = field(default_factory=list)
    _topic: list[Message] = field(default_factory=list)

    def alter(self, table: str, kind: str, sql: str) -> int:
        """Run a DDL, and return its ts."""
        ts = self.server.alter(self.database, sql)
        self.send(ts, ddl(self.database, table, ts, kind, sql))
        return ts

    def send(self, ts: int, message: Message) -> None:
        self._sent.append((ts, message))

    def read_topic(self, until: int) -> list[Message]:
        """Return what it has sent once it is resolved up to a TSO."""
        with self.lock:
            ready = sorted(
                (each for each in self._sent if each[0] <= until), key=lambda each: each[0]
            )
            self._sent = [each for each in self._sent if each[0] > until]
        self._topic += [*(message for _, message in ready), watermark(until)]
        return placed(self._topic)


class Client(threading.Thread):
    """Writes to tables without end; their rows have an `id` and a `v` of their own client's."""

    def __init__(self, feed: TidbFeed, tables: Sequence[str], seed: int) -> None:
        super().__init__(daemon=True)
        self._feed = feed
        self._tables = tables
        self._random = Random(seed)
        self._rows: dict[str, dict[int, str]] = {table: {} for table in tables}
        self._seed = seed
        self.done = 0
        self.must_end = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._feed.server.connect() as connection:
                while not self.must_end.wait(0.001):
                    with self._feed.lock:
                        self._write(connection)
        except BaseException as error:
            self.error = error
            raise

    def _write(self, connection: Any) -> None:
        """Change one row, or two in one transaction."""
        chosen = [self._choose() for _ in range(self._random.choice((1, 1, 2)))]
        if len({(table, id) for table, id in chosen}) < len(chosen):
            return
        self.done += 1
        written = [self._change(table, id) for table, id in chosen]
        run_on(connection, "BEGIN", *(sql for sql, _ in written), "COMMIT")
        ((info,),) = run_on(connection, "SELECT @@tidb_last_txn_info")
        ts = int(json.loads(info)["commit_ts"])
        for _, (kind, table, values, old) in written:
            self._feed.send(ts, change(kind, self._feed.database, table, ts, values, old, **_TYPES))

    def _choose(self) -> tuple[str, int]:
        # Keys of several clients never meet.
        return self._random.choice(self._tables), self._random.randrange(100) * 10 + self._seed

    def _change(self, table: str, id: int) -> tuple[str, tuple[Any, ...]]:
        rows, name = self._rows[table], f"{quote(self._feed.database)}.{quote(table)}"
        old, new = rows.get(id), f"{self._seed} {self.done}"
        key, text = {"id": str(id)}, quote_text(new)
        if old is None:
            rows[id] = new
            sql = f"INSERT INTO {name} (id, v) VALUES ({id}, {text})"
            return sql, ("INSERT", table, key | {"v": new}, None)
        if self._random.random() < 0.3:
            del rows[id]
            return f"DELETE FROM {name} WHERE id = {id}", ("DELETE", table, key | {"v": old}, None)
        rows[id] = new
        sql = f"UPDATE {name} SET v = {text} WHERE id = {id}"
        return sql, ("UPDATE", table, key | {"v": new}, {"v": old})


@contextmanager
def busy(feed: TidbFeed, *tables: str, clients: int = 2) -> Iterator[list[Client]]:
    """Let clients write to tables for the duration of the context, and before it begins."""
    started = [Client(feed, tables, seed) for seed in range(1, clients + 1)]
    for client in started:
        client.start()
    try:
        wait_for_writes(started)
        yield started
    finally:
        for client in started:
            client.must_end.set()
        for client in started:
            client.join()
    assert [client.error for client in started if client.error] == []


def wait_for_writes(clients: Sequence[Client], more: int = 20) -> None:
    """Wait until each client has written some more."""
    wanted = [client.done + more for client in clients]
    until = threading.Event()
    for client, done in zip(clients, wanted, strict=True):
        while client.done < done:
            assert client.is_alive(), client.error
            until.wait(0.005)


# What a lake makes of it


@dataclass(frozen=True)
class TidbLake:
    """A lake of the database, with a session."""

    feed: TidbFeed
    session: LakeSession

    @classmethod
    def make(cls, feed: TidbFeed, root: Path, start_spark: Any, **settings: Any) -> "TidbLake":
        """Make one; rows are few, so Spark starts only if a table is to count as large."""
        declared = replace(FEED, start_ts=1, filter_rules=(f"{feed.database}.*",))
        declared = replace(declared, **settings)
        return cls(feed, LakeSession(start_spark, Lake(str(root), "f"), declared))

    @property
    def database(self) -> UpstreamDatabase:
        return UpstreamDatabase("f", self.feed.server.upstream)

    def open_source(self, ts: int | None = None) -> AbstractContextManager[UpstreamSource]:
        return open_database(self.database, self.session.feed, ts)

    def load(self, ts: int | None = None, *names: str) -> dict[str, TableResult]:
        with self.open_source(ts) as source:
            return {result.name: result for result in load_tables(self.session, source, names)}

    def read_loaded(self) -> dict[str, tuple[int, list[Row]]]:
        """Return ts and rows of each table that was loaded."""
        reader = LakeReader(self.session.location)
        return {
            load.schema.table: (load.ts, sort_rows(read_rows(self.session, load)))
            for load in read_loads(reader)
        }

    def advance(self, until: int) -> list[str]:
        """Take what TiCDC sends up to a ts, and return the problems."""
        messages = self.feed.read_topic(until)
        source = RecordSource(lambda _: messages, open_upstream=self.database.open_rows)
        return [problem.describe() for problem in advance(self.session, source).applied.problems]

    def show(self, ts: int | None = None) -> dict[str, list[Row]]:
        """Return the rows of all tables."""
        seen = as_of(self.session, ts)
        return {
            table.schema.table: sort_rows(map(json.loads, seen.lines(table)))
            for table in seen.tables()
        }

    def verify(self, *names: str, **settings: Any) -> dict[str, TableVerification]:
        defaults: dict[str, Any] = {"open_upstream": self.database.open_snapshot}
        environment = Environment(
            LakeReader(self.session.location),
            self.session.feed,
            lambda: self.session,
            **defaults | settings,
        )
        return {found.table: found for found in verify(environment, names, lambda _: None)}


def read_truth(feed: TidbFeed, table: str, ts: int) -> list[Row]:
    """Return the rows that the server shows at a TSO, each value as a text."""
    name = f"{quote(feed.database)}.{quote(table)}"
    found = feed.server.read_at(ts, f"SHOW COLUMNS FROM {name}")
    names = [name if isinstance(name, str) else name.decode() for name, *_ in found]
    rows = feed.server.read_at(ts, f"SELECT * FROM {name}")
    return sort_rows(dict(zip(names, map(_as_text, row), strict=True)) for row in rows)


def _as_text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.hex()
    return None if value is None else str(value)


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: sorted(row.items(), key=str))
