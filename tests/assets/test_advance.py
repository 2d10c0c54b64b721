"""Runs of the op over a small shop: what they materialize, and what they leave alone.

The lake's tests compare the rows; here the row counts in the metadata are compared with the shop.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from tests.assets.scripted import stale_statuses, statuses
from tests.lake.conftest import spark
from ticdc_assets import definitions, naming
from ticdc_assets.assets import specs
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.checks.invariants import TABLE_INVARIANTS
from ticdc_assets.demo import Simulation, SimulationOptions, SimulationStep, encode_truth, prepare
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import advance
from ticdc_assets.log.catalog import table_changes
from ticdc_assets.naming import CURRENT, table_asset_key
from ticdc_assets.resources import deployment
from ticdc_assets.resources.catalog import read_catalog, read_rows_after
from ticdc_assets.resources.deployment import LakeResource, SparkResource
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.source import read_checkpoint
from ticdc_assets.run import budget
from ticdc_assets.store.lake import Lake, LakeSession

__all__ = ["spark"]


@dataclass
class Shop:
    """A running shop, its lake, and a Dagster instance."""

    simulation: Simulation
    steps: Iterator[SimulationStep]
    feed: Changefeed
    root: str
    instance: dg.DagsterInstance

    def run(
        self, selection: dg.AssetSelection | None = None, *, fails: bool = False
    ) -> dg.ExecuteInProcessResult:
        graph = definitions.graph([self.feed], self.root)
        return dg.materialize(
            list(graph.assets or ()),
            instance=self.instance,
            resources={"spark": SparkResource(), "lake": LakeResource(root=self.root)},
            selection=selection,
            raise_on_error=not fails,
        )

    def run_job(self) -> dg.ExecuteInProcessResult:
        """Run the job that the sensor requests, planned as by it."""
        job = definitions.graph([self.feed], self.root).resolve_job_def("advance_shop_job")
        layers = {naming.layer_asset_key(self.feed, layer) for layer in specs.LAYER_UPSTREAM}
        planned = job.get_subset(asset_selection=layers, asset_check_selection=set())
        return planned.execute_in_process(instance=self.instance)

    def check_statuses(self) -> dict[dg.AssetKey, dict[str, str]]:
        """Return the status of every table's checks."""
        graph = definitions.graph([self.feed], self.root).resolve_asset_graph()
        checks = [check for check in graph.asset_check_keys if naming.table_of(check.asset_key)]
        shown: dict[dg.AssetKey, dict[str, str]] = defaultdict(dict)
        for check, status in statuses(self.instance, checks).items():
            shown[check.asset_key][check.name] = status
        return shown

    def rebuild(self, *tables: str) -> dg.ExecuteInProcessResult:
        """Run the job that rebuilds tables."""
        config = {"ops": {"replay_shop_tables": {"config": {"tables": list(tables)}}}}
        job = definitions.graph([self.feed], self.root).resolve_job_def("rebuild_shop")
        return job.execute_in_process(config, instance=self.instance, raise_on_error=False)

    def list_stale(self) -> dict[str, str]:
        """Return the assets that the UI shows as missing or stale."""
        graph = definitions.graph([self.feed], self.root).resolve_asset_graph()
        return stale_statuses(self.instance, graph)

    def key(self, table: str, layer: str = CURRENT) -> dg.AssetKey:
        return table_asset_key(self.feed, layer, "shop", table)


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    simulation = prepare(folder / "upstream", SimulationOptions(transactions=64, flush_every=8))
    feed = load_changefeeds(simulation.changefeeds)["shop"]
    with pytest.MonkeyPatch.context() as patch, dg.DagsterInstance.ephemeral() as instance:
        patch.setattr(deployment, "get_session", lambda *_, **__: spark)
        # A run waits so long for more input before it ends.
        patch.setattr(budget, "read_poll_interval", lambda _: 0.01)
        yield Shop(simulation, iter(simulation), feed, str(folder / "lake"), instance)


def metadata_by_asset(result: dg.ExecuteInProcessResult) -> dict[dg.AssetKey, dict[str, Any]]:
    return {
        event.step_materialization_data.materialization.asset_key: {
            name: value.value
            for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.all_events
        if event.is_step_materialization
    }


# Length: one scenario, in which every part needs the runs before it.
@pytest.mark.slow
def test_runs_materialize_what_they_changed_and_nothing_else(shop: Shop) -> None:
    next(shop.steps)
    first_step = next(shop.steps)
    first = shop.run()

    # All layers have a page, the empty quarantine too; and so have all tables at the next load.
    assert shop.list_stale() == {}
    # There was no lake: no table had a definition, and all are materialized.
    pages = metadata_by_asset(first)
    truth = encode_truth(shop.simulation.truth(first_step.checkpoint))
    assert {key.path[3] for key in pages if key.path[1] == CURRENT} >= {t for _, t in truth}
    for (_, name), rows in truth.items():
        assert pages[shop.key(name)]["dagster/row_count"] == len(rows)
        assert "new upstream" in pages[shop.key(name)]["ticdc/note"]
    checkpoints = pages[dg.AssetKey(["shop", "checkpoints"])]
    assert checkpoints["ticdc/resolved_ts"] == str(first_step.checkpoint)
    assert checkpoints["ticdc/watermarks"] == {"metadata": str(first_step.checkpoint)}
    assert checkpoints["ticdc/status"].endswith(" live")
    assert checkpoints["ticdc/spark"] == "none was needed"
    version = shop.instance.get_latest_materialization_event(dg.AssetKey(["shop", "checkpoints"]))
    assert version is not None
    assert version.asset_materialization is not None
    tags = version.asset_materialization.tags or {}
    assert tags["dagster/data_version"] == str(first_step.checkpoint)

    before = read_catalog(Lake(shop.root, "shop"))
    second_step = next(shop.steps)
    pages = metadata_by_asset(shop.run_job())
    after = read_catalog(Lake(shop.root, "shop"))
    # Now the tables have definitions.  Unchanged ones are not materialized, and none is stale.
    assert shop.list_stale() == {}
    names = {id: table.table for id, table in after.tables.items()}
    same = {
        names[id]
        for id, version in after.versions.items()
        if before.versions.get(id) == version and before.tables[id] == after.tables[id]
    }
    changed = {key.path[3] for key in pages if key.path[1] == CURRENT}
    assert changed
    assert changed.isdisjoint(same)
    orders = pages[shop.key("orders")]
    assert "ticdc/note" not in orders
    assert orders["ticdc/status"] == "live"
    assert orders["ticdc/rows_read"] == (
        orders["ticdc/rows_applied"]
        + orders["ticdc/rows_superseded"]
        + orders["ticdc/rows_quarantined"]
    )
    assert orders["ticdc/preview"].startswith("| id |")
    assert orders["ticdc/delta_version"] == after.versions[_id(after, "orders")]
    lineage = orders["dagster/column_lineage"].deps_by_column
    assert lineage["total"] == [
        dg.TableColumnDep(dg.AssetKey(["shop", "source"]), "shop.orders.total")
    ]
    statements = "\n".join(page["ticdc/ddl"] for key, page in pages.items() if "ticdc/ddl" in page)
    ran = [step.sql for step in after.steps if step.name not in {s.name for s in before.steps}]
    assert all(sql in statements for sql in ran)
    assert pages[dg.AssetKey(["shop", "checkpoints"])]["ticdc/resolved_ts"] == str(
        second_step.checkpoint
    )

    # Nothing new: nothing is materialized, and checks that a run does not evaluate keep their
    # result.
    statuses_before = shop.check_statuses()
    orders_before = statuses_before[shop.key("orders")]
    applying = [one.name for one in TABLE_INVARIANTS if one.applies_to(shop.feed)]
    assert len(orders_before) == len(applying)
    assert orders_before == dict.fromkeys(orders_before, "SUCCEEDED")
    nothing = shop.run_job()
    assert metadata_by_asset(nothing) == {}
    assert nothing.get_asset_check_evaluations() == []
    assert shop.check_statuses() == statuses_before

    # The button of one table does the same.
    pages = metadata_by_asset(shop.run(dg.AssetSelection.assets(shop.key("orders"))))
    assert pages == {}
    assert read_catalog(Lake(shop.root, "shop")).snapshot_id == after.snapshot_id

    # To rebuild a table, a person names it.
    failed = shop.rebuild("shop.orders", "shop.ordres")
    assert not failed.success
    (failure,) = failed.filter_events(lambda event: event.is_step_failure)
    error = failure.step_failure_data.error
    assert error is not None
    assert error.cause is not None
    assert "tables: no table shop.ordres in the lake" in error.cause.message
    rebuilt = shop.rebuild("shop.orders")
    pages = metadata_by_asset(rebuilt)
    assert set(pages) == {shop.key("orders")}
    assert pages[shop.key("orders")]["dagster/row_count"] == orders["dagster/row_count"]
    checked = {check.asset_key for check in rebuilt.get_asset_check_evaluations()}
    assert shop.key("orders") in checked
    assert read_catalog(Lake(shop.root, "shop")).snapshot_id > after.snapshot_id
    assert shop.list_stale() == {}


def rows_read(lake: Lake, snapshot_id: int) -> int:
    return sum(
        count.rows.read for row in read_rows_after(lake, snapshot_id) for count in row.counts
    )


def _id(catalog: Any, table: str) -> str:
    return next(t.incarnation for t in catalog.named().values() if t.table == table)


@pytest.mark.slow
def test_a_run_continues_with_its_source_and_reports_everything_even_if_it_fails(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(shop.root, "shop")
    if not read_catalog(lake).tables:
        # When this test runs alone: a run that creates tables ends.
        next(shop.steps)
        next(shop.steps)
        shop.run()
    # What a killed run applied without reporting it.
    next(shop.steps)
    unreported = read_catalog(lake)
    advance(LakeSession(spark, lake, shop.feed), open_source(shop.feed))
    came: list[SimulationStep] = []
    # Whether the source has more, at each poll; the first poll precedes any work.
    polls = iter((False, True, True))

    def poll(feed: Changefeed) -> int | None:
        more = next(polls, None)
        if more is None:
            raise ConfigError("metadata cannot be read", setting="sink-uri")
        if more:
            came.append(next(shop.steps))
        return read_checkpoint(feed)

    monkeypatch.setattr(budget, "read_checkpoint", poll)
    before = read_catalog(lake)
    result = shop.run(fails=True)
    after = read_catalog(lake)

    assert not result.success
    assert after.ts == came[1].checkpoint
    # One report covers everything, although the run failed.
    pages = metadata_by_asset(result)
    checks = result.get_asset_check_evaluations()
    assert all(check.passed for check in checks)
    ledger = next(check for check in checks if check.check_name == "ledger_balances")
    checked_range = str(ledger.metadata["ticdc/checked_range"].value)
    snapshots = re.search(r"\(snapshots (\d+) to (\d+)\)", checked_range)
    assert snapshots is not None
    assert int(snapshots[1]) <= unreported.snapshot_id + 1
    assert int(snapshots[2]) == after.snapshot_id
    checkpoints = pages[dg.AssetKey(["shop", "checkpoints"])]
    assert checkpoints["ticdc/resolved_ts"] == str(after.ts)
    assert checkpoints["ticdc/row_changes"] == rows_read(lake, unreported.snapshot_id)
    events = pages[dg.AssetKey(["shop", "events"])]
    assert events["ticdc/row_changes"] == rows_read(lake, before.snapshot_id)
    # It includes tables that the killed run changed, whether or not they changed since.
    found = table_changes(unreported, after, read_rows_after(lake, unreported.snapshot_id))
    assert {shop.key(change.table.table) for change in found.values()} <= pages.keys()
    for change in found.values():
        # Except the table that was replayed after the last report.
        if change.table.table != "orders":
            assert pages[shop.key(change.table.table)]["ticdc/rows_read"] == change.counts.read
    truth = encode_truth(shop.simulation.truth(after.ts))
    assert shop.key("orders") in pages
    for (_, name), rows in truth.items():
        if shop.key(name) in pages:
            assert pages[shop.key(name)]["dagster/row_count"] == len(rows)


@pytest.mark.slow
def test_what_a_run_did_not_report_or_check_the_next_one_does(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, checkpoints = Lake(shop.root, "shop"), dg.AssetKey(["shop", "checkpoints"])
    if not read_catalog(lake).tables:
        next(shop.steps)
        next(shop.steps)
        shop.run()
    reported = read_catalog(lake)
    next(shop.steps)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("the Spark server ended")

    for stage in ("materialize.preview_changed_tables", "advance.evaluate_run_checks"):
        with monkeypatch.context() as patch:
            patch.setattr(f"ticdc_assets.assets.{stage}", die)
            died = shop.run(fails=True)
        assert not died.success
        assert checkpoints not in metadata_by_asset(died)
    after = read_catalog(lake)
    # There is nothing new in the source.
    result = shop.run()

    assert read_catalog(lake).snapshot_id == after.snapshot_id > reported.snapshot_id
    pages = metadata_by_asset(result)
    found = table_changes(reported, after, read_rows_after(lake, reported.snapshot_id))
    assert {shop.key(c.table.table) for c in found.values()} | {checkpoints} <= pages.keys()
    checked = {check.asset_key for check in result.get_asset_check_evaluations()}
    live = {t.table for t in after.named().values()}
    assert checked >= {shop.key(c.table.table) for c in found.values() if c.table.table in live}
    assert metadata_by_asset(shop.run()) == {}
    # Not even a lake that was built again meanwhile, with the same rows, goes unnoticed.
    shutil.rmtree(lake.path(""))
    advance(LakeSession(spark, lake, shop.feed), open_source(shop.feed))
    result = shop.run()
    pages, rebuilt = metadata_by_asset(result), read_catalog(lake)
    assert {shop.key(t.table) for t in rebuilt.named().values()} | {checkpoints} <= pages.keys()
    checked = {check.asset_key for check in result.get_asset_check_evaluations()}
    assert {shop.key(t.table) for t in rebuilt.named().values()} <= checked
