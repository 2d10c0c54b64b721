"""Connections read the same rows, whatever a server sets for the sessions of its clients."""

import pytest

from tests.sql_server import SqlServer
from tests.tidb_server import Tidb
from ticdc_assets.resources.upstream import UpstreamDatabase


@pytest.mark.parametrize("kind", ["tidb", "mariadb"])
def test_what_a_server_sets_for_its_clients_hides_no_row(
    request: pytest.FixtureRequest, kind: str
) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    server.run("CREATE DATABASE IF NOT EXISTS many", "DROP TABLE IF EXISTS many.t")
    server.run("CREATE TABLE many.t (id int)", "INSERT INTO many.t VALUES (1), (2), (3)")
    query = "SELECT id FROM many.t ORDER BY id"
    all_rows = tuple((str(id).encode(),) for (id,) in server.run(query))
    server.run("SET GLOBAL sql_select_limit = 2", "SET GLOBAL autocommit = 0")
    try:
        assert len(server.run(query)) == 2 < len(all_rows)
        opened = UpstreamDatabase("shop", server.upstream, max_connections=1)
        with (
            opened.open_snapshot(None) as upstream,
            upstream.borrow() as reader,
            opened.open_rows() as rows,
        ):
            streamed = [row for portion in reader.stream(query) for row in portion]
            assert tuple(streamed) == reader.query(query) == rows.query(query) == all_rows
    finally:
        server.run("SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL autocommit = 1")


def test_a_tidb_that_shows_its_clients_a_tso_of_its_own_reads_at_the_one_that_is_stated(
    tidb: Tidb,
) -> None:
    tidb.run("CREATE DATABASE IF NOT EXISTS many", "DROP TABLE IF EXISTS many.u")
    tidb.run("CREATE TABLE many.u (v int)", "INSERT INTO many.u VALUES (1)")
    times = {tidb.now(): b"1"}
    for value in (2, 3):
        tidb.run(f"UPDATE many.u SET v = {value}")
        times[tidb.now()] = str(value).encode()
    _, shown, newest = times
    query = "SELECT v FROM many.u"
    tidb.run(f"SET GLOBAL tidb_external_ts = {shown}")
    tidb.run("SET GLOBAL tidb_enable_external_ts_read = ON")
    try:
        assert tidb.run(query) == [(2,)]
        opened = UpstreamDatabase("shop", tidb.upstream, max_connections=1)
        for ts, value in times.items():
            with opened.open_snapshot(ts) as upstream, opened.open_rows() as rows:
                rows.read_at(ts)
                assert upstream.query(query) == rows.query(query) == ((value,),)
        # By default, what it shows its clients.
        with opened.open_snapshot(None) as upstream:
            assert (upstream.ts, upstream.query(query)) == (shown, ((times[shown],),))
    finally:
        tidb.run("SET GLOBAL tidb_enable_external_ts_read = OFF")
    assert tidb.run(query) == [(int(times[newest]),)]
