"""A sensor a changefeed: where its source has got beyond the lake, a run is asked for.

The lake says what was applied, the instance which runs there were; the cursor only keeps the same
observation from being made twice.  So a tick decides the same after a restart as without one.

    nothing new             no run
    a run is on             no run: what has come meanwhile is one run more when it has ended
    new                     a run with the key  changefeed@checkpoint
    its run has failed      the same with an attempt, `#2`, after a pause that grows with them
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from resources.catalog import last_line
from resources.deployment import LakeResource
from resources.source import get_dump_size, read_checkpoint
from ticdc_assets import naming
from ticdc_assets.assets import results
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.assets.run_budget import poll_interval
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.store.lake import Lake

CHECKPOINT_TAG = "ticdc/checkpoint"
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# The instance itself runs a failed run again soon; what it has not by then it will not.
_RETRY_WITHIN = 300
_LONGEST_PAUSE = 3600


@dataclass(frozen=True)
class SourceProgress:
    """How far a source has got: what a run's key says of it, and what a page shows."""

    token: str
    # None where only its size is known.
    ts: int | None
    metadata: dict[str, Any]


def checkpoint_sensor(feed: Changefeed, job: Any, s3: str | None = None) -> dg.SensorDefinition:
    """Watch the source of one changefeed; `s3` is the key of the resource to read it with."""

    @dg.sensor(
        name=f"{naming.identifier(feed.id)}_checkpoint",
        description=f"Runs when changefeed {feed.id} has written beyond what the lake has applied.",
        job=job,
        minimum_interval_seconds=poll_interval(feed),
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"lake"} if s3 is None else {"lake", s3},
    )
    def _sensor(
        context: dg.SensorEvaluationContext, **_: object
    ) -> dg.SensorResult | dg.SkipReason:
        # Where a test calls it, resources come by name too.
        lake: LakeResource = context.resources.lake
        read = None
        if s3 is not None:
            from resources.s3 import make_s3_reader

            read = make_s3_reader(feed, getattr(context.resources, s3))
        return tick(context, feed, lake.for_changefeed(feed.id), read)

    return _sensor


def tick(
    context: dg.SensorEvaluationContext,
    feed: Changefeed,
    lake: Lake,
    read: Callable[[str], bytes] | None = None,
) -> dg.SensorResult | dg.SkipReason:
    """Decide whether a run is due."""
    position = source_position(feed, read)
    if position is None:
        return dg.SkipReason(f"{feed.location}: nothing is there yet")
    line = last_line(lake)
    applied = 0 if line is None else line.ts
    observed: list[dg.AssetObservation] = []
    cursor = json.dumps({"observed": position.token})
    if context.cursor != cursor:
        key = naming.layer_asset_key(feed, naming.SOURCE)
        observed = [dg.AssetObservation(asset_key=key, metadata=position.metadata)]
    asked, why = _request(context, feed, position, applied, is_there=line is not None)
    return dg.SensorResult(
        run_requests=[] if asked is None else [asked],
        skip_reason=None if asked is not None else why,
        cursor=cursor,
        asset_events=observed,
    )


def source_position(
    feed: Changefeed, read: Callable[[str], bytes] | None = None
) -> SourceProgress | None:
    """How far the source has got; None if nothing is there."""
    if feed.transport == "storage":
        ts = read_checkpoint(feed, read)
        return None if not ts else SourceProgress(str(ts), ts, results.at(ts))
    size = get_dump_size(feed)
    return None if not size else SourceProgress(f"{size} bytes", None, {"ticdc/bytes": size})


def _request(
    context: dg.SensorEvaluationContext,
    feed: Changefeed,
    position: SourceProgress,
    applied: int,
    *,
    is_there: bool,
) -> tuple[dg.RunRequest | None, str]:
    """The run that is due, or why none is."""
    if position.ts is not None and applied >= position.ts:
        return None, f"applied up to {applied}, which is all there is"
    instance = context.instance
    under_way = instance.get_runs(
        dg.RunsFilter(tags={FEED_TAG: feed.id}, statuses=_UNDER_WAY), limit=1
    )
    if under_way:
        return None, f"run {under_way[0].run_id[:8]} is on; what has come meanwhile comes next"
    tags = {FEED_TAG: feed.id, CHECKPOINT_TAG: position.token}
    records = instance.get_run_records(dg.RunsFilter(tags=tags))
    succeeded = [r for r in records if r.dagster_run.status == dg.DagsterRunStatus.SUCCESS]
    if succeeded and position.ts is None and is_there:
        return None, f"all {position.token} were there when run last went through"
    if records:
        last = max(records, key=lambda record: record.create_timestamp)
        ended = last.end_time or last.create_timestamp.timestamp()
        waited = time.time() - ended
        if _runs_again(last.dagster_run) and waited < _RETRY_WITHIN:
            return None, f"run {last.dagster_run.run_id[:8]} has failed, and is retried"
        pause = min(poll_interval(feed) * 2 ** min(len(records) - 1, 12), _LONGEST_PAUSE)
        if waited < pause:
            return None, f"attempt {len(records)} has failed; the next is due in {pause:.0f} s"
    attempt = len(records) + 1
    key = f"{feed.id}@{position.token}" + (f"#{attempt}" if attempt > 1 else "")
    return dg.RunRequest(run_key=key, tags=tags), ""


def _runs_again(run: dg.DagsterRun) -> bool:
    """Whether the instance has said that it will run this one again, and has not yet."""
    tags = run.tags
    return tags.get("dagster/will_retry") == "true" and "dagster/auto_retry_run_id" not in tags
