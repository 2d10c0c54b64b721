"""The ts at which a lake can be shown: from its first event, load or fold to its last snapshot."""

from contextlib import suppress

import pyarrow.compute as pc

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import compose, physical_ms
from ticdc_assets.events.tso_text import describe_ts, describe_unix_time
from ticdc_assets.log.folds import read_fold
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.reader import LakeNotFound, LakeReader


def require_in_range(reader: LakeReader, ts: int, last: Snapshot, setting: str = "--at") -> None:
    """Raise a `ConfigError` for a ts before the lake's first one, or behind its last."""
    if not last.snapshot_id or not last.ts:
        raise ConfigError(f"{describe_ts(ts)} is not applied yet: nothing is", setting=setting)
    require_above_fold(reader, ts, setting)
    first_snapshot = reader.min_of(reader.open("applied"), "resolved_ts") or last.ts
    if first_snapshot <= ts <= last.ts:
        return
    first = _find_first_ts(reader, last)
    # A time has no counter.
    if compose(physical_ms(first)) <= ts <= last.ts:
        return
    reason = describe_unix_time(ts) or (
        f"{describe_ts(ts)} is not applied yet"
        if ts > last.ts
        else f"{describe_ts(ts)} is before everything in the lake"
    )
    known = f"the lake has {describe_ts(first)} to {describe_ts(last.ts)}"
    raise ConfigError(f"{reason}; {known}", setting=setting)


def require_above_fold(reader: LakeReader, ts: int, setting: str) -> None:
    """Raise a `ConfigError` for a ts of which a fold has removed the events."""
    fold = read_fold(reader)
    if ts < fold.ts:
        reason = (
            f"{describe_ts(ts)} is below {fold.describe()}: row events up to there are removed"
            " (keep-events-days), so the lake can be shown from there on"
        )
        raise ConfigError(reason, setting=setting)


def _find_first_ts(reader: LakeReader, last: Snapshot) -> int:
    """Return the ts of the first event or load."""
    found = [last.ts, reader.min_of(reader.open("events"), "commit_ts")]
    # An older release created the lake without the table.
    with suppress(LakeNotFound):
        found.append(pc.min(reader.read(reader.open("loads"), ["ts"])["ts"]).as_py())
    return min(ts for ts in found if ts)
