"""The checkpoint sensor of a source that sends watermarks and nothing else."""

import dagster as dg
import pytest

from tests.sensors.world import T1, T2, T3, World, job
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.sensors import checkpoint
from ticdc_assets.store.lock import locked


@pytest.fixture
def idle(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world, with a source that has only watermarks since a snapshot."""
    monkeypatch.setattr(checkpoint, "may_have_input", lambda *_: False)
    world.writes(T1)
    world.runs(T1)
    world.has_applied(T1)
    world.writes(T2)
    return world


def test_watermarks_alone_are_applied_every_five_minutes(
    idle: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert idle.skipped().startswith("only watermarks came since; a run for them follows in ")
    now = checkpoint.time.time()
    monkeypatch.setattr(checkpoint.time, "time", lambda: now + 299)
    assert idle.run_key() is None
    monkeypatch.setattr(checkpoint.time, "time", lambda: now + 301)
    assert idle.run_key() == f"shop@{T2}"


def test_other_input_is_applied_at_once(idle: World, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []

    def search(*given: object) -> bool:
        searched.append(given)
        return True

    monkeypatch.setattr(checkpoint, "may_have_input", search)
    assert idle.run_key() == f"shop@{T2}"
    assert searched == [(idle.feed, idle.lake, T1)]


def test_what_a_failed_run_left_behind_is_no_watermark(idle: World) -> None:
    # It may have ingested files, of which nothing is decoded yet.
    idle.runs(T2, fail="yes")
    idle.writes(T3)
    assert idle.run_key() == f"shop@{T3}"
    idle.runs(T3)
    idle.writes(T3 + 1)
    assert idle.run_key() is None


def test_a_source_is_observed_at_most_every_five_minutes_while_no_run_is_requested(
    idle: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed: list[int] = []
    now, tags = checkpoint.time.time(), {FEED_TAG: "shop"}
    idle.instance.create_run_for_job(job_def=job, status=dg.DagsterRunStatus.STARTED, tags=tags)
    with locked(idle.lake, "advance"):
        for second in range(0, 1200, 15):
            idle.writes(T2 + second)
            monkeypatch.setattr(checkpoint.time, "time", lambda: now + second)  # noqa: B023
            observed += [second] if idle.tick().asset_events else []
    assert observed == [0, 300, 600, 900]
    # Without a change there is nothing to observe.
    for later, count in ((9000, 1), (18000, 0)):
        monkeypatch.setattr(checkpoint.time, "time", lambda: now + later)  # noqa: B023
        assert len(idle.tick().asset_events) == count
