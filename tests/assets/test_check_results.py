"""Check results across runs, in a real instance: no failure is lost.

The results are scripted; the tests of the checks test how they come about.
"""

from collections.abc import Iterator
from typing import Literal

import dagster as dg
import pytest

from tests.assets.scripted import B, Runs


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    with dg.instance_for_test() as instance:
        yield Runs(instance, monkeypatch)


@pytest.mark.parametrize("job", ["unplanned", "planned"])
def test_a_run_keeps_the_results_of_tables_that_it_did_not_change(runs: Runs, job: str) -> None:
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


def test_a_failed_blocking_check_fails_the_run_which_names_it(runs: Runs) -> None:
    assert runs.run("unplanned", a=True).success
    failed = runs.run("unplanned", a=True, b=False)
    assert not failed.success
    (event,) = [event for event in failed.all_events if event.is_step_failure]
    assert "f/current/d/b: keys_are_unique" in str(event.step_failure_data.error)
    # The UI shows which table failed, and that the other one passed.
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}


def test_a_run_killed_before_its_checks_hides_no_failure(runs: Runs) -> None:
    runs.run("unplanned", a=True, b=False)
    runs.plan("planned")
    assert runs.shown() == {"a": "PLANNED", "b": "PLANNED"}
    runs.run("planned", a=True)
    assert runs.had_failed == {B}
    assert runs.shown() == {"a": "SUCCEEDED", "b": "FAILED"}


def test_a_run_that_found_nothing_new_records_no_result_twice(runs: Runs) -> None:
    def recorded(job: str, **found: bool | Literal["warns"]) -> dict[str, bool]:
        done = runs.run(job, idle=True, **found)
        return {e.asset_key.path[-1]: e.passed for e in done.get_asset_check_evaluations()}

    assert recorded("unplanned", a=False, b=False) == {"a": False, "b": False}
    # The UI shows no result that is older than the page of its asset.
    assert recorded("unplanned", a=False, b=False) == {"b": False}
    assert recorded("unplanned", a="warns") == {"a": False}
    assert recorded("unplanned", a="warns") == {}
    assert recorded("unplanned", a=True) == {"a": True}
    assert recorded("unplanned", a=True) == {}
    assert recorded("planned", a=True, b=True) == {"a": True, "b": True}
    assert runs.shown() == {"a": "SUCCEEDED", "b": "SUCCEEDED"}
