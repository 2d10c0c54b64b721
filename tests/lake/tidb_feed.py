"""Clients of a real TiDB, and what TiCDC sends of what they do: each change with its commit ts."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.lake.canal import change, ddl, watermark
from tests.sql_server import run_on
from tests.tidb_server import Tidb
from ticdc_assets.protocols.message import Message
from ticdc_assets.upstream.sql import quote, quote_text

_TYPES = {"id": "int", "v": "varchar(20)"}


@dataclass
class TidbFeed:
    """The changefeed of one database; its tables have an `id` and texts."""

    server: Tidb
    database: str
    _sent: list[tuple[int, Message]] = field(default_factory=list)

    def alter(self, table: str, kind: str, sql: str) -> int:
        """Run a DDL, and return its ts."""
        ts = self.server.alter(self.database, sql)
        self._sent.append((ts, ddl(self.database, table, ts, kind, sql)))
        return ts

    def send(self, ts: int, message: Message) -> None:
        self._sent.append((ts, message))

    def messages(self, until: int) -> list[Message]:
        """Return what it sends up to a ts, and that ts itself."""
        ordered = sorted(
            (each for each in self._sent if each[0] <= until), key=lambda each: each[0]
        )
        return [*(message for _, message in ordered), watermark(until)]


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
        # While it is held, nothing is written.
        self.pause = threading.Lock()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._feed.server.connect() as connection:
                while not self.must_end.wait(0.001):
                    with self.pause:
                        self._write(connection)
        except BaseException as error:
            self.error = error
            raise

    def _write(self, connection: object) -> None:
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

    def _change(self, table: str, id: int) -> tuple[str, tuple]:
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
