"""Connections to the upstream database: they only read, and their errors name the setting."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.mariadb_server import MariaDb
from tests.sql_server import PASSWORD
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.upstream import UpstreamDatabase, find_upstream
from ticdc_assets.upstream.snapshot import (
    Pace,
    RowsUnreadable,
    SnapshotTooOld,
    TableUnreadable,
    UpstreamError,
)


def database(upstream: Upstream, **changes: Any) -> UpstreamDatabase:
    return UpstreamDatabase("shop", replace(upstream, **changes))


def test_a_connection_reads_one_snapshot_and_writes_nothing(mariadb: MariaDb) -> None:
    mariadb.run("CREATE DATABASE conn", "CREATE TABLE conn.t (v int)", "INSERT conn.t VALUES (1)")
    mariadb.run("SET GLOBAL time_zone = '+05:00'", "SET GLOBAL sql_mode = 'ANSI_QUOTES'")
    with database(mariadb.upstream).open_snapshot(1) as upstream:
        mariadb.run("INSERT INTO conn.t VALUES (2)")
        assert upstream.query("SELECT COUNT(*) FROM conn.t") == ((b"1",),)
        settings = "@@time_zone, @@sql_mode, @@character_set_client, CAST(X'00FF' AS BINARY)"
        assert upstream.query(f"SELECT {settings}") == ((b"+00:00", b"", b"utf8mb4", b"\0\xff"),)
        assert upstream.query("SELECT @@lock_wait_timeout") == ((b"30",),)
        assert not upstream.is_tidb
        assert upstream.connections == 1
        for statement in ("INSERT INTO conn.t VALUES (3)", "DROP TABLE conn.t"):
            with pytest.raises(ConfigError, match=r"READ ONLY|denied"):
                upstream.query(statement)
    mariadb.run("SET GLOBAL time_zone = '+00:00'", "SET GLOBAL sql_mode = ''")
    assert mariadb.run("SELECT COUNT(*) FROM conn.t") == [(2,)]


def test_errors_name_the_setting_and_never_the_password(
    mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = mariadb.upstream
    monkeypatch.setenv("WRONG", "wrong-horse-7")
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"password": Reference("env", "WRONG")}, "upstream: user", "check user and password"),
        ({"password": Reference("env", "NONE")}, "upstream: password", "variable NONE"),
        ({"password": Reference("file", "/none")}, "upstream: password", "cannot be read"),
        ({"ca": "/none.pem"}, "upstream: ca", "cannot be read: /none.pem"),
        ({"port": 1}, "upstream: host", "127.0.0.1:1 must be reachable"),
    ]
    for changes, setting, reason in cases:
        opened = database(upstream, **changes)
        with pytest.raises(ConfigError, match=reason) as caught, opened.open_snapshot(1):
            pass
        assert caught.value.setting == f"changefeed shop.{setting}"
        assert "horse" not in f"{caught.value} {caught.value.__cause__!r}"
    with database(upstream, password=Reference("file", str(secret))).open_snapshot(1):
        pass
    snapshot = database(upstream).open_snapshot(1)
    with snapshot as now, pytest.raises(TableUnreadable, match="no_such"):
        now.query("SELECT * FROM no_such.t")
    assert PASSWORD not in repr(upstream)


def test_a_changefeed_without_a_database_is_an_error() -> None:
    feed = changefeed_from_uri("file:///x?protocol=csv", id="shop")
    with pytest.raises(ConfigError, match=r"add \[changefeed.upstream\]"):
        find_upstream(feed)


def test_a_limit_that_would_limit_nothing_is_an_error() -> None:
    feed = replace(changefeed_from_uri("file:///x?protocol=csv"), upstream=Upstream("h", "u"))
    for name, limit in (("rows_per_second", 0), ("rows_per_second", -1), ("max_connections", 0)):
        with pytest.raises(ConfigError, match=f"{name}: must be a positive number"):
            find_upstream(feed, **{name: limit})


class FakeTidb:
    """A server that says it is TiDB: there is none to be had here."""

    def __init__(self) -> None:
        # The statements of each connection, in the order of their first one.
        self.sessions: list[list[str]] = []
        self.open_connections = 0
        self.is_gone = False
        self.failures = {"SELECT too_old": (9006, "GC life time is shorter than …")}

    def connect(self, **_: Any) -> "FakeConnection":
        return FakeConnection(self)


class FakeConnection:
    """A connection to it."""

    def __init__(self, server: FakeTidb) -> None:
        self._server = server
        self.connect()

    def connect(self) -> None:
        self.open = True
        self._server.open_connections += 1
        self.statements: list[str] = []
        self._server.sessions.append(self.statements)

    def close(self) -> None:
        self.open = False
        self._server.open_connections -= 1

    def cursor(self, kind: type | None = None) -> "FakeCursor":
        return FakeCursor(self, self._server)


class FakeCursor:
    """A cursor of it."""

    _result = None

    def __init__(self, connection: FakeConnection, server: FakeTidb) -> None:
        self._connection, self._server = connection, server
        self._rows: list[tuple[bytes, ...]] = []

    def __enter__(self) -> "FakeCursor":
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str, values: Sequence[str] | None = None) -> None:
        self._connection.statements.append(sql if values is None else f"{sql} {values}")
        if sql in self._server.failures:
            raise pymysql.err.InternalError(*self._server.failures[sql])
        if self._server.is_gone:
            self._connection.close()
            raise pymysql.err.OperationalError(2013, "Lost connection to server during query")
        replies = {
            "SELECT VERSION()": (b"8.0.11-TiDB-v8.5.1",),
            "SELECT @@tidb_current_ts": (b"447984124732375041",),
        }
        self._rows = [replies.get(sql, (b"x",))]

    def fetchall(self) -> Sequence[tuple[bytes, ...]]:
        return self._rows

    def fetchone(self) -> tuple[bytes, ...] | None:
        return self._rows.pop() if self._rows else None

    def close(self) -> None: ...


@pytest.fixture
def tidb(monkeypatch: pytest.MonkeyPatch) -> FakeTidb:
    server = FakeTidb()
    monkeypatch.setattr(pymysql, "connect", server.connect)
    return server


AT = "SET @@tidb_snapshot = '447984124732375041'"


def test_a_fake_tidb_is_read_at_the_tso_by_several_connections(tidb: FakeTidb) -> None:
    opened = UpstreamDatabase("shop", Upstream("h", "u"), max_connections=3)
    with opened.open_snapshot(447984124732375041) as upstream:
        assert upstream.is_tidb
        assert upstream.connections == 3
        with pytest.raises(SnapshotTooOld, match="or raise tidb_gc_life_time"):
            upstream.query("SELECT too_old")
    assert [AT in session for session in tidb.sessions] == [True] * 3
    # TiDB has no read-only transactions, and accepts no write with a snapshot.
    sent = [sql for session in tidb.sessions for sql in session]
    assert not [sql for sql in sent if "READ ONLY" in sql or "START" in sql]
    assert tidb.open_connections == 0


def test_a_transaction_of_a_fake_tidb_keeps_the_newest_rows_and_reads_none(tidb: FakeTidb) -> None:
    opened = UpstreamDatabase("shop", Upstream("h", "u"), max_connections=2)
    with opened.open_snapshot(None) as upstream:
        assert upstream.ts == 447984124732375041
        upstream.query("SELECT 1")
        holder, *readers = tidb.sessions
        assert holder[-2:] == ["START TRANSACTION", "SELECT @@tidb_current_ts"]
        assert not [sql for sql in holder if "tidb_snapshot" in sql or sql == "SELECT 1"]
        assert [AT in session for session in readers] == [True, True]
        assert tidb.open_connections == 3
    assert tidb.open_connections == 0


def test_a_connection_to_a_fake_tidb_that_broke_reads_the_same_rows_again(tidb: FakeTidb) -> None:
    opened = UpstreamDatabase("shop", Upstream("h", "u"), max_connections=1)
    with opened.open_snapshot(447984124732375041) as upstream, upstream.borrow() as reader:
        tidb.is_gone = True
        with pytest.raises(UpstreamError, match="h:4000 must be reachable; run it again"):
            list(reader.stream("SELECT 1"))
        tidb.is_gone = False
        assert list(reader.stream("SELECT 2")) == [[(b"x",)]]
        assert tidb.sessions[-1][-2:] == [AT, "SELECT 2"]
        # A stream that nobody reads to its end leaves nothing to be read.
        stream = reader.stream("SELECT 3")
        next(stream)
        stream.close()
        assert tidb.open_connections == 0
        assert reader.query("SELECT 4") == ((b"x",),)
    assert tidb.open_connections == 0


def test_a_stream_goes_on_in_its_transaction_after_one_that_was_left(mariadb: MariaDb) -> None:
    with (
        database(mariadb.upstream).open_snapshot(None) as upstream,
        upstream.borrow() as reader,
    ):
        stream = reader.stream("SELECT seq FROM mysql.seq_1_to_100000")
        assert len(next(stream)) == 10_000
        stream.close()
        assert sum(map(len, reader.stream("SELECT seq FROM mysql.seq_1_to_12345"))) == 12_345
        assert reader.query("SELECT @@in_transaction") == ((b"1",),)


def test_a_connection_that_breaks_in_a_stream_is_an_error_that_says_what_to_do(
    mariadb: MariaDb,
) -> None:
    with (
        database(mariadb.upstream).open_snapshot(None) as upstream,
        upstream.borrow() as reader,
    ):
        ((id,),) = reader.query("SELECT CONNECTION_ID()")
        stream = reader.stream("SELECT seq FROM mysql.seq_1_to_5000000")
        next(stream)
        mariadb.run(f"KILL {int(id or 0)}")
        with pytest.raises(UpstreamError, match="must be reachable; run it again"):
            list(stream)
        with pytest.raises(UpstreamError, match=r"the connection is lost; .* run it again"):
            reader.query("SELECT 1")


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (9006, "GC life time is shorter than transaction duration", SnapshotTooOld),
        (8055, "snapshot is older than GC safe point", SnapshotTooOld),
        (1105, "cannot set read timestamp to a future time", RowsUnreadable),
        (9006, "cannot set read timestamp to a future time.", RowsUnreadable),
        (1146, "Table 'a.b' doesn't exist", RowsUnreadable),
        (1142, "SELECT command denied to user", ConfigError),
        (2013, "Lost connection to MySQL server during query", ConfigError),
        (9002, "TiKV server timeout", ConfigError),
        (1105, "context deadline exceeded", ConfigError),
    ],
)
def test_rows_are_read_from_a_fake_tidb_at_one_tso_after_the_other(
    tidb: FakeTidb, code: int, text: str, kind: type[Exception]
) -> None:
    tidb.failures = {"SET @@tidb_snapshot = '9'": (code, text)}
    with UpstreamDatabase("shop", Upstream("h", "u")).open_rows() as rows:
        assert rows.is_tidb
        rows.read_at(7)
        rows.query("SELECT %s", ["a"])
        with pytest.raises(kind, match=text[:20]) as caught:
            rows.read_at(9)
    # The last kind fails a run, and no other.
    assert (kind is ConfigError) == (type(caught.value) not in (SnapshotTooOld, RowsUnreadable))
    (statements,) = tidb.sessions
    assert statements[-3:] == [
        *("SET @@tidb_snapshot = '7'", "SELECT %s ('a',)", "SET @@tidb_snapshot = '9'"),
    ]
    assert "SET SESSION sql_mode = ''" in statements
    assert "SET SESSION time_zone = '+00:00'" in statements


def test_the_pace_bounds_the_rows_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)
    pace = Pace(1000)
    for _ in range(3):
        pace.spend(500)
    assert slept == [0.5, 0.5, 0.5]
    Pace(None).spend(10**9)
    assert len(slept) == 3
