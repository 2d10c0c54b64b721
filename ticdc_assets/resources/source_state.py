"""How far sources have got: their checkpoints, and when TiCDC wrote last."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import physical_ms
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.resources.catalog import read_ingested_offsets
from ticdc_assets.resources.dagster_settings import WATERMARK_SECONDS
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.resources.source import explain_no_data, read_checkpoint
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake
from ticdc_assets.views.status import LakeState, SourceState, read_lake_state

_METADATA = "metadata"
# How far watermarks alone are ahead of the lake at most, where runs apply them: the sensor waits,
# and a run takes its time.
_IDLE_SECONDS = 2 * WATERMARK_SECONDS
_NO_WATERMARKS = (
    "the stream has no watermarks (enable-tidb-extension): nothing distinguishes a changefeed that"
    " is idle from one that has stopped"
)
_DUMP = "only a run reads the watermarks of a dump"


def read_source_states(
    feeds: Iterable[Changefeed],
    root: str,
    lakes: Mapping[str, LakeState],
    caller: PatientCaller,
    max_lag: float,
) -> dict[str, SourceState]:
    """Read the states of several sources at a time; no error is raised."""
    calls = {
        ("source", feed.id): partial(_read, feed, Lake(root, feed.id), lakes[feed.id], max_lag)
        for feed in feeds
    }
    return {
        id: SourceState(reason=str(found), is_readable=False)
        if isinstance(found, ConfigError)
        else found
        for (_, id), found in caller.call_all(calls).items()
    }


def read_lake_states(
    feeds: Iterable[Changefeed],
    root: str,
    caller: PatientCaller,
    read: Callable[[Lake], LakeState] = read_lake_state,
) -> dict[str, LakeState]:
    """Read the states of several changefeeds' lakes at a time; no error is raised."""
    calls = {("lake", feed.id): partial(read, Lake(root, feed.id)) for feed in feeds}
    return {
        id: LakeState(reason=str(found)) if isinstance(found, ConfigError) else found
        for (_, id), found in caller.call_all(calls).items()
    }


def has_watermarks(feed: Changefeed) -> bool:
    """Return whether a source tells up to which ts it is complete, without being read whole."""
    if feed.transport == "kafka":
        return get_ordering(feed) != "milliseconds"
    return feed.transport == "storage"


def _read(feed: Changefeed, location: Lake, lake: LakeState, max_lag: float) -> SourceState:
    match feed.transport:
        case "kafka":
            found = _read_topics(feed, location, lake)
        case "storage":
            found = _read_folder(feed, had_data=bool(lake.resolved_ts))
        case _:
            return _read_dump(feed, had_data=bool(lake.resolved_ts))
    ts = lake.resolved_ts
    ahead = (physical_ms(found.checkpoint_ts or 0) - physical_ms(ts)) / 1000
    if not 0 < ahead <= _IDLE_SECONDS or max_lag >= _IDLE_SECONDS:
        return found
    # It imports Spark, and takes longer than all of the above.
    from ticdc_assets.resources.new_input import may_have_input

    return replace(found, has_only_watermarks=not may_have_input(feed, location, ts))


def _read_topics(feed: Changefeed, location: Lake, lake: LakeState) -> SourceState:
    # Who reads folders has not installed Kafka's client.
    from ticdc_assets.resources.topic_tail import read_tail

    tail = read_tail(feed)
    ends = {f"{name}-{number}": place.end for (name, number), place in tail.partitions.items()}
    if not any(ends.values()):
        return _find_nothing(feed, had_data=bool(lake.resolved_ts))
    read = read_ingested_offsets(location)
    behind = sum(max(end - read.get(name, 0), 0) for name, end in ends.items())
    if not has_watermarks(feed):
        return SourceState(
            None, tail.newest_at, behind, has_watermarks=False, reason=_NO_WATERMARKS
        )
    return SourceState(tail.find_checkpoint(feed, lake.watermarks), tail.newest_at, behind)


def _read_folder(feed: Changefeed, *, had_data: bool) -> SourceState:
    ts = read_checkpoint(feed)
    if ts is None:
        return _find_nothing(feed, had_data=had_data)
    return SourceState(ts, open_sink_folder(feed).modified_at(_METADATA))


def _read_dump(feed: Changefeed, *, had_data: bool) -> SourceState:
    try:
        found = Path(feed.location).stat()
    except FileNotFoundError:
        return _find_nothing(feed, had_data=had_data)
    except OSError as error:
        reason = f"cannot read the dump: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, file=feed.location, setting="sink-uri") from None
    newest = datetime.fromtimestamp(found.st_mtime, UTC)
    return SourceState(newest_at=newest, has_watermarks=False, reason=_DUMP)


def _find_nothing(feed: Changefeed, *, had_data: bool) -> SourceState:
    """Describe a source without data: one that had some cannot be read any more."""
    reason = f"{feed.location}: {explain_no_data(feed, had_data=had_data)}"
    return SourceState(reason=reason, is_readable=not had_data)
