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
from ticdc_assets.changefeed.upstream import Tls, Upstream
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
        ({"tls": Tls("/none.pem")}, "upstream: ca", "cannot be read: /none.pem"),
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
    """A connection, and its cursor, that says it is TiDB, and fails as only a cluster does."""

    open = True

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.failures: dict[str, tuple[int, str]] = {}

    def cursor(self) -> "FakeTidb":
        return self

    def __enter__(self) -> "FakeTidb":
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str, values: Sequence[str] | None = None) -> None:
        self.statements.append(sql if values is None else f"{sql} {values}")
        if sql in self.failures:
            raise pymysql.err.InternalError(*self.failures[sql])

    def fetchall(self) -> Sequence[tuple[bytes, ...]]:
        return [(b"8.0.11-TiDB-v8.5.1",)]

    def close(self) -> None: ...


@pytest.fixture
def fake_tidb(monkeypatch: pytest.MonkeyPatch) -> FakeTidb:
    connection = FakeTidb()
    monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
    return connection


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
    fake_tidb: FakeTidb, code: int, text: str, kind: type[Exception]
) -> None:
    fake_tidb.failures = {"SET @@tidb_snapshot = '9'": (code, text)}
    with UpstreamDatabase("shop", Upstream("h", "u")).open_rows() as rows:
        assert rows.is_tidb
        rows.read_at(7)
        rows.query("SELECT %s", ["a"])
        with pytest.raises(kind, match=text[:20]) as caught:
            rows.read_at(9)
    # The last kind fails a run, and no other.
    assert (kind is ConfigError) == (type(caught.value) not in (SnapshotTooOld, RowsUnreadable))
    statements = fake_tidb.statements
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
