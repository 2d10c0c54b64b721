"""The checkpoint sensor: requests a run when the source checkpoint is ahead of the lake.

The lake says what was applied, the instance which runs there were; the cursor only avoids repeating
a page of the source.  So a tick after a restart decides as it would have without one.

A run is planned with the layers, not with tables and checks: Dagster writes an event for each asset
and each check that a run is planned with, and there may be thousands of which none has changed.

    source not ahead        no run, unless a load has been made that no run has taken up
    a limit ended its run   one more run, which reads on
    a run is in progress    no run; one more run covers what arrives meanwhile
    its process is gone     no run yet: it is marked as failed
    only watermarks came    no run, until the newest snapshot is five minutes old
    source ahead            a run with the key  changefeed@checkpoint
    its run failed          the same with the attempt, `#2`, after a pause that doubles each time
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets.advance import FEED_TAG
from ticdc_assets.assets.metadata import resolved_ts_metadata
from ticdc_assets.assets.specs import LAYER_UPSTREAM
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.loads import find_newest_load
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.catalog import read_ingested_offsets, read_last_row
from ticdc_assets.resources.dagster_settings import WATERMARK_SECONDS, read_poll_interval
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.resources.new_input import may_have_input
from ticdc_assets.resources.source import (
    explain_no_data,
    get_dump_size,
    read_checkpoint,
    read_topic_ends,
)
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.sensors.lost_runs import fail_if_lost
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

CHECKPOINT_TAG = "ticdc/checkpoint"
_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_OUTCOMES = {
    dg.DagsterRunStatus.CANCELED: "was canceled",
    dg.DagsterRunStatus.SUCCESS: "did not get this far",
}
# Dagster retries a failed run within this many seconds, or not at all.
_RETRY_SECONDS = 300
_MAX_PAUSE_SECONDS = 3600
# The source's page lists at most this many partitions.
_MAX_PARTITIONS = 200

ReadFile = Callable[[str], bytes]


@dataclass(frozen=True)
class SourceProgress:
    """How far a source has written; `token` identifies it in run keys."""

    token: str
    # None for topics and dumps, of which only the size is known.
    ts: int | None
    metadata: dict[str, Any]
    # The records of topics that the lake does not have yet.
    behind: int = 0
    # The number of the newest load; whether a run has succeeded since then is known from its tag.
    load: int = 0

    @property
    def tag(self) -> str:
        """What a run brings the lake to."""
        return f"{self.token}, load {self.load}" if self.load else self.token


def source_resources(names: FeedNames) -> dict[str, object]:
    """Return the S3 client that reads a changefeed's source, by resource key, if it needs one."""
    feed = names.feed
    if feed.scheme != "s3":
        return {}
    from ticdc_assets.resources.s3 import make_s3_resource

    client = make_s3_resource(feed)
    return {} if client is None else {f"s3_{names.identifier}": client}


def checkpoint_sensor(names: FeedNames, job: Any) -> dg.SensorDefinition:
    """Define the sensor that polls the source of one changefeed."""
    feed, lake_key = names.feed, naming.resource_key(names.scope, "lake")
    client_key = next(iter(source_resources(names)), None)

    @dg.sensor(
        name=f"{names.identifier}_checkpoint",
        description=f"Requests a run when the source checkpoint of changefeed {feed.id} is ahead of"
        " the lake.",
        job=job,
        minimum_interval_seconds=read_poll_interval(feed),
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={lake_key} if client_key is None else {lake_key, client_key},
    )
    def _sensor(
        context: dg.SensorEvaluationContext, **_: object
    ) -> dg.SensorResult | dg.SkipReason:
        # A direct call, as in a test, also passes resources by name.
        lake: LakeResource = getattr(context.resources, lake_key)
        read_file = None
        if client_key is not None:
            from ticdc_assets.resources.s3 import make_s3_reader

            read_file = make_s3_reader(feed, getattr(context.resources, client_key))
        with redacted_errors():
            return evaluate_tick(context, names, lake.for_changefeed(feed.id), read_file)

    return _sensor


def evaluate_tick(
    context: dg.SensorEvaluationContext,
    names: FeedNames,
    lake: Lake,
    read_file: ReadFile | None = None,
) -> dg.SensorResult | dg.SkipReason:
    """Observe the source, and decide whether to request a run."""
    feed = names.feed
    snapshot = read_last_row(lake)
    try:
        progress = read_source_progress(feed, lake, snapshot, read_file)
    except ConfigError as error:
        if feed.transport != "kafka":
            raise
        # Brokers that do not answer now may do so at the next tick.
        return dg.SkipReason(str(error))
    if progress is None:
        reason = explain_no_data(feed, had_data=snapshot is not None, read=read_file)
        return dg.SkipReason(f"{feed.location}: {reason}")
    progress = replace(progress, load=find_newest_load(LakeReader(lake)))
    decision = _decide(context, names, lake, progress, snapshot)
    is_requested = isinstance(decision, dg.RunRequest)
    observed = _Observed(progress.token, progress.behind, time.time())
    pages: list[dg.AssetMaterialization] = []
    if observed.is_new(context.cursor, at_once=is_requested):
        # Somebody else has materialized it: the UI shows an asset that is only observed as missing.
        key = names.layer(naming.SOURCE)
        pages = [dg.AssetMaterialization(asset_key=key, metadata=progress.metadata)]
    return dg.SensorResult(
        run_requests=[decision] if isinstance(decision, dg.RunRequest) else [],
        skip_reason=None if isinstance(decision, dg.RunRequest) else decision,
        cursor=observed.as_cursor() if pages else context.cursor,
        asset_events=pages,
    )


@dataclass(frozen=True)
class _Observed:
    """What a tick saw of a source; the cursor keeps it from the last one that made a page."""

    token: str
    behind: int
    at: float

    def as_cursor(self) -> str:
        return json.dumps(asdict(self))

    def is_new(self, cursor: str | None, *, at_once: bool) -> bool:
        """Whether it has changed since the last page, and that is not too recent."""
        last = json.loads(cursor or "{}")
        if (last.get("token"), last.get("behind")) == (self.token, self.behind):
            return False
        return at_once or abs(self.at - last.get("at", 0)) >= WATERMARK_SECONDS


def read_source_progress(
    feed: Changefeed,
    lake: Lake,
    applied: AppliedRow | None,
    read_file: ReadFile | None = None,
) -> SourceProgress | None:
    """Return how far a source has written; None if it holds nothing."""
    if feed.transport == "storage":
        ts = read_checkpoint(feed, read_file)
        return None if not ts else SourceProgress(str(ts), ts, resolved_ts_metadata(ts))
    if feed.transport == "kafka":
        watermarks = {} if applied is None else applied.watermarks
        return _read_topic_progress(feed, lake, watermarks)
    size = get_dump_size(feed)
    return None if not size else SourceProgress(f"{size} bytes", None, {"ticdc/bytes": size})


def _read_topic_progress(
    feed: Changefeed, lake: Lake, watermarks: Mapping[str, int]
) -> SourceProgress | None:
    """Return how many records the partitions were sent, and how many of them the lake has."""
    ends = read_topic_ends(feed)
    count = sum(ends.values())
    if not count:
        return None
    read = read_ingested_offsets(lake)
    behind = {name: max(end - read.get(name, 0), 0) for name, end in ends.items()}
    rows = [
        dg.TableRecord(
            {
                "partition": name,
                "newest": end,
                "read": end - behind[name],
                "behind": behind[name],
                **_describe_watermark(watermarks.get(name, 0)),
            }
        )
        for name, end in sorted(ends.items())
    ]
    # A partition that is added changes what is to be read as well.
    token = f"{count} records of {len(ends)} partitions"
    metadata = {
        "ticdc/records": count,
        "ticdc/records_behind": sum(behind.values()),
        "ticdc/partitions": dg.MetadataValue.table(rows[:_MAX_PARTITIONS]),
    }
    return SourceProgress(token, None, metadata, sum(behind.values()))


def _describe_watermark(ts: int) -> dict[str, str | float]:
    """Describe up to which ts a partition is applied, and how far that is in the past."""
    if not ts:
        return {"resolved_ts": "none yet", "seconds_behind": ""}
    lag = resolved_ts_metadata(ts).get("ticdc/lag_seconds", "")
    # The UI cannot represent integers of this size exactly: a text.
    return {"resolved_ts": str(ts), "seconds_behind": lag}


def _decide(
    context: dg.SensorEvaluationContext,
    names: FeedNames,
    lake: Lake,
    progress: SourceProgress,
    snapshot: AppliedRow | None,
) -> dg.RunRequest | str:
    """Return the run to request, or why none is."""
    feed = names.feed
    applied_ts = None if snapshot is None else snapshot.ts
    is_applied = progress.ts is not None and (applied_ts or 0) >= progress.ts
    if is_applied and not progress.load:
        return f"up to date: applied up to {applied_ts}"
    instance = context.instance
    in_progress = dg.RunsFilter(tags={FEED_TAG: names.tag}, statuses=_IN_PROGRESS)
    if records := instance.get_run_records(in_progress, limit=1):
        run_id = records[0].dagster_run.run_id[:8]
        if fail_if_lost(instance, records[0], lake):
            return f"the process of run {run_id} is gone; another run follows"
        return f"run {run_id} is in progress; the next one covers what arrives meanwhile"
    tags = {FEED_TAG: names.tag, CHECKPOINT_TAG: progress.tag}
    records = instance.get_run_records(dg.RunsFilter(tags=tags))
    has_succeeded = any(r.dagster_run.status == dg.DagsterRunStatus.SUCCESS for r in records)
    if has_succeeded and is_applied:
        return f"up to date: applied up to {applied_ts}"
    is_read = progress.ts is None and not progress.behind
    if has_succeeded and is_read and applied_ts is not None:
        return f"up to date: applied all {progress.token}"
    if snapshot is not None and _has_taken_up(instance, names, progress):
        # The clocks of two machines may differ.
        left = WATERMARK_SECONDS - abs(time.time() - snapshot.committed_at.timestamp())
        if left > 0 and not may_have_input(feed, lake, snapshot.ts):
            return f"only watermarks came since; a run for them follows in {left:.0f} s"
    if records:
        last = max(records, key=lambda record: record.create_timestamp)
        ended = last.end_time or last.create_timestamp.timestamp()
        # After the clock was set back, runs ended in the future: that delays nothing for longer.
        waited = abs(time.time() - ended)
        if _will_retry(last.dagster_run) and waited < _RETRY_SECONDS:
            return f"run {last.dagster_run.run_id[:8]} failed; Dagster will retry it"
        pause = min(read_poll_interval(feed) * 2 ** min(len(records) - 1, 12), _MAX_PAUSE_SECONDS)
        # A run that succeeded and left records behind has used its time.
        was_limited = progress.behind and last.dagster_run.status == dg.DagsterRunStatus.SUCCESS
        if waited < pause and not was_limited:
            outcome = _OUTCOMES.get(last.dagster_run.status, "failed")
            return f"attempt {len(records)} {outcome}; the next one follows after {pause:.0f} s"
    attempt = len(records) + 1
    key = f"{names.tag}@{progress.tag}" + (f"#{attempt}" if attempt > 1 else "")
    layers = [names.layer(layer) for layer in LAYER_UPSTREAM]
    return dg.RunRequest(run_key=key, tags=tags, asset_selection=layers, asset_check_keys=[])


def _has_taken_up(instance: dg.DagsterInstance, names: FeedNames, progress: SourceProgress) -> bool:
    """Return whether the last run succeeded, after the newest load."""
    runs = instance.get_runs(dg.RunsFilter(tags={FEED_TAG: names.tag}), limit=1)
    if not runs or runs[0].status != dg.DagsterRunStatus.SUCCESS:
        return False
    tag = runs[0].tags.get(CHECKPOINT_TAG, "")
    return not progress.load or tag.endswith(f", load {progress.load}")


def _will_retry(run: dg.DagsterRun) -> bool:
    """Return whether Dagster has announced a retry of a run, and has not launched it yet."""
    tags = run.tags
    return tags.get("dagster/will_retry") == "true" and "dagster/auto_retry_run_id" not in tags
