"""One run of the op over a small shop: what it materializes, what it tells, what it leaves alone.

The rows themselves are the lake's business; here they are held against the shop once more, by the
counts that a page shows.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from resources import deployment
from resources.catalog import read_catalog, read_lines
from resources.deployment import LakeResource, SparkResource
from resources.reading import open_source
from resources.source import read_checkpoint
from tests.assets.scripted import statuses
from tests.lake.conftest import spark
from ticdc_assets import definitions, naming
from ticdc_assets.assets import run_budget
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.checks.invariants import TABLE_INVARIANTS
from ticdc_assets.demo import Options, Simulation, SimulationStep, encode_truth, prepare
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.log.catalog import table_changes
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.naming import CURRENT, HISTORY, table_asset_key

__all__ = ["spark"]


@dataclass
class Shop:
    """A shop that goes on, its lake, and an instance that remembers."""

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
        """Run the job that the sensor asks for."""
        job = definitions.graph([self.feed], self.root).resolve_job_def("advance_shop_job")
        return job.execute_in_process(instance=self.instance)

    def found(self) -> dict[dg.AssetKey, dict[str, str]]:
        """What the pages of tables show of their checks."""
        graph = definitions.graph([self.feed], self.root).resolve_asset_graph()
        checks = [check for check in graph.asset_check_keys if naming.table_of(check.asset_key)]
        shown: dict[dg.AssetKey, dict[str, str]] = defaultdict(dict)
        for check, status in statuses(self.instance, checks).items():
            shown[check.asset_key][check.name] = status
        return shown

    def key(self, table: str, layer: str = CURRENT) -> dg.AssetKey:
        return table_asset_key(self.feed, layer, "shop", table)


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    simulation = prepare(folder / "upstream", Options(transactions=64, flush_every=8))
    feed = load_changefeeds(simulation.changefeeds)["shop"]
    with pytest.MonkeyPatch.context() as patch, dg.DagsterInstance.ephemeral() as instance:
        patch.setattr(deployment, "get_session", lambda *_, **__: spark)
        yield Shop(simulation, iter(simulation), feed, str(folder / "lake"), instance)


def told(result: dg.ExecuteInProcessResult) -> dict[dg.AssetKey, dict[str, Any]]:
    return {
        event.step_materialization_data.materialization.asset_key: {
            name: value.value
            for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.all_events
        if event.is_step_materialization
    }


@pytest.mark.slow
def test_runs_tell_what_they_changed_and_nothing_else(shop: Shop) -> None:
    next(shop.steps)
    first_step = next(shop.steps)
    first = shop.run()

    # The lake was not there: no table had a definition, and all are told of.
    pages = told(first)
    truth = encode_truth(shop.simulation.truth(first_step.checkpoint))
    assert {key.path[3] for key in pages if key.path[1] == CURRENT} >= {t for _, t in truth}
    for (_, name), rows in truth.items():
        assert pages[shop.key(name)]["dagster/row_count"] == len(rows)
        assert "reload the code location" in pages[shop.key(name)]["ticdc/note"]
    checkpoints = pages[dg.AssetKey(["shop", "checkpoints"])]
    assert checkpoints["ticdc/resolved_ts"] == str(first_step.checkpoint)
    assert checkpoints["ticdc/watermarks"] == {"metadata": str(first_step.checkpoint)}
    version = shop.instance.get_latest_materialization_event(dg.AssetKey(["shop", "checkpoints"]))
    assert version is not None
    assert version.asset_materialization is not None
    tags = version.asset_materialization.tags or {}
    assert tags["dagster/data_version"] == str(first_step.checkpoint)

    before = read_catalog(Lake(shop.root, "shop"))
    second_step = next(shop.steps)
    pages = told(shop.run())
    after = read_catalog(Lake(shop.root, "shop"))
    # Now they have one.  Those that are as they were are left alone.
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

    # Nothing new: nothing is materialized.  What a run of the sensor's job does not look at keeps
    # its result.
    found = shop.found()
    assert len(found[shop.key("orders")]) == len(TABLE_INVARIANTS)
    assert found[shop.key("orders")] == dict.fromkeys(found[shop.key("orders")], "SUCCEEDED")
    nothing = shop.run_job()
    assert told(nothing) == {}
    assert nothing.get_asset_check_evaluations() == []
    assert shop.found() == found

    # A table alone is made anew, and no other.
    pages = told(shop.run(dg.AssetSelection.assets(shop.key("orders"))))
    assert set(pages) == {shop.key("orders")}
    assert pages[shop.key("orders")]["dagster/row_count"] == orders["dagster/row_count"]
    assert shop.key("orders", HISTORY) not in pages


def rows_read(lake: Lake, after_seq: int) -> int:
    return sum(count.read for line in read_lines(lake, after_seq) for _, count in line.counts)


def _id(catalog: Any, table: str) -> str:
    return next(t.incarnation for t in catalog.named().values() if t.table == table)


@pytest.mark.slow
def test_a_run_goes_on_while_its_source_does_and_tells_all_whatever_comes(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(shop.root, "shop")
    if not read_catalog(lake).tables:
        # Alone, without the test before: a run in which tables come is over with that.
        next(shop.steps)
        next(shop.steps)
        shop.run()
    # What a run that was killed has done, and told nobody of.
    next(shop.steps)
    untold = read_catalog(lake)
    advance(LakeSession(spark, lake, shop.feed), open_source(shop.feed))
    came: list[SimulationStep] = []
    # Whether the source has more, at each look; the first one is before any work.
    looks = iter((False, True, True))

    def look(feed: Changefeed) -> int | None:
        more = next(looks, None)
        if more is None:
            raise ConfigError("metadata cannot be read", setting="sink-uri")
        if more:
            came.append(next(shop.steps))
        return read_checkpoint(feed)

    monkeypatch.setattr(run_budget, "read_checkpoint", look)
    monkeypatch.setenv(run_budget.INTERVAL, "1")
    before = read_catalog(lake)
    result = shop.run(fails=True)
    after = read_catalog(lake)

    assert not result.success
    assert after.ts == came[1].checkpoint
    # All of it is told in one, whatever comes then.
    pages = told(result)
    checks = result.get_asset_check_evaluations()
    assert all(check.passed for check in checks)
    ledger = next(check for check in checks if check.check_name == "ledger_balances")
    looked_at = str(ledger.metadata["ticdc/checked_range"].value)
    lines_of = re.search(r"\(lines (\d+) to (\d+) of applied\)", looked_at)
    assert lines_of is not None
    assert int(lines_of[1]) <= untold.seq + 1
    assert int(lines_of[2]) == after.seq
    checkpoints = pages[dg.AssetKey(["shop", "checkpoints"])]
    assert checkpoints["ticdc/resolved_ts"] == str(after.ts)
    assert checkpoints["ticdc/row_changes"] == rows_read(lake, untold.seq)
    events = pages[dg.AssetKey(["shop", "events"])]
    assert events["ticdc/row_changes"] == rows_read(lake, before.seq)
    # So is what the run that was killed has done to tables, whether or not they changed since.
    found = table_changes(untold, after, read_lines(lake, untold.seq))
    assert {shop.key(change.table.table) for change in found.values()} <= pages.keys()
    for change in found.values():
        # But for what was made anew since a run told of everything.
        if change.table.table != "orders":
            assert pages[shop.key(change.table.table)]["ticdc/rows_read"] == change.counts.read
    truth = encode_truth(shop.simulation.truth(after.ts))
    assert shop.key("orders") in pages
    for (_, name), rows in truth.items():
        if shop.key(name) in pages:
            assert pages[shop.key(name)]["dagster/row_count"] == len(rows)
