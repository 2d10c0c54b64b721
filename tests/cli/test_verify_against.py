"""`verify --against`, and the job of a declared copy; neither needs Spark."""

import json
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from tests.cli.conftest import Run, Shop
from tests.lake.copies import (
    ITEMS,
    make_items,
    make_table,
    put_items,
    write_delta,
    write_parquet,
)
from tests.lake.upstream_copy import UpstreamCopy
from tests.tidb_server import Tidb
from ticdc_assets import definitions
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.resources import reading
from ticdc_assets.views.asof import AsOfView

DECLARED = '[[changefeed]]\nid = "f"\nsink-uri = "file:///nowhere?protocol=csv"\n'


@pytest.fixture
def options(tmp_path: Path) -> list[object]:
    """The options of a command on a lake with a table of 20 rows."""
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    put_items(lake, make_items(20))
    (tmp_path / "changefeeds.toml").write_text(DECLARED)
    return ["--changefeeds", tmp_path / "changefeeds.toml", "--lake", tmp_path / "lake"]


def test_the_command_says_first_whether_they_are_equal_and_last_what_to_do(
    options: list[object], tmp_path: Path, run: Run
) -> None:
    same = write_delta(tmp_path / "same", "shop", "items", make_table(make_items(20)))
    code, out, err = run("verify", *options, "--against", same)
    assert (code, err) == (0, [])
    assert out.decode().splitlines()[0].startswith("shop.items: equal at 10 ")
    assert "  20 rows in the lake, 20 in the copy; " in out.decode()

    rows = make_table(make_items(20, {7: "other"})).drop_columns(["price"])
    other = write_delta(tmp_path / "other", "shop", "items", rows)
    code, out, err = run("verify", *options, "--against", other)
    lines = out.decode().splitlines()
    assert code == 1
    assert lines[0].startswith("shop.items: differs at 10 ")
    assert lines[0].endswith(", in the columns that can be compared")
    assert "  not compared: price: the copy has no such column" in lines
    assert any(line.startswith('  differs in title: {"id": "7"}') for line in lines)
    assert any(line.startswith("  next: verify without --against") for line in lines)
    assert err == ["differs: shop.items: 1 row: see the lake's table differences"]

    code, out, _ = run("verify", *options, "--against", same, "--sample", 50, "--format", "json")
    found = json.loads(out)
    assert (code, found["against"], found["share"]) == (0, same, 0.5)
    assert 0 <= found["lake_rows"] == found["upstream_rows"] < 20


def test_a_table_of_which_the_sample_has_no_row_is_compared_whole(tmp_path: Path, run: Run) -> None:
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    put_items(lake, make_items(1))
    (tmp_path / "changefeeds.toml").write_text(DECLARED)
    options = ["--changefeeds", tmp_path / "changefeeds.toml", "--lake", tmp_path / "lake"]
    for titles, verdict in (({}, "equal"), ({0: "other"}, "differs")):
        uri = write_delta(tmp_path / verdict, "shop", "items", make_table(make_items(1, titles)))
        given = ("--against", uri, "--sample", 0.1, "--format", "json")
        _, out, _ = run("verify", *options, *given)
        found = json.loads(out)
        assert (found["verdict"], found["lake_rows"], found["upstream_rows"]) == (verdict, 1, 1)


def test_a_copy_is_compared_with_the_tidb_that_is_declared(
    tidb: Tidb, tmp_path: Path, run: Run
) -> None:
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    # The lake has other rows.
    put_items(lake, make_items(3))
    values = ", ".join(map(str, make_items(20)))
    tidb.run(
        *("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", "USE shop", ITEMS),
        f"INSERT INTO items VALUES {values}",
    )
    ts = tidb.now()
    tidb.run("DELETE FROM shop.items WHERE id > 10")
    options = ["--changefeeds", tidb.declare(tmp_path / "changefeeds.toml")]
    options += ["--lake", tmp_path / "lake", "--upstream", "--at", ts]
    same = write_delta(tmp_path / "same", "shop", "items", make_table(make_items(20)))
    code, out, err = run("verify", *options, "--against", same, "--max-connections", 2)
    assert (code, err) == (0, [])
    assert out.decode().splitlines()[0].startswith(f"shop.items: equal at {ts} ")
    assert "  20 rows upstream, 20 in the copy; " in out.decode()

    rows = make_table(make_items(20, {7: "other"}))
    other = write_delta(tmp_path / "other", "shop", "items", rows)
    code, out, err = run("verify", *options, "--against", other)
    assert code == 1
    assert "  next: let the copy reach a newer TSO and run it again" in out.decode()
    assert err == ["differs: shop.items: 1 row: see the lake's table differences"]
    code, out, _ = run("verify", *options, "--against", other, "--format", "json")
    found = json.loads(out)
    assert (found["against"], found["compared_with"]) == (other, "upstream")
    assert (found["lake_rows"], found["upstream_rows"], found["resolved_ts"]) == (20, 20, ts)
    assert [each["key"] for each in found["differences"]] == ['{"id": "7"}']


def test_a_copy_of_the_truth_equals_the_lake_at_any_tso_in_any_number_of_parts(
    shop: Shop, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "get_session", lambda *_: pytest.fail("Spark starts"))
    parts: list[int] = []
    count_parts = AsOfView.count_parts

    def count_small_parts(view: AsOfView, table: Incarnation) -> int:
        parts.append(count_parts(view, table, 7))
        return parts[-1]

    monkeypatch.setattr(AsOfView, "count_parts", count_small_parts)
    first, second = shop.simulation.checkpoints[1:3]
    # The rows of the first have files; those of the second are computed.
    for ts in (second, (first + second) // 2):
        copy = tmp_path / str(ts)
        truth = shop.simulation.truth(ts)
        for (database, table), rows in truth.items():
            names = {name: pa.string() for row in rows for name in row}
            texts = [tuple(row[name] for name in names) for row in rows]
            if texts:
                write_parquet(copy, database, table, make_table(texts, **names))
        given = ("verify", "--against", f"parquet:{copy}/parquet", "--at", ts, "--format", "json")
        _, out, _ = run(*given, *shop.options)
        found = [json.loads(line) for line in out.splitlines()]
        compared = {(each["database"], each["table"]): each for each in found}
        assert compared.keys() == truth.keys()
        for name, rows in truth.items():
            if rows:
                assert compared[name]["verdict"] == "equal", compared[name]
                assert compared[name]["lake_rows"] == compared[name]["upstream_rows"] == len(rows)
    assert max(parts) > 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--sample", 5], "--sample: needs --against"),
        (
            ["--against", "delta:/x", "--max-connections", 2],
            "--max-connections: needs --upstream",
        ),
        (["--upstream"], "--upstream: needs --against"),
        (
            ["--against", "delta:/x", "--upstream"],
            "changefeed f: declares no database upstream: add [changefeed.upstream]",
        ),
        (
            ["--against", "delta:/x", "--ca", "ca.pem"],
            "--ca: has an effect only on a",
        ),
        (
            ["--against", "duckdb:/x", "--password-env", "A"],
            "--password-env: has an effect",
        ),
        (["--against", "delta:/x", "--wait", 5], "--wait: cannot be combined with --against"),
        (["--against", "ftp://x"], "--against: must begin with delta:"),
        (["--against", "mysql://u:hunter2-secret@h/d"], "--against: has a password in it"),
        (["--against", "delta:/x", "--table-name", "{id}"], "--table-name: must have {table}"),
        (
            ["--against", "mysql://u@h/d", "--password-env", "A", "--password-file", "b"],
            "--password-file: cannot be combined with --password-env",
        ),
    ],
)
def test_options_that_do_not_fit_are_errors(
    options: list[object], run: Run, given: list[object], reason: str
) -> None:
    code, out, err = run("verify", *options, *given)
    assert (code, out) == (2, b"")
    assert reason in "\n".join(err)
    assert "hunter2" not in "\n".join(err)


def test_a_declared_copy_has_a_job_and_a_check_per_table(
    options: list[object], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    uri = write_delta(copy, "shop", "items", make_table(make_items(20)))
    file = tmp_path / "changefeeds.toml"
    file.write_text(f'{DECLARED}[changefeed.copy]\nuri = "{uri}"\n')
    graph = definitions.graph(load_changefeeds(file).values(), str(tmp_path / "lake"))
    dg.Definitions.validate_loadable(graph)
    repository = graph.get_repository_def()
    check = dg.AssetCheckKey(dg.AssetKey(["f", "current", "shop", "items"]), "equals_copy")
    assert check in repository.asset_graph.asset_check_keys
    job = repository.get_job("examine_f")
    with dg.DagsterInstance.ephemeral() as instance:

        def examine() -> dg.AssetCheckEvaluation:
            (evaluation,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
            assert evaluation.asset_check_key == check
            return evaluation

        equal = examine()
        write_delta(copy, "shop", "items", make_table(make_items(20, {3: "other"})))
        different = examine()
    assert equal.passed
    assert (equal.description or "").startswith("equal to the copy at ")
    assert (equal.metadata["ticdc/rows_compared"].value, different.passed) == (20, False)
    assert different.severity == dg.AssetCheckSeverity.WARN
    assert "differs: 1 in the lake" in (different.description or "")
