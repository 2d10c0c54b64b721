"""Connections to the upstream database: they only read, and their errors name the setting."""

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from resources.upstream import UpstreamDatabase, find_upstream
from tests.mariadb_server import PASSWORD, MariaDb
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.events.large_rows import RowsUnreadable
from ticdc_assets.lake.verify.upstream_side import Pace, SnapshotTooOld, TableUnreadable


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
    with pytest.raises(ConfigError, match=r"declare the database in \[changefeed.upstream\]"):
        find_upstream(feed)


class FakeConnection:
    """A connection to a server that says it is TiDB: there is none to be had here."""

    open = False

    def __init__(self, statements: list[str], failures: dict[str, tuple[int, str]]) -> None:
        self.statements = statements
        self.failures = failures

    @contextmanager
    def cursor(self) -> Any:
        def execute(sql: str, values: Sequence[str] | None = None) -> None:
            self.statements.append(sql if values is None else f"{sql} {values}")
            if sql in self.failures:
                raise pymysql.err.InternalError(*self.failures[sql])

        def fetchall() -> Sequence[tuple[bytes]]:
            return ((b"8.0.11-TiDB-v8.5.1",),)

        yield SimpleNamespace(execute=execute, fetchall=fetchall)


def test_a_fake_tidb_is_read_at_the_tso_by_several_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statements: list[str] = []
    too_old = {"SELECT too_old": (9006, "GC life time is shorter than …")}
    monkeypatch.setattr(pymysql, "connect", lambda **_: FakeConnection(statements, too_old))
    opened = UpstreamDatabase("shop", Upstream("h", "u"), max_connections=3)
    with opened.open_snapshot(447984124732375041) as upstream:
        assert upstream.is_tidb
        assert upstream.connections == 3
        with pytest.raises(SnapshotTooOld):
            upstream.query("SELECT too_old")
    assert statements.count("SET @@tidb_snapshot = '447984124732375041'") == 3
    # TiDB has no read-only transactions, and accepts no write with a snapshot.
    assert not [sql for sql in statements if "READ ONLY" in sql or "START" in sql]


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
    monkeypatch: pytest.MonkeyPatch, code: int, text: str, kind: type[Exception]
) -> None:
    statements: list[str] = []
    failures = {"SET @@tidb_snapshot = '9'": (code, text)}
    monkeypatch.setattr(pymysql, "connect", lambda **_: FakeConnection(statements, failures))
    with UpstreamDatabase("shop", Upstream("h", "u")).open_rows() as rows:
        assert rows.is_tidb
        rows.read_at(7)
        rows.query("SELECT %s", ["a"])
        with pytest.raises(kind, match=text[:20]) as caught:
            rows.read_at(9)
    # Only the last kind fails a run.
    assert issubclass(kind, ConfigError) == isinstance(caught.value, ConfigError)
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
