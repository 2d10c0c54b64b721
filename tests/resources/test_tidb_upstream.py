"""Connections to a real TiDB: what they read, and what its faults look like to people."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import make_certificates
from tests.lake.tidb_feed import TidbFeed, TidbLake
from tests.sql_server import PASSWORD, USER, SqlServer, run_on
from tests.tidb_server import Tidb, run_tidb
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Tls
from ticdc_assets.errors import ConfigError
from ticdc_assets.load import upstream_pages
from ticdc_assets.load.load import load_tables
from ticdc_assets.resources import inspect_upstream as inspect_upstream_module
from ticdc_assets.resources.inspect_upstream import inspect_upstream
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.upstream.snapshot import (
    RowsUnreadable,
    SnapshotTooOld,
    UpstreamError,
)

FEED = changefeed_from_uri("file:///x?protocol=csv", id="shop")
# What `check` reads at, without the distance to the clock of another machine.
_NOW = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
HOUR = 3_600_000 << 18


@pytest.fixture
def server(tidb: Tidb) -> Tidb:
    tidb.run(
        *("DROP DATABASE IF EXISTS conn", "CREATE DATABASE conn", "USE conn"),
        *("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)"),
    )
    return tidb


def database(server: SqlServer, **changes: Any) -> UpstreamDatabase:
    settings = {name: changes.pop(name) for name in ("max_connections",) if name in changes}
    return UpstreamDatabase("shop", replace(server.upstream, **changes), **settings)


def test_several_connections_read_the_newest_tso_and_write_nothing(server: Tidb) -> None:
    before = server.now()
    with database(server, max_connections=3).open_snapshot(None) as upstream:
        assert upstream.is_tidb
        assert upstream.ts is not None
        assert before < upstream.ts < server.now()
        server.run("DELETE FROM conn.t WHERE id = 1", "ALTER TABLE conn.t ADD COLUMN w int")
        with upstream.borrow() as one, upstream.borrow() as two, upstream.borrow() as three:
            for reader in (one, two, three):
                assert reader.query("SELECT * FROM conn.t") == ((b"1",), (b"2",), (b"3",))
            for sql in ("INSERT INTO conn.t VALUES (9)", "DROP TABLE conn.t"):
                with pytest.raises(ConfigError, match=r"tidb_snapshot|denied"):
                    one.query(sql)
        # What collects garbage spares the oldest transaction that is open.
        held = server.run(f"SELECT ID FROM information_schema.TIDB_TRX WHERE USER = '{USER}'")
        assert len(held) == 1
    with database(server).open_rows() as rows:
        rows.read_at(before)
        assert rows.query("SELECT COUNT(*) FROM conn.t") == ((b"3",),)
        rows.read_at(server.now())
        assert rows.query("SELECT id, w FROM conn.t WHERE id = %s", ["2"]) == ((b"2", None),)


def test_a_connection_that_broke_reads_the_same_rows_again(server: Tidb) -> None:
    rows = [(b"1",), (b"2",), (b"3",)]
    opened = database(server, max_connections=1)
    with opened.open_snapshot(None) as upstream, upstream.borrow() as reader:
        ((id,),) = reader.query("SELECT CONNECTION_ID()")
        server.run("DELETE FROM conn.t WHERE id = 1", f"KILL TIDB CONNECTION {int(id or 0)}")
        with pytest.raises(UpstreamError, match="must be reachable; run it again"):
            list(reader.stream("SELECT * FROM conn.t"))
        assert list(reader.stream("SELECT * FROM conn.t")) == [rows]
        # A stream that nobody reads to its end leaves nothing to be read.
        many = "SELECT a.id FROM " + ", ".join(f"conn.t {name}" for name in "abcdefghi")
        stream = reader.stream(many)
        assert len(next(stream)) == 10_000
        stream.close()
        assert reader.query("SELECT * FROM conn.t") == tuple(rows)
        assert sum(map(len, reader.stream(many))) == 3**9


# What limits the time of a query, a value of it, and the error of a query that takes longer.
LIMITS = {
    "tidb": ("max_execution_time", "200", 3024),
    "mariadb": ("max_statement_time", "0.2", 1969),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_limits_on_the_time_of_sessions_and_queries_are_for_others(
    request: pytest.FixtureRequest, kind: str
) -> None:
    running: SqlServer = request.getfixturevalue(kind)
    limit, least, code = LIMITS[kind]
    running.run("CREATE DATABASE IF NOT EXISTS slow", "DROP TABLE IF EXISTS slow.t")
    running.run("CREATE TABLE slow.t (id int)", "INSERT INTO slow.t VALUES (1), (2)")
    query = "SELECT id, SLEEP(0.3) FROM slow.t"
    ((idle,),) = running.run("SELECT @@GLOBAL.wait_timeout")
    running.run(f"SET GLOBAL {limit} = {least}", "SET GLOBAL wait_timeout = 1")
    try:
        with running.connect() as client:
            assert _find_code(lambda: run_on(client, query)) == code
        opened = database(running, max_connections=1)
        with (
            opened.open_snapshot(None) as upstream,
            upstream.borrow() as reader,
            opened.open_rows() as rows,
        ):
            assert sum(map(len, reader.stream(query))) == 2
            time.sleep(1.5)
            assert len(reader.query(query)) == len(rows.query(query)) == 2
    finally:
        running.run(f"SET GLOBAL {limit} = 0", f"SET GLOBAL wait_timeout = {idle}")


def _find_code(run: Any) -> int:
    with pytest.raises(Exception, match="interrupted") as caught:
        run()
    code: int = caught.value.args[0]
    return code


def test_an_answer_that_takes_too_long_is_an_error_and_the_next_one_comes(
    server: Tidb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.resources.upstream._READ_TIMEOUT", 1)
    opened = database(server, max_connections=1)
    with opened.open_snapshot(None) as upstream:
        server.run("DELETE FROM conn.t WHERE id = 1")
        with pytest.raises(UpstreamError, match=r"timed out.* must be reachable; run it again"):
            upstream.query("SELECT SLEEP(4)")
        # At the same TSO.
        assert upstream.query("SELECT COUNT(*) FROM conn.t") == ((b"3",),)


def test_what_tidb_keeps_no_more_or_not_yet_is_an_error_that_says_so(server: Tidb) -> None:
    gone = server.now()
    kept = server.commit("INSERT INTO conn.t VALUES (4)")
    opened = database(server)
    with (
        opened.open_snapshot(gone) as upstream,
        opened.open_rows() as rows,
        server.collect_garbage(kept),
    ):
        # A connection that is open finds out, too.
        with upstream.borrow() as reader:
            reader.query("SELECT 1")
        with pytest.raises(SnapshotTooOld, match="or raise tidb_gc_life_time"):
            rows.read_at(gone)
        with pytest.raises(SnapshotTooOld), opened.open_snapshot(gone):
            pass
        with opened.open_snapshot(kept) as later:
            assert later.query("SELECT COUNT(*) FROM conn.t") == ((b"4",),)
    with opened.open_rows() as rows, pytest.raises(RowsUnreadable, match="future"):
        rows.read_at(server.now() + HOUR)
    with pytest.raises(UpstreamError, match="future"), opened.open_snapshot(server.now() + HOUR):
        pass


def test_a_tidb_that_reads_no_past_says_until_when(server: Tidb) -> None:
    name = "variable_name = 'tikv_gc_safe_point'"
    (row,) = server.run(f"SELECT * FROM mysql.tidb WHERE {name}")
    server.run(f"DELETE FROM mysql.tidb WHERE {name}")
    try:
        for ts in (None, server.now()):
            with pytest.raises(UpstreamError) as caught, database(server).open_snapshot(ts):
                pass
            assert str(caught.value).endswith(
                "TiDB reads no past before its garbage collector has run: run it again later"
            )
    finally:
        server.run(("INSERT INTO mysql.tidb VALUES (%s, %s, %s)", row))


@pytest.fixture
def lake(server: Tidb, tmp_path: Path) -> TidbLake:
    server.run("USE conn", "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (7)")
    return TidbLake.make(TidbFeed(server, "conn"), tmp_path / "lake", lambda: None)


@contextmanager
def as_user(lake: TidbLake, monkeypatch: pytest.MonkeyPatch, *grants: str) -> Iterator[list[str]]:
    """Read as a user with some rights; yield what `check` says of it."""
    server = lake.feed.server
    server.run(
        *("DROP USER IF EXISTS few", f"CREATE USER few IDENTIFIED BY '{PASSWORD}'"),
        *(f"GRANT {grant} TO few" for grant in grants),
    )
    few = UpstreamDatabase("f", replace(server.upstream, user="few"))
    monkeypatch.setattr(TidbLake, "database", few)
    feed = replace(lake.session.feed, upstream=few.upstream)
    yield [f"{f.result}: {f.message}" for f in inspect_upstream(feed, lake.session.location.root)]


def test_a_table_that_is_younger_than_what_check_reads_is_no_failure(
    lake: TidbLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lake.feed.server.now() >> 18
    monkeypatch.setattr(inspect_upstream_module, "_MOMENT", f"SELECT {before + 1}")
    lake.feed.server.run("DO SLEEP(0.01)", "CREATE TABLE conn.younger (id int PRIMARY KEY)")
    with as_user(lake, monkeypatch, "SELECT ON *.*") as said:
        assert [line.partition(" at ")[0] for line in said] == ["ok: TiDB"]
        assert said[0].endswith("shows this user 2 tables")


def test_each_right_that_is_missing_is_named(
    lake: TidbLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_upstream_module, "_MOMENT", _NOW)
    lake.load()
    assert lake.advance(lake.feed.server.now()) == []
    hidden = "GRANT SELECT ON mysql.tidb_ddl_job to the user of [changefeed.upstream]"
    with as_user(lake, monkeypatch) as said:
        assert "shows this user no table that the changefeed sends" in said[0]
        with pytest.raises(ConfigError, match="no table of the changefeed that the user may read"):
            lake.load()
        reasons = {found.reason for found in lake.verify().values()}
        assert reasons == {"upstream has no such table, or the user may not read it"}
    with as_user(lake, monkeypatch, "SELECT ON conn.t", "INSERT ON conn.u") as said:
        assert hidden in said[0]
        assert "cannot read conn.u" in said[1]
        with lake.open_source() as source:
            assert hidden in source.notes[0]
            results = {r.name: r for r in load_tables(lake.session, source)}
        assert results["conn.t"].outcome == "loaded"
        assert results["conn.u"].outcome == "failed"
        assert "denied to user 'few'" in (results["conn.u"].reason or "")
        verdicts = {name: found.verdict for name, found in lake.verify().items()}
        assert verdicts == {"t": "equal", "u": "skipped"}
    grants = ("SELECT ON conn.*", "SELECT ON mysql.tidb_ddl_job")
    with as_user(lake, monkeypatch, *grants) as said:
        (only,) = said
        assert only.startswith("ok: TiDB at ")
        assert only.endswith("shows this user 2 tables")
        assert {found.verdict for found in lake.verify().values()} == {"equal"}
        # A right that is taken away while it is needed.
        with lake.open_source() as source:
            lake.feed.server.run("REVOKE SELECT ON conn.* FROM few")
            results = {r.name: r for r in load_tables(lake.session, source)}
        assert {r.outcome for r in results.values()} == {"failed"}


def test_connections_are_encrypted_and_name_a_certificate_that_is_not_trusted(
    tmp_path: Path,
) -> None:
    make_certificates(tmp_path, "tidb")
    pem = str(tmp_path / "tidb.pem")
    with run_tidb(tmp_path, "-cert", pem, "-key", pem) as tidb:
        for host in ("127.0.0.1", "localhost"):
            tidb.run(f"ALTER USER {USER}@'{host}' REQUIRE SSL")
        with database(tidb, tls=Tls(str(tmp_path / "ca.pem"))).open_snapshot(None) as upstream:
            ((_, cipher),) = upstream.query("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cipher
        other = database(tidb, tls=Tls(str(tmp_path / "other-ca.pem")))
        with pytest.raises(UpstreamError, match="certificate verify failed"), other.open_rows():
            pass
        with pytest.raises(UpstreamError, match="denied") as caught, database(tidb).open_rows():
            pass
        assert PASSWORD not in str(caught.value)


def test_a_load_is_finished_after_the_server_was_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 2)
    with run_tidb(tmp_path, "-data", str(tmp_path / "data")) as tidb:
        rows = ", ".join(f"({id})" for id in range(20))
        tidb.run(
            *("CREATE DATABASE conn", "USE conn"),
            *(f"CREATE TABLE t{n} (id int PRIMARY KEY)" for n in range(4)),
            *(f"INSERT INTO t{n} VALUES {rows}" for n in range(4)),
        )
        lake = TidbLake.make(TidbFeed(tidb, "conn"), tmp_path / "lake", lambda: None)
        restarts = [tidb.kill, tidb.start]
        with lake.open_source() as source:
            spend, lock = source.snapshot.pace.spend, threading.Lock()

            def restart(rows: int) -> None:
                with lock:
                    while restarts:
                        restarts.pop(0)()
                spend(rows)

            source.snapshot.pace.spend = restart  # type: ignore[method-assign]
            first = load_tables(lake.session, source)
        failed = {result.name: result.reason or "" for result in first if result.rows == 0}
        assert failed
        for reason in failed.values():
            assert "must be reachable; run it again to continue" in reason
        again = lake.load()
        assert {name for name, r in again.items() if r.outcome == "loaded"} == set(failed)
        assert lake.advance(tidb.now()) == []
        shown = lake.show()
        expected = [{"id": str(id)} for id in range(20)]
        assert {name: sorted(found, key=str) for name, found in shown.items()} == {
            f"t{n}": sorted(expected, key=str) for n in range(4)
        }
        assert {found.verdict for found in lake.verify().values()} == {"equal"}


@pytest.mark.parametrize("password", ["pä", "пароль"])
def test_a_password_is_sent_as_utf8(
    server: Tidb, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run(
        f"CREATE USER IF NOT EXISTS far@'%' IDENTIFIED BY '{password}'",
        f"ALTER USER far@'%' IDENTIFIED BY '{password}'",
        "GRANT SELECT ON conn.* TO far@'%'",
    )
    monkeypatch.setenv("FAR", password)
    secret = Reference("env", "FAR")
    with database(server, user="far", password=secret).open_snapshot(None) as upstream:
        assert upstream.query("SELECT COUNT(*) FROM conn.t") == ((b"3",),)
