"""A source, its lake, an instance, and the checkpoint sensor over them."""

import json
from pathlib import Path

import dagster as dg

from tests.made_lake import write_snapshot
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.sensors.checkpoint import CHECKPOINT_TAG, checkpoint_sensor
from ticdc_assets.store.lake import Lake

T1, T2, T3 = (470628459884838913 + (n << 30) for n in range(3))


@dg.op
def work(context: dg.OpExecutionContext) -> None:
    if context.run.tags.get("fail"):
        raise ValueError("no")


@dg.job
def job() -> None:
    work()


class World:
    """A source, a lake, an instance, and the sensor over them."""

    def __init__(self, folder: Path, feed: Changefeed, instance: dg.DagsterInstance) -> None:
        self.folder = folder
        self.feed = feed
        self.lake = Lake(str(folder / "lake"), feed.id)
        self.instance = instance
        self.sensor = checkpoint_sensor(FeedNames(feed), job)
        self.cursor: str | None = None
        self._seq = 0

    def writes(self, ts: int) -> None:
        (self.folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    def has_applied(self, ts: int) -> None:
        self._seq += 1
        write_snapshot(self.lake, self._seq, ts)

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

    def skip_reason(self) -> str:
        """Return why a tick looks at no progress."""
        resources = {"lake": LakeResource(root=str(self.folder / "lake"))}
        result = self.sensor(dg.build_sensor_context(self.instance, resources=resources))
        assert isinstance(result, dg.SkipReason)
        return result.skip_message or ""

    def skipped(self) -> str:
        """Return why a tick requests no run."""
        reason = self.tick().skip_reason
        return "" if reason is None else reason.skip_message or ""

    def run_key(self) -> str | None:
        requests = self.tick().run_requests or []
        assert len(requests) <= 1
        return requests[0].run_key if requests else None

    def runs(self, ts: object, **tags: str) -> dg.ExecuteInProcessResult:
        stated = {FEED_TAG: self.feed.id, CHECKPOINT_TAG: str(ts), **tags}
        return job.execute_in_process(instance=self.instance, tags=stated, raise_on_error=False)
