"""Assets of somebody else's code location read tables of a lake as their annotations say."""

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import polars
import pytest

from tests.reading.conftest import Shop
from tests.reading.made import make_lake
from ticdc_assets import dagster_io
from ticdc_assets.assets.metadata import resolved_ts_metadata
from ticdc_assets.dagster_io import TicdcIOManager
from ticdc_assets.errors import ConfigError
from ticdc_assets.reading import PinnedTable, open_lake

PROJECT = """
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from ticdc_assets.dagster_io import TicdcIOManager
from ticdc_assets.reading import PinnedTable, PinnedVersions


SPECS = [
    dg.AssetSpec(["shop", "current", "shop", "orders"]),
    dg.AssetSpec(["shop", "current", "shop", "order_items"]).with_io_manager_key("ticdc"),
    dg.AssetSpec(["shop", "history", "shop", "orders.history"]).with_io_manager_key("ticdc"),
]
ORDERS = dg.AssetIn(key=SPECS[0].key, input_manager_key="ticdc")
ITEMS, HISTORY = [dg.AssetIn(key=spec.key) for spec in SPECS[1:]]


@dg.asset(ins={"orders": ORDERS, "items": ITEMS})
def joined(orders: pl.DataFrame, items: duckdb.DuckDBPyRelation) -> dg.MaterializeResult:
    return dg.MaterializeResult(
        metadata={"ids": sorted(map(str, orders["id"])), "items": len(items)}
    )


def read_as(name, kind, to_arrow):
    @dg.asset(name=name, ins={"orders": ORDERS})
    def form(orders: kind) -> dg.MaterializeResult:
        ids = to_arrow(orders)["id"].to_pylist()
        return dg.MaterializeResult(metadata={"ids": sorted(map(str, ids))})

    return form


FORMS = [
    read_as("arrow", pa.Table, lambda rows: rows),
    read_as("batches", pa.RecordBatchReader, lambda rows: rows.read_all()),
    read_as("polars", pl.DataFrame, lambda rows: rows.to_arrow()),
    read_as("optional", pl.DataFrame | None, lambda rows: rows.to_arrow()),
    read_as("pandas", pd.DataFrame, pa.Table.from_pandas),
    read_as("duckdb", duckdb.DuckDBPyRelation, lambda rows: rows.to_arrow_table()),
    read_as("pinned", PinnedTable, lambda rows: rows.arrow()),
    read_as("plain", Any, lambda rows: rows.arrow()),
]


@dg.asset(ins={"history": HISTORY})
def versions(history: PinnedVersions) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"rows": history.arrow().num_rows})


defs = dg.Definitions(
    assets=[*SPECS, joined, versions, *FORMS],
    resources={"ticdc": TicdcIOManager(uri=dg.EnvVar("TEST_LAKE"))},
)
"""
DOCUMENT = (Path(__file__).parents[2] / "docs" / "downstream.md").read_text()
FORMS = ("arrow", "batches", "polars", "optional", "pandas", "duckdb", "pinned", "plain")
ORDERS, ITEMS, HISTORY, CHECKPOINTS = KEYS = [
    dg.AssetKey(["shop", *parts])
    for parts in (
        ("current", "shop", "orders"),
        ("current", "shop", "order_items"),
        ("history", "shop", "orders.history"),
        ("checkpoints",),
    )
]


@pytest.fixture
def project(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A project of somebody else's."""
    monkeypatch.setenv("TEST_LAKE", str(shop.root))
    (tmp_path / "project.py").write_text(PROJECT)
    spec = importlib.util.spec_from_file_location("project", tmp_path / "project.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def state(instance: dg.DagsterInstance, pages: Mapping[dg.AssetKey, int]) -> None:
    """Materialize assets, as the runs of a changefeed do, at a TSO each."""
    for key, ts in pages.items():
        page = dg.AssetMaterialization(key, metadata=resolved_ts_metadata(ts))
        instance.report_runless_asset_event(page)


def run(project: ModuleType, instance: dg.DagsterInstance, *assets: str) -> list[dict[str, Any]]:
    """Materialize assets of the project; return what they state."""
    job = project.defs.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(asset) for asset in assets]
    done = job.execute_in_process(instance=instance, asset_selection=selection)
    events = [done.asset_materializations_for_node(asset) for asset in assets]
    return [{name: each.value for name, each in event.metadata.items()} for (event,) in events]


def read_ids(shop: Shop, ts: int) -> list[str]:
    return sorted(
        str(row["id"])
        for row in open_lake(shop.root).at(ts).table("shop.orders").arrow().to_pylist()
    )


def test_every_annotation_gets_the_rows(shop: Shop, project: ModuleType) -> None:
    ts = open_lake(shop.root).resolved_ts
    with dg.DagsterInstance.ephemeral() as instance:
        state(instance, dict.fromkeys(KEYS, ts))
        *forms, versions = run(project, instance, *FORMS, "versions")
    ids = read_ids(shop, ts)
    assert len(ids) == len(shop.truth(ts)["shop.orders"])
    assert [form["ids"] for form in forms] == [ids] * len(FORMS)
    expected = open_lake(shop.root).table("shop.orders").history().arrow().num_rows
    assert versions["rows"] == expected


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({ORDERS: 1, ITEMS: 1, CHECKPOINTS: 1}, 1),
        # What has not changed since is the same, and fits the other input.
        ({ORDERS: 0, ITEMS: 1}, 1),
        ({ORDERS: 0, ITEMS: 0, CHECKPOINTS: 1}, 1),
        # A run that has not ended.
        ({ORDERS: 2, ITEMS: 1, CHECKPOINTS: 1}, 2),
    ],
)
def test_inputs_are_at_the_moment_that_their_materializations_state(
    shop: Shop, project: ModuleType, pages: dict[dg.AssetKey, int], expected: int
) -> None:
    snapshots = open_lake(shop.root).snapshots()
    ts = snapshots[expected]
    assert ts < snapshots[-1]
    with dg.DagsterInstance.ephemeral() as instance:
        state(instance, {key: snapshots[place] for key, place in pages.items()})
        (found,) = run(project, instance, "joined")
    assert found == {"ids": read_ids(shop, ts), "items": len(shop.truth(ts)["shop.order_items"])}
    assert found["ids"] != read_ids(shop, snapshots[-1])


def test_inputs_of_a_step_fit_together_although_a_run_ends_meanwhile(
    shop: Shop, project: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_, last = open_lake(shop.root).snapshots()
    choose = dagster_io._choose_rows
    with dg.DagsterInstance.ephemeral() as instance:

        def end_run(*arguments: Any) -> Any:
            state(instance, dict.fromkeys(KEYS, last))
            return choose(*arguments)

        state(instance, dict.fromkeys(KEYS, first))
        monkeypatch.setattr(dagster_io, "_choose_rows", end_run)
        (found,) = run(project, instance, "joined")
        assert found["ids"] == read_ids(shop, first)
        assert found["items"] == len(shop.truth(first)["shop.order_items"])
        # The next step sees what has come.
        assert run(project, instance, "joined")[0]["ids"] == read_ids(shop, last)


def test_without_a_materialization_the_newest_snapshot_is_read_and_a_warning_says_so(
    shop: Shop, project: ModuleType
) -> None:
    first, *_, last = open_lake(shop.root).snapshots()
    with dg.DagsterInstance.ephemeral() as instance:
        state(instance, {ORDERS: first, CHECKPOINTS: first})
        assert run(project, instance, "joined")[0]["ids"] == read_ids(shop, last)
        (record,) = instance.get_run_records()
        logged = instance.all_logs(record.dagster_run.run_id)
    warnings = [entry.user_message for entry in logged if entry.level == 30]
    assert len(warnings) == 1
    assert "not every input from shop has a materialization" in warnings[0]
    assert str(last) in warnings[0]


def test_the_example_of_the_document_works(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"(?s)```python\n(.+?)```", DOCUMENT)
    monkeypatch.setenv("TICDC_LAKE", str(shop.root))
    module: dict[str, Any] = {"__name__": "example"}
    exec(example, module)
    job = module["defs"].resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
    (event,) = done.asset_materializations_for_node("open_orders")
    rows = map(json.loads, shop.truth(open_lake(shop.root).resolved_ts)["shop.orders"])
    expected = sum(row["status"] == "new" for row in rows)
    assert expected
    assert event.metadata["dagster/row_count"].value == expected


def test_the_document_lists_every_annotation() -> None:
    table = DOCUMENT.split("| annotation |")[1].split("\n\n")[0]
    assert re.findall(r"`([a-z_.]+\.[A-Z]\w+)`", table) == list(dagster_io._FORMS)


def load(root: Path, *key: str, kind: Any = PinnedTable) -> Any:
    """Load an input outside of a run."""
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_input_context(
            name="orders",
            asset_key=dg.AssetKey(key),
            dagster_type=dg.PythonObjectDagsterType(kind),
            instance=instance,
        )
        return TicdcIOManager(uri=str(root)).load_input(context)


def test_an_input_that_cannot_be_loaded_is_an_error_that_says_why(
    shop: Shop, tmp_path: Path
) -> None:
    make_lake(str(tmp_path))
    assert load(tmp_path, "made", "current", "s", "live").arrow().num_rows == 1
    assert load(tmp_path, "made", "current", "d~2e~twice", "x", kind=object).table == "x"
    with pytest.raises(ConfigError, match=r"s\.paused is paused: DROP COLUMN `k`; it is complete"):
        load(tmp_path, "made", "current", "s", "paused", kind=polars.DataFrame)
    with pytest.raises(ConfigError, match=r"no table s\.nothing in the lake"):
        load(tmp_path, "made", "current", "s", "nothing")
    with pytest.raises(ConfigError, match="orders: 'made/events' is no table of a lake"):
        load(tmp_path, "made", "events")
    with pytest.raises(ConfigError, match=r"schema_history/s/live.schema' is no table of a lake"):
        load(tmp_path, "made", "schema_history", "s", "live.schema")
    every = "pyarrow.Table, pyarrow.RecordBatchReader, polars.DataFrame, pandas.DataFrame, duckdb"
    with pytest.raises(ConfigError, match=f"loaded as 'LazyFrame': annotate it .* {every}"):
        load(tmp_path, "made", "current", "s", "live", kind=polars.LazyFrame)


def test_nothing_is_written(shop: Shop) -> None:
    @dg.asset
    def mine() -> int:
        return 1

    with pytest.raises(ConfigError, match=r"^io_manager_key: mine is stored by TicdcIOManager"):
        dg.materialize([mine], resources={"io_manager": TicdcIOManager(uri=str(shop.root))})
