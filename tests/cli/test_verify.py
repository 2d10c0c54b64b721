"""The command `verify`, and its job in the graph, on a real server; neither needs Spark here."""

import json
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pymysql
import pytest

from tests.cli.conftest import Run
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb
from tests.servers import HOST
from ticdc_assets import definitions
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.verify import table

DDL = "CREATE TABLE goods (id int NOT NULL PRIMARY KEY, title varchar(20))"
TITLES = ["one", "two", "three"]


@pytest.fixture
def shop(mariadb: MariaDb, tmp_path: Path) -> tuple[UpstreamCopy, list[object]]:
    """A lake that equals a database, and the options of a command on it."""
    mariadb.run(
        "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4",
        "USE shop",
        DDL,
        "INSERT INTO goods VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    )
    copy = UpstreamCopy.make(None, tmp_path / "lake", mariadb)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "title": TITLES})
    copy.put_arrow(read_schema("shop", DDL), rows)
    file = mariadb.declare(tmp_path / "changefeeds.toml")
    return copy, ["--changefeeds", file, "--lake", tmp_path / "lake"]


def test_the_command_says_what_differs_and_needs_no_spark(
    shop: tuple[UpstreamCopy, list[object]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.cli.verify.open_lake", None)
    copy, options = shop
    code, out, err = run("verify", *options, "--wait", 0)
    assert (code, err) == (0, [])
    assert "shop.goods: equal at 10 " in out.decode()
    assert "3 rows in the lake, 3 upstream; 0 sent" in out.decode()

    copy.server.run("USE shop", "UPDATE goods SET title = 'zwei' WHERE id = 2")
    code, out, err = run("verify", *options, "--wait", 0, "--table", "shop.goods")
    assert code == 1
    assert 'differs in title: {"id": "2"} (missed)' in out.decode()
    assert err == ["differs: shop.goods: 1 row: see the lake's table differences"]
    code, out, _ = run("verify", *options, "--wait", 0, "--format", "json")
    found = json.loads(out)
    stated = [found[name] for name in ("table", "verdict", "resolved_ts")]
    assert (code, stated) == (1, ["goods", "differs", 10])
    (difference,) = found["differences"]
    assert (difference["key"], difference["columns"]) == ('{"id": "2"}', ["title"])

    # While somebody locks the table.
    monkeypatch.setattr("ticdc_assets.resources.upstream._LOCK_WAIT", 0)
    copy.server.run("USE shop", "UPDATE goods SET title = 'two' WHERE id = 2")
    with pymysql.connect(host=HOST, port=copy.server.port, user="root") as holder:
        holder.query("LOCK TABLES shop.goods WRITE")
        code, out, err = run("verify", *options, "--wait", 0)
        assert (code, len(err)) == (1, 1)
        assert err[0].startswith("skipped: shop.goods: Lock wait timeout exceeded")

    # A row that the lake has twice.
    rows = pa.table({"id": pa.array([1, 2, 3, 3], pa.int32()), "title": [*TITLES, "three"]})
    copy.put_arrow(read_schema("shop", DDL), rows)
    code, out, err = run("verify", *options, "--wait", 0)
    assert (code, err) == (1, ["differs: shop.goods: 1 row: see the lake's table differences"])
    assert 'extra: {"id": "3"} (missed)' in out.decode()
    # Whatever the rows look like: tables of which one has more rows are not equal.
    monkeypatch.setattr(table, "find_different_rows", lambda *_: iter(()))
    code, out, err = run("verify", *options, "--wait", 0)
    assert (code, len(err)) == (1, 1)
    assert "rows: 4 in the lake, 3 upstream, but none was found that differs" in err[0]

    copy.server.run("USE shop", "DELETE FROM goods WHERE id > 1")
    copy.put_arrow(read_schema("shop", DDL), rows.slice(0, 1))
    code, out, err = run("verify", *options, "--wait", 0)
    assert (code, err) == (0, [])
    assert "  1 row in the lake, 1 upstream; 0 sent" in out.decode()

    # A table that was never applied has no ts at which it could be compared.
    copy.put_arrow(read_schema("shop", DDL), rows, status="paused", reason="a DDL")
    code, out, err = run("verify", *options, "--wait", 0)
    assert (code, out.decode().splitlines()[0]) == (1, "shop.goods: skipped")
    assert err == ["skipped: shop.goods: it is paused, and upstream only reads the present"]

    code, out, err = run("verify", *options, "--table", "shop.none")
    reason = (
        "no table shop.none in the lake: the changefeed has sent nothing of a table of this name"
    )
    assert (code, err) == (2, [f"ticdc-assets: --table: {reason}"])


def test_the_job_reports_a_check_per_table(
    shop: tuple[UpstreamCopy, list[object]], tmp_path: Path
) -> None:
    copy, _ = shop
    feeds = load_changefeeds(tmp_path / "changefeeds.toml").values()
    graph = definitions.graph(feeds, str(tmp_path / "lake"))
    dg.Definitions.validate_loadable(graph)
    repository = graph.get_repository_def()
    assert {s.name for s in repository.schedule_defs} == {"maintain_f_nightly", "verify_f_nightly"}
    (source,) = (s for s in graph.resolve_all_asset_specs() if s.key.path == ["f", "source"])
    assert [dep.asset_key.path for dep in source.deps] == [["f", "upstream"]]
    check = dg.AssetCheckKey(dg.AssetKey(["f", "current", "shop", "goods"]), "equals_upstream")
    assert check in repository.asset_graph.asset_check_keys
    config = {"ops": {"compare_f_tables": {"config": {"wait_seconds": 0}}}}
    job = repository.get_job("verify_f")
    with dg.DagsterInstance.ephemeral() as instance:

        def verify() -> dg.AssetCheckEvaluation:
            result = job.execute_in_process(run_config=config, instance=instance)
            (evaluation,) = result.get_asset_check_evaluations()
            assert evaluation.asset_check_key == check
            return evaluation

        equal = verify()
        assert equal.passed
        assert equal.metadata["ticdc/rows_compared"].value == 3
        copy.server.run("USE shop", "DELETE FROM goods WHERE id = 2")
        first, second = verify(), verify()
        assert not first.passed
        assert "differs: 1 in the lake" in (first.description or "")
        assert first.metadata["ticdc/different_rows"].value == 1
        # An alert goes out for the run in which it failed first.
        failed_in = "ticdc/first_failed_in"
        assert second.metadata[failed_in] == first.metadata[failed_in]
        assert "two" not in repr(first)
