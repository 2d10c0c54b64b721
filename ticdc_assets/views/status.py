"""How far a changefeed has got: what TiCDC has sent, what the lake has, and whether that is late.

    checkpoint lag   how far the source's checkpoint lies behind now: what TiCDC has not sent yet
    lake lag         how far the lake's resolved ts lies behind that checkpoint
    lag              both together: how far the lake's resolved ts lies behind now

The watermarks of an idle changefeed go on, so its lag is as small as that of a busy one.  Only lag
beyond a limit is a problem; the source tells whose.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

import msgspec
import pyarrow.compute as pc

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.log.applied_files import find_newest_id
from ticdc_assets.plan.state import UnknownTable
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import LastRun, read_last_run
from ticdc_assets.store.reader import LakeNotFound, LakeReader
from ticdc_assets.stream.resolved_ts import WatermarkState

ChangefeedState = Literal[
    "up to date", "stopped", "behind", "unreachable", "unreadable", "empty", "unknown"
]


@dataclass(frozen=True)
class SourceState:
    """How far a source has got, as it says itself."""

    # None where its watermarks, or what is there of them, do not state one.
    checkpoint_ts: int | None = None
    # When TiCDC wrote last.
    newest_at: datetime | None = None
    # The records of topics that the lake does not have yet.
    records_behind: int | None = None
    # Whether it states watermarks at all.
    has_watermarks: bool = True
    # Whether it is ahead of the lake by watermarks alone, which the next run applies.
    has_only_watermarks: bool = False
    # Why it cannot be read, or has nothing to read.
    reason: str | None = None
    is_readable: bool = True


@dataclass(frozen=True)
class LakeState:
    """How far the lake is, and what of it needs a person."""

    resolved_ts: int = 0
    applied_at: datetime | None = None
    tables: int = 0
    paused: int = 0
    waiting: int = 0
    partial: int = 0
    # By the stage that could not use them: decode, apply or load.
    quarantined_by_stage: Mapping[str, int] = field(default_factory=dict)
    last_run: LastRun | None = None
    watermarks: WatermarkState | None = None
    # Why it cannot be read.
    reason: str | None = None

    @property
    def quarantined(self) -> int:
        """Input and rows that tables may lack."""
        return sum(self.quarantined_by_stage.values())


class _UnknownTables(msgspec.Struct):
    """Of `plan.state.State`, what the catalog does not have."""

    unknown_tables: list[UnknownTable] = []


@dataclass(frozen=True)
class Lag:
    """How far a changefeed is behind at one moment, in seconds, and why."""

    state: ChangefeedState
    reason: str | None
    seconds: float | None = None
    checkpoint_seconds: float | None = None
    lake_seconds: float | None = None
    # Whether it is behind for longer than the limit, or cannot be shown not to be.
    is_late: bool = False


def read_lake_progress(lake: Lake) -> LakeState:
    """Read how far a changefeed's lake is; no error is raised."""
    try:
        return _read_newest_snapshot(LakeReader(lake))[0]
    except LakeNotFound:
        return LakeState()
    except ConfigError as error:
        return LakeState(reason=str(error))


def read_lake_state(lake: Lake) -> LakeState:
    """Read the whole state of a changefeed's lake, from its small tables; no error is raised."""
    reader = LakeReader(lake)
    last_run = read_last_run(lake)
    try:
        progress, snapshot_id = _read_newest_snapshot(reader)
        statuses = Counter(reader.read(reader.open("tables"), ["status"])["status"].to_pylist())
        statuses["waiting"] += _count_unknown_tables(reader, snapshot_id)
        quarantined: Counter[str] = Counter()
        for fault in list_faults(reader):
            quarantined[fault.stage] += fault.count if fault.is_open else 0
    except LakeNotFound:
        return LakeState(last_run=last_run)
    except ConfigError as error:
        return LakeState(last_run=last_run, reason=str(error))
    return replace(
        progress,
        tables=statuses.total() - statuses["dropped"],
        paused=statuses["paused"],
        waiting=statuses["waiting"],
        partial=statuses["partial"],
        quarantined_by_stage=quarantined,
        last_run=last_run,
    )


def _read_newest_snapshot(reader: LakeReader) -> tuple[LakeState, int]:
    """Read the newest row of the applied log, and which row has its state.

    Raise `LakeNotFound` without one.
    """
    applied = reader.open("applied")
    is_newest = pc.field("snapshot_id") == find_newest_id(reader, applied)
    columns = ("resolved_ts", "committed_at", "state_snapshot_id", "watermark_state")
    rows = reader.read(applied, columns, is_newest).to_pylist()
    if not rows:
        raise LakeNotFound(reader.location)
    ts, moment, state_snapshot_id, watermarks = (rows[0][name] for name in columns)
    known = read_json(watermarks, WatermarkState)
    return LakeState(resolved_ts=ts, applied_at=moment, watermarks=known), state_snapshot_id


def _count_unknown_tables(reader: LakeReader, snapshot_id: int) -> int:
    """Count the names with rows of which no table is known yet."""
    has_state = pc.field("snapshot_id") == snapshot_id
    state = reader.read(reader.open("applied"), ["state"], has_state)["state"][0].as_py()
    return len(read_json(state, _UnknownTables).unknown_tables)


def judge(source: SourceState, lake: LakeState, max_lag: float, now: datetime | None = None) -> Lag:
    """Judge how far a changefeed is behind; `max_lag` is in seconds."""
    now = now or datetime.now(UTC)
    if lake.reason is not None:
        return Lag("unreadable", lake.reason, is_late=True)
    since_checkpoint = _measure_age(source.checkpoint_ts, now)
    if not lake.resolved_ts:
        state: ChangefeedState = "empty" if source.is_readable else "unreachable"
        reason = source.reason or "nothing is applied yet"
        return Lag(state, reason, checkpoint_seconds=since_checkpoint, is_late=True)
    if not source.has_watermarks:
        state = "unknown" if source.is_readable else "unreachable"
        return Lag(state, source.reason, is_late=not source.is_readable)
    since_applied = _measure_age(lake.resolved_ts, now) or 0.0
    if not source.is_readable:
        is_late = since_applied > max_lag
        return Lag("unreachable", source.reason, since_applied, is_late=is_late)
    between = None if since_checkpoint is None else max(since_applied - since_checkpoint, 0.0)
    lags = since_applied, since_checkpoint, between
    if since_applied <= max_lag:
        return Lag("up to date", None, *lags)
    has_stopped = since_checkpoint if since_checkpoint is not None else _since(source, now)
    if has_stopped > max_lag:
        return Lag("stopped", _explain_stop(source), *lags, is_late=True)
    if source.has_only_watermarks:
        return Lag("up to date", None, *lags)
    return Lag("behind", _BEHIND, *lags, is_late=True)


_BEHIND = "the source is ahead of the lake: what runs `advance`, and how did its last run end?"


def _since(source: SourceState, now: datetime) -> float:
    """Return for how many seconds TiCDC has written nothing."""
    return 0.0 if source.newest_at is None else (now - source.newest_at).total_seconds()


def _explain_stop(source: SourceState) -> str:
    stopped = "its watermarks have stopped"
    if source.checkpoint_ts:
        stopped += f" at {_format(to_datetime(source.checkpoint_ts))}"
    wrote = "" if source.newest_at is None else f"; TiCDC wrote last at {_format(source.newest_at)}"
    return f"{stopped}{wrote}: see `cdc cli changefeed query`"


def _format(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _measure_age(ts: int | None, now: datetime) -> float | None:
    """Return how many seconds ago a TSO was."""
    if not ts:
        return None
    try:
        return max((now - to_datetime(ts)).total_seconds(), 0.0)
    except OverflowError:
        # It is after the year 9999.
        return 0.0
