"""The sensor as a state machine: what source and lake say, and which runs there were."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from resources.deployment import LakeResource
from tests.made_lake import write_line
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.assets.run_budget import poll_interval
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.sensors import checkpoint
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG, checkpoint_sensor

T1, T2, T3 = (470628459884838913 + (n << 30) for n in range(3))


@dg.op
def work(context: dg.OpExecutionContext) -> None:
    if context.run.tags.get("fail"):
        raise ValueError("no")


@dg.job
def job() -> None:
    work()


class World:
    """A source, a lake and an instance, and a sensor that looks at them."""

    def __init__(self, folder: Path, feed: Changefeed, instance: dg.DagsterInstance) -> None:
        self.folder = folder
        self.feed = feed
        self.lake = Lake(str(folder / "lake"), feed.id)
        self.instance = instance
        self.sensor = checkpoint_sensor(feed, job)
        self.cursor: str | None = None
        self._seq = 0

    def writes(self, ts: int) -> None:
        (self.folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    def has_applied(self, ts: int) -> None:
        self._seq += 1
        write_line(self.lake, self._seq, ts)

    def tick(self) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            resources={"lake": LakeResource(root=str(self.folder / "lake"))},
        )
        result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return result

    def run_key(self) -> str | None:
        requests = self.tick().run_requests or []
        assert len(requests) <= 1
        return requests[0].run_key if requests else None

    def runs(self, ts: object, **tags: str) -> dg.ExecuteInProcessResult:
        stated = {FEED_TAG: self.feed.id, CHECKPOINT_TAG: str(ts), **tags}
        return job.execute_in_process(instance=self.instance, tags=stated, raise_on_error=False)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, instance: dg.DagsterInstance) -> World:
    feed = changefeed_from_uri(f"file://{tmp_path}?protocol=csv", id="shop")
    return World(tmp_path, feed, instance)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two attempts."""
    monkeypatch.setattr(checkpoint, "_LONGEST_PAUSE", 0)


def test_nothing_is_asked_for_where_nothing_is(world: World) -> None:
    context = dg.build_sensor_context(
        instance=world.instance, resources={"lake": LakeResource(root=str(world.folder / "lake"))}
    )

    assert isinstance(world.sensor(context), dg.SkipReason)


def test_a_half_written_metadata_is_looked_at_again(world: World) -> None:
    (world.folder / "metadata").write_text('{"checkpoint-t')
    context = dg.build_sensor_context(
        instance=world.instance, resources={"lake": LakeResource(root=str(world.folder / "lake"))}
    )

    assert isinstance(world.sensor(context), dg.SkipReason)


def test_each_new_checkpoint_is_asked_for_and_observed_once(world: World) -> None:
    world.writes(T1)
    first = world.tick()
    assert [r.run_key for r in first.run_requests or []] == [f"shop@{T1}"]
    assert first.run_requests[0].tags == {FEED_TAG: "shop", CHECKPOINT_TAG: str(T1)}
    (observed,) = first.asset_events
    assert observed.asset_key == dg.AssetKey(["shop", "source"])
    assert observed.metadata["ticdc/resolved_ts"].value == str(T1)
    # Before the run has been recorded: the same key, which Dagster takes once.
    again = world.tick()
    assert [r.run_key for r in again.run_requests or []] == [f"shop@{T1}"]
    assert not again.asset_events

    world.runs(T1)
    world.has_applied(T1)
    assert world.run_key() is None

    world.writes(T2)
    assert world.run_key() == f"shop@{T2}"


def test_while_a_run_is_on_ticks_become_one(world: World) -> None:
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


def test_another_changefeeds_run_is_none_of_ours(world: World) -> None:
    world.writes(T1)
    world.instance.create_run_for_job(
        job_def=job, status=dg.DagsterRunStatus.STARTED, tags={FEED_TAG: "other"}
    )

    assert world.run_key() == f"shop@{T1}"


@pytest.mark.usefixtures("impatient")
def test_a_failed_run_is_asked_for_again_under_a_key_of_its_own(world: World) -> None:
    world.writes(T1)
    assert not world.runs(T1, fail="yes").success
    assert world.run_key() == f"shop@{T1}#2"
    assert not world.runs(T1, fail="yes").success
    assert world.run_key() == f"shop@{T1}#3"
    # What came meanwhile is due all the same, and takes with it what had failed.
    world.writes(T2)
    assert world.run_key() == f"shop@{T2}"


def test_after_a_failed_run_there_is_a_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.writes(T1)
    world.runs(T1, fail="yes")
    assert world.run_key() is None
    now = checkpoint.time.time()
    monkeypatch.setattr(checkpoint.time, "time", lambda: now + 60)
    assert world.run_key() == f"shop@{T1}#2"


@pytest.mark.usefixtures("impatient")
def test_a_run_that_the_instance_runs_again_is_not_asked_for(world: World) -> None:
    world.writes(T1)
    failed = world.runs(T1, fail="yes")
    world.instance.add_run_tags(failed.run_id, {"dagster/will_retry": "true"})
    assert world.run_key() is None
    # It did, and that failed too, for good.
    world.instance.add_run_tags(failed.run_id, {"dagster/auto_retry_run_id": "x"})
    assert world.run_key() == f"shop@{T1}#2"


@pytest.mark.usefixtures("impatient")
def test_the_lake_is_believed_and_not_a_run(world: World) -> None:
    world.writes(T1)
    # A run that succeeded and applied nothing, or a lake that was taken away since.
    assert world.runs(T1).success
    assert world.run_key() == f"shop@{T1}#2"


def test_a_restart_decides_the_same(world: World) -> None:
    world.writes(T1)
    world.has_applied(T1)
    assert world.run_key() is None
    world.writes(T2)
    world.cursor = None
    world.sensor = checkpoint_sensor(world.feed, job)
    assert world.run_key() == f"shop@{T2}"
    world.runs(T2)
    world.has_applied(T2)
    world.cursor = None
    assert world.run_key() is None


@pytest.mark.usefixtures("impatient")
def test_a_dump_that_grows_is_asked_for(tmp_path: Path, instance: dg.DagsterInstance) -> None:
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


def test_the_interval_is_the_changefeeds_own_or_everybodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = changefeed_from_uri("file:///x?protocol=csv", id="shop-eu")
    assert poll_interval(feed) == 15
    monkeypatch.setenv("TICDC_SENSOR_SECONDS", "60")
    assert poll_interval(feed) == 60
    monkeypatch.setenv("TICDC_SENSOR_SECONDS_SHOP_EU", "5")
    assert checkpoint_sensor(feed, job).minimum_interval_seconds == 5
    monkeypatch.setenv("TICDC_SENSOR_SECONDS_SHOP_EU", "soon")
    with pytest.raises(ConfigError, match="TICDC_SENSOR_SECONDS_SHOP_EU"):
        poll_interval(feed)
