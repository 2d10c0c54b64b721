"""Runs whose processes are gone."""

import time

import dagster as dg
import pytest

from tests.sensors.world import T1, World, job
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.sensors import lost_runs
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG
from ticdc_assets.store.lock import locked


def test_a_run_whose_process_is_gone_is_marked_as_failed_and_another_one_follows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.writes(T1)
    tags = {FEED_TAG: "shop", CHECKPOINT_TAG: str(T1)}
    status = dg.DagsterRunStatus.STARTED
    run = world.instance.create_run_for_job(job_def=job, status=status, tags=tags)
    world.instance.report_engine_event("a window", run)
    now = time.time()

    def pass_seconds(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: now + seconds)

    pass_seconds(lost_runs.SILENT_SECONDS - 60)
    assert "is in progress" in world.skipped()
    pass_seconds(lost_runs.SILENT_SECONDS + 60)
    with locked(world.lake, "advance"):
        assert "is in progress" in world.skipped()
    assert f"the process of run {run.run_id[:8]} is gone" in world.skipped()
    failed = world.instance.get_run_by_id(run.run_id)
    assert failed is not None
    assert failed.status == dg.DagsterRunStatus.FAILURE
    pass_seconds(lost_runs.SILENT_SECONDS + 7200)
    assert world.run_key() == f"shop@{T1}#2"
