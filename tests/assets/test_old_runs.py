"""Old runs leave Dagster's database with their events and logs, but for those that still count."""

import time
from pathlib import Path

import dagster as dg
import pytest

from ticdc_assets.assets.old_runs import remove_old_runs

TAGS = {"ticdc/changefeed": "shop"}


@dg.asset
def orders() -> dg.MaterializeResult[None]:
    print("rows")
    return dg.MaterializeResult(data_version=dg.DataVersion("1"))


@dg.op
def observe(context: dg.OpExecutionContext) -> None:
    context.log_event(dg.AssetObservation("source"))


@dg.job(tags=TAGS)
def observing() -> None:
    observe()


@dg.op
def fail() -> None:
    raise ValueError


@dg.job(tags=TAGS)
def failing() -> None:
    fail()


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.local_temp(str(tmp_path))


def run(instance: dg.DagsterInstance, what: object = orders, tags: object = TAGS) -> str:
    return dg.materialize([what], instance=instance, tags=tags).run_id  # type: ignore[list-item, arg-type]


def test_ended_runs_of_a_changefeed_go_unless_an_asset_has_its_state_from_them(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    old = [run(instance) for _ in range(3)]
    old.append(failing.execute_in_process(instance=instance, raise_on_error=False).run_id)
    of_others = run(instance, tags={"ticdc/changefeed": "other"})
    observed = [observing.execute_in_process(instance=instance).run_id for _ in range(2)]
    going_on = instance.create_run_for_job(failing, status=dg.DagsterRunStatus.STARTED).run_id
    kept = run(instance)
    files = {id for id in old if list(tmp_path.rglob(f"{id}*"))}
    assert files == set(old)
    assert remove_old_runs(instance, TAGS, days=1) == 0
    # Dagster compares whole moments.
    time.sleep(0.01)
    assert remove_old_runs(instance, TAGS, days=0) == len(old) + 1
    assert {each.run_id for each in instance.get_runs()} == {
        *(of_others, observed[1], going_on, kept)
    }
    assert not [path for id in old for path in tmp_path.rglob(f"{id}*")]
    event = instance.get_latest_materialization_event(dg.AssetKey("orders"))
    assert event is not None
    assert event.run_id == kept
    assert instance.fetch_observations(dg.AssetKey("source"), limit=1).records
