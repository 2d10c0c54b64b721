"""What stays of checks from run to run, in a real instance: nothing that was found is lost.

What is found is scripted here; finding it is tested with the checks.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from resources import deployment
from resources.deployment import SparkResource
from ticdc_assets.assets import checking
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.checks import Window
from ticdc_assets.lake.tables import Lake

FEED = changefeed_from_uri("file:///data?protocol=csv", id="f")
TABLES = [dg.AssetKey(["f", "current", "d", name]) for name in "ab"]
A, B = (dg.AssetCheckKey(key, "keys_are_unique") for key in TABLES)


@dg.multi_asset(
    specs=[dg.AssetSpec(key, skippable=True) for key in TABLES],
    check_specs=[dg.AssetCheckSpec(check.name, asset=check.asset_key) for check in (A, B)],
    can_subset=True,
)
def tables(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckEvaluation]:
    lake = Lake("unused", "f")
    yield from checking.looked(context, SparkResource(), lake, FEED, Window(1, 2), {})


DEFINITIONS = dg.Definitions(
    assets=[tables],
    jobs=[
        dg.define_asset_job("unplanned", dg.AssetSelection.assets(*TABLES).without_checks()),
        dg.define_asset_job("planned", dg.AssetSelection.assets(*TABLES)),
    ],
)


class Runs:
    """Runs of which each finds what it is told to find."""

    def __init__(self, instance: dg.DagsterInstance, patch: pytest.MonkeyPatch) -> None:
        self._instance = instance
        self._patch = patch
        # Which checks had failed, as the run was told.
        self.had_failed: set[dg.AssetCheckKey] = set()

    def run(self, job: str, **found: bool) -> dg.ExecuteInProcessResult:
        """Run with what is found of tables `a` and `b`; each check that fails blocks."""

        def evaluate(*arguments: Any) -> Iterator[dg.AssetCheckEvaluation]:
            has_failed = arguments[-1]
            self.had_failed = {check for check in (A, B) if has_failed(check)}
            for check in (A, B):
                if check.asset_key.path[-1] in found:
                    yield dg.AssetCheckEvaluation(
                        asset_key=check.asset_key,
                        check_name=check.name,
                        passed=found[check.asset_key.path[-1]],
                        description=f"{found}",
                        blocking=True,
                    )

        self._patch.setattr(checking, "evaluate", evaluate)
        job_ = DEFINITIONS.resolve_job_def(job)
        return job_.execute_in_process(instance=self._instance, raise_on_error=False)

    def plan(self, job: str) -> None:
        """Have a run planned that never comes to anything."""
        self._instance.create_run_for_job(DEFINITIONS.resolve_job_def(job))

    def shown(self) -> dict[str, str]:
        """What a page shows of the checks."""
        records = self._instance.event_log_storage.get_latest_asset_check_execution_by_key([A, B])
        return {
            check.asset_key.path[-1]: record.status.value
            for check in (A, B)
            if (record := records.get(check)) is not None
        }


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr(deployment, "session", lambda *_, **__: None)
    with dg.instance_for_test() as instance:
        yield Runs(instance, monkeypatch)


@pytest.mark.parametrize("job", ["unplanned", "planned"])
def test_a_run_takes_back_nothing_of_tables_that_it_did_not_change(runs: Runs, job: str) -> None:
    runs.run("unplanned", a=True, b=False)
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}
    assert runs.had_failed == set()

    runs.run(job, a=True)
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}
    assert runs.had_failed == {B}

    runs.run(job)
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}

    runs.run(job, b=True)
    assert runs.shown() == {"a": "SUCCEEDED", "b": "SUCCEEDED"}
    assert runs.had_failed == {B}
    runs.run(job)
    assert runs.had_failed == set()


def test_a_check_that_blocks_fails_the_run_and_the_run_says_which(runs: Runs) -> None:
    assert runs.run("unplanned", a=True).success
    failed = runs.run("unplanned", a=True, b=False)
    assert not failed.success
    (event,) = [event for event in failed.all_events if event.is_step_failure]
    assert "f/current/d/b: keys_are_unique" in str(event.step_failure_data.error)
    # A page tells which table it is, and of the other that it is well.
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}


def test_a_run_that_was_killed_before_its_checks_hides_no_failure(runs: Runs) -> None:
    runs.run("unplanned", a=True, b=False)
    runs.plan("planned")
    assert runs.shown() == {"a": "PLANNED", "b": "PLANNED"}
    runs.run("planned", a=True)
    assert runs.had_failed == {B}
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}
