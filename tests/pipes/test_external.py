"""A run that Dagster Pipes starts reports what a run in Dagster's own process does."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import ticdc_assets
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import Simulation, SimulationOptions, prepare
from ticdc_assets.graph import LakeGraph, build_graph, read_catalogs

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipes" / "definitions.py"
OPTIONS = SimulationOptions(
    protocol="canal-json", transactions=40, flush_every=10, statement_every=8
)
# What is the same in two lakes of one changefeed.
SAME = (
    *("dagster/row_count", "dagster/column_schema", "dagster/column_lineage"),
    *("ticdc/status", "ticdc/ddls", "ticdc/preview"),
)


class Runs:
    """Runs over a lake of its own, and what Dagster knows of them."""

    def __init__(self, simulation: Simulation, lake: Path, patch: pytest.MonkeyPatch) -> None:
        self._declared = simulation.changefeeds
        self.lake = lake
        self._patch = patch
        self.instance = dg.DagsterInstance.ephemeral()

    def run_example(self) -> None:
        """Run the job of the example, whose definitions are loaded anew."""
        with self._patch.context() as patch:
            patch.setenv("TICDC_CHANGEFEEDS", str(self._declared))
            patch.setenv("TICDC_LAKE", str(self.lake))
            defs: dg.Definitions = runpy.run_path(str(EXAMPLE))["defs"]
            self._execute(defs, "advance_shop")

    def run_here(self) -> None:
        """Run the assets of the project's own graph in this process."""
        feeds, root = load_changefeeds(self._declared).values(), str(self.lake)
        self._execute(build_graph(LakeGraph(feeds, root), read_catalogs(feeds, root)))

    def _execute(self, defs: dg.Definitions, job: str = "advance_shop_job") -> None:
        assert defs.resolve_job_def(job).execute_in_process(instance=self.instance).success

    def list_materializations(self) -> Mapping[str, tuple[Any, ...]]:
        """Return metadata and data versions of the newest materialization of each asset."""
        found = {}
        for key in self.instance.all_asset_keys():
            event = self.instance.get_latest_materialization_event(key)
            page = None if event is None else event.asset_materialization
            if page is not None:
                shown = {name: page.metadata.get(name) for name in SAME}
                tags = {n: v for n, v in (page.tags or {}).items() if "data_version" in n}
                found[key.to_user_string()] = (shown, sorted(page.metadata), tags)
        return found

    def list_checks(self) -> dict[str, tuple[bool, str | None]]:
        """Return the last result of each check."""
        found: dict[str, tuple[bool, str | None]] = {}
        for key in self.instance.all_asset_keys():
            records = self.instance.get_event_records(
                dg.EventRecordsFilter(dg.DagsterEventType.ASSET_CHECK_EVALUATION)
            )
            for record in records:
                event = record.event_log_entry.dagster_event
                assert event is not None
                each = event.event_specific_data
                assert isinstance(each, dg.AssetCheckEvaluation)
                if each.asset_key == key:
                    name = f"{key.to_user_string()}:{each.check_name}"
                    found.setdefault(name, (each.passed, each.description))
        return found


# Pipes itself uses what Dagster deprecates, and what it only previews.
@pytest.mark.filterwarnings("ignore")
def test_a_run_elsewhere_reports_what_a_run_here_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = prepare(tmp_path / "feed", OPTIONS)
    there = Runs(simulation, tmp_path / "there", monkeypatch)
    here = Runs(simulation, tmp_path / "here", monkeypatch)
    steps = iter(simulation)
    for _ in range(2):
        next(steps)
        next(steps)
        there.run_example()
        here.run_here()
        ours, theirs = here.list_materializations(), there.list_materializations()
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert theirs[key] == ours[key], key
    assert here.list_checks() == there.list_checks() != {}
    # Nothing new: tables stay as they are, whatever process asks.
    before = there.list_materializations()
    there.run_example()
    after = there.list_materializations()
    assert {key: tags for key, (_, _, tags) in after.items() if "/current/" in key} == {
        key: tags for key, (_, _, tags) in before.items() if "/current/" in key
    }
    lake = ticdc_assets.open_lake(there.lake)
    counts = {table.name: table.arrow().num_rows for table in lake.tables()}
    shown = {
        key.split("/", 2)[2].replace("/", "."): page["dagster/row_count"].value
        for key, (page, _, _) in before.items()
        if key.split("/")[1] == "current"
    }
    assert counts.items() <= shown.items()
