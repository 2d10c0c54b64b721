"""The checkpoint sensor as a state machine over the source, the lake and past runs."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from tests.sensors.world import T1, T2, T3, World, job
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.dagster_settings import read_poll_interval
from ticdc_assets.sensors import checkpoint
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG, checkpoint_sensor
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import LOADS
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter


@pytest.fixture
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pause between two attempts."""
    monkeypatch.setattr(checkpoint, "_MAX_PAUSE_SECONDS", 0)


def test_an_empty_source_requests_no_run(world: World) -> None:
    assert world.skip_reason().endswith("the source has no data yet")


def test_a_half_written_metadata_file_requests_no_run(world: World) -> None:
    (world.folder / "metadata").write_text('{"checkpoint-t')

    assert "cannot read the file metadata: " in world.skip_reason()


def test_a_source_that_has_disappeared_or_is_damaged_is_not_one_without_data(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    feed = changefeed_from_uri(f"file://{tmp_path}/source?protocol=csv", id="shop")
    world = World(tmp_path, feed, instance)
    # Before there is a lake, TiCDC may not have created its folder yet.
    assert world.skip_reason().endswith("the source has no data yet")
    world.has_applied(T1)
    with pytest.raises(ConfigError, match="no such folder"):
        world.skip_reason()
    (tmp_path / "source").mkdir()
    assert world.skip_reason().endswith("the file metadata has disappeared")
    for damaged in ("", "[]", '{"checkpoint-ts":"x"}', '{"checkpoint-ts":-5}'):
        (tmp_path / "source" / "metadata").write_text(damaged)
        assert "cannot read the file metadata: " in world.skip_reason()

    dump = changefeed_from_uri(f"dump://{tmp_path}/records.jsonl?protocol=simple", id="shop")
    assert World(tmp_path, dump, instance).skip_reason().endswith("all records have disappeared")


def test_each_new_checkpoint_is_requested_and_observed_once(world: World) -> None:
    world.writes(T1)
    first = world.tick()
    assert [r.run_key for r in first.run_requests or []] == [f"shop@{T1}"]
    assert first.run_requests[0].tags == {FEED_TAG: "shop", CHECKPOINT_TAG: str(T1)}
    (observed,) = first.asset_events
    assert observed.asset_key == dg.AssetKey(["shop", "source"])
    assert observed.metadata["ticdc/resolved_ts"].value == str(T1)
    # Until the run is recorded, the same key again: Dagster launches it once.
    again = world.tick()
    assert [r.run_key for r in again.run_requests or []] == [f"shop@{T1}"]
    assert not again.asset_events

    world.runs(T1)
    world.has_applied(T1)
    assert world.run_key() is None

    world.writes(T2)
    assert world.run_key() == f"shop@{T2}"


def test_a_run_is_planned_with_the_layers_whatever_tables_there_are(world: World) -> None:
    world.writes(T1)
    (request,) = world.tick().run_requests or []
    layers = [key.path for key in request.asset_selection or ()]
    assert layers == [["shop", name] for name in ("raw", "events", "quarantine", "checkpoints")]
    # By default Dagster plans the checks of selected assets, too.
    assert request.asset_check_keys == []


def test_a_load_is_taken_up_by_a_run_although_the_source_is_not_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.writes(T1)
    world.runs(T1)
    world.has_applied(T1)
    assert world.run_key() is None

    LakeWriter(world.lake).create("loads", arrow_schema(LOADS), {})
    for number, key in enumerate((f"shop@{T1}, load 1", f"shop@{T1}, load 2"), 1):
        row = (number, T1, "x", "d", "t", 0, 1, 0, "an export", datetime.now(UTC), "{}")
        loads = LakeReader(world.lake).open("loads")
        LakeWriter(world.lake).append(loads, make_table(LOADS, [row]))
        assert world.run_key() == key
        world.runs(f"{T1}, load {number}")
        assert world.run_key() is None

    world.writes(T2)
    assert world.run_key() == f"shop@{T2}, load 2"
    # That there was a load makes no watermark urgent.
    monkeypatch.setattr(checkpoint, "may_have_input", lambda *_: False)
    assert world.run_key() is None
    row = (3, T1, "x", "d", "t", 0, 1, 0, "an export", datetime.now(UTC), "{}")
    loads = LakeReader(world.lake).open("loads")
    LakeWriter(world.lake).append(loads, make_table(LOADS, [row]))
    assert world.run_key() == f"shop@{T2}, load 3"


def test_during_a_run_no_run_is_requested(world: World) -> None:
    world.writes(T1)
    run = world.instance.create_run_for_job(
        job_def=job,
        status=dg.DagsterRunStatus.STARTED,
        tags={FEED_TAG: "shop", CHECKPOINT_TAG: str(T1)},
    )
    assert world.run_key() is None
    world.writes(T2)
    assert world.run_key() is None
    world.writes(T3)
    result = world.tick()
    assert not result.run_requests
    assert result.skip_reason is not None
    assert run.run_id[:8] in (result.skip_reason.skip_message or "")

    world.instance.delete_run(run.run_id)
    world.has_applied(T1)
    assert world.run_key() == f"shop@{T3}"


def test_runs_of_other_changefeeds_do_not_count(world: World) -> None:
    world.writes(T1)
    world.instance.create_run_for_job(
        job_def=job, status=dg.DagsterRunStatus.STARTED, tags={FEED_TAG: "other"}
    )

    assert world.run_key() == f"shop@{T1}"


@pytest.mark.usefixtures("without_pause")
def test_a_failed_run_is_requested_again_with_a_new_key(world: World) -> None:
    world.writes(T1)
    assert not world.runs(T1, fail="yes").success
    assert world.run_key() == f"shop@{T1}#2"
    assert not world.runs(T1, fail="yes").success
    assert world.run_key() == f"shop@{T1}#3"
    # A newer checkpoint has a key of its own, and its run covers the failed one.
    world.writes(T2)
    assert world.run_key() == f"shop@{T2}"


def test_attempts_are_separated_by_a_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.writes(T1)
    world.runs(T1, fail="yes")
    assert world.run_key() is None
    now = checkpoint.time.time()
    monkeypatch.setattr(checkpoint.time, "time", lambda: now + 60)
    assert world.run_key() == f"shop@{T1}#2"
    # A clock that was set back delays it no further.
    monkeypatch.setattr(checkpoint.time, "time", lambda: now - 30 * 86400)
    assert world.run_key() == f"shop@{T1}#2"


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("failed", "failed"), ("canceled", "was canceled"), ("succeeded", "did not get this far")],
)
def test_a_pause_says_how_the_attempt_before_it_ended(
    world: World, outcome: str, said: str
) -> None:
    world.writes(T1)
    run = world.runs(T1, **({} if outcome == "succeeded" else {"fail": "yes"}))
    if outcome == "canceled":
        world.instance.report_run_canceled(run.dagster_run)
    skipped = world.tick().skip_reason
    assert skipped is not None
    assert f"attempt 1 {said}; the next one follows" in (skipped.skip_message or "")


@pytest.mark.usefixtures("without_pause")
def test_a_run_that_dagster_retries_is_not_requested(world: World) -> None:
    world.writes(T1)
    failed = world.runs(T1, fail="yes")
    world.instance.add_run_tags(failed.run_id, {"dagster/will_retry": "true"})
    assert world.run_key() is None
    # The retry failed as well.
    world.instance.add_run_tags(failed.run_id, {"dagster/auto_retry_run_id": "x"})
    assert world.run_key() == f"shop@{T1}#2"


@pytest.mark.usefixtures("without_pause")
def test_the_lake_decides_and_not_the_status_of_runs(world: World) -> None:
    world.writes(T1)
    # A run that succeeded and applied nothing, or a lake that was deleted since.
    assert world.runs(T1).success
    assert world.run_key() == f"shop@{T1}#2"


def test_a_restarted_sensor_decides_the_same(world: World) -> None:
    world.writes(T1)
    world.has_applied(T1)
    assert world.run_key() is None
    world.writes(T2)
    world.cursor = None
    world.sensor = checkpoint_sensor(FeedNames(world.feed), job)
    assert world.run_key() == f"shop@{T2}"
    world.runs(T2)
    world.has_applied(T2)
    world.cursor = None
    assert world.run_key() is None


@pytest.mark.usefixtures("without_pause")
def test_a_growing_dump_is_requested(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    file = tmp_path / "records.jsonl"
    feed = changefeed_from_uri(f"dump://{file}?protocol=simple", id="topic")
    world = World(tmp_path, feed, instance)
    file.write_text("x" * 10)
    assert world.run_key() == "topic@10 bytes"
    world.runs("10 bytes", fail="yes")
    assert world.run_key() == "topic@10 bytes#2"
    world.runs("10 bytes")
    world.has_applied(T1)
    assert world.run_key() is None
    file.write_text("x" * 20)
    assert world.run_key() == "topic@20 bytes"


def test_a_changefeed_may_have_its_own_poll_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = changefeed_from_uri("file:///x?protocol=csv", id="shop-eu")
    assert read_poll_interval(feed) == 15
    monkeypatch.setenv("TICDC_SENSOR_SECONDS", "60")
    assert read_poll_interval(feed) == 60
    monkeypatch.setenv("TICDC_SENSOR_SECONDS_SHOP_EU", "5")
    assert checkpoint_sensor(FeedNames(feed), job).minimum_interval_seconds == 5
    monkeypatch.setenv("TICDC_SENSOR_SECONDS_SHOP_EU", "soon")
    with pytest.raises(ConfigError, match="TICDC_SENSOR_SECONDS_SHOP_EU"):
        read_poll_interval(feed)
