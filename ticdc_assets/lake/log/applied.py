"""What was applied, line by line: the lake at every resolved ts, and where the next run starts.

A line is written when all tables of its window are, so a window that was begun and never finished
left no line: its tables are put back to the versions that the last line tells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime

from msgspec.structs import replace
from pyspark.sql import Row
from pyspark.sql import functions as F

from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.log.catalog import RowCounts
from ticdc_assets.lake.store.contracts import APPLIED
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.stage_commits import last_stage_commit, stage_writer
from ticdc_assets.plan.state import State
from ticdc_assets.stream.resolved_ts import WatermarkState

STAGE = "apply"
# So many lines at most have to be read to know everything.
_WHOLE_EVERY = 50


@dataclass(frozen=True)
class TableCounts:
    """What became of row events of one name that were due for one table."""

    incarnation: str
    name: str
    rows: RowCounts


@dataclass(frozen=True)
class Snapshot:
    """The lake as a line of `applied` tells it."""

    state: State = field(default_factory=State)
    # Every batch up to this one was considered, but for files that waited then; up to the other one
    # none did.
    batch: int = 0
    decoded: int = 0
    # Of every table that has a Delta table.
    versions: Mapping[str, int] = field(default_factory=dict)
    # The line that has the whole state.
    state_seq: int = 0

    @property
    def ts(self) -> int:
        return self.state.ts

    @property
    def seq(self) -> int:
        return self.state.snapshot_id


def read_last_snapshot(lake: LakeSession) -> Snapshot:
    """The newest line; an empty lake if there is none."""
    mark = last_stage_commit(lake, "applied", STAGE)
    if mark.found:
        return read_snapshot(lake, mark.number)
    newest = lake.read("applied").agg(F.max("seq")).collect()[0][0]
    return Snapshot() if newest is None else read_snapshot(lake, newest)


def read_snapshot(lake: LakeSession, seq: int) -> Snapshot:
    """The lake as it was at a line; line 0 is the empty lake."""
    if seq == 0:
        return Snapshot()
    recent = lake.read("applied").where((F.col("seq") <= seq) & (F.col("seq") > seq - _WHOLE_EVERY))
    lines = {row["seq"]: row for row in recent.collect()}
    line = lines[seq]
    state = read_json(lines[line["state_seq"]]["state"], State)
    versions: dict[str, int] = {}
    for number in range(line["state_seq"], seq + 1):
        versions |= lines[number]["versions"]
    return Snapshot(
        _moved_on(state, line), line["batch"], line["decoded"], versions, line["state_seq"]
    )


def find_valid_snapshot(lake: LakeSession, seq: int, ts: int | None = None) -> int:
    """The newest line at or before `seq`, and below `ts`, that tells what is so; 0 if none does.

    A replay that started at a line makes those between it and its own out of date.
    """
    lines = lake.read("applied").select("seq", "resolved_ts", "replays").collect()
    replays = [(line["seq"], line["replays"]) for line in lines if line["replays"] is not None]
    found = [
        line["seq"]
        for line in lines
        if line["seq"] <= seq
        and (ts is None or line["resolved_ts"] < ts)
        and not any(start < line["seq"] < at for at, start in replays)
    ]
    return max(found, default=0)


def _moved_on(state: State, line: Row) -> State:
    """The state of an earlier line, at a line since which only rows have come."""
    heard = read_json(line["heard"], WatermarkState)
    done = state.applied_ddls if state.ts == line["resolved_ts"] else []
    return replace(
        state,
        ts=line["resolved_ts"],
        snapshot_id=line["seq"],
        watermarks=heard,
        applied_ddls=done,
    )


def write_snapshot(
    lake: LakeSession,
    before: Snapshot,
    state: State,
    *,
    batch: int,
    decoded: int,
    versions: Mapping[str, int],
    watermarks: Mapping[str, int],
    counts: Sequence[TableCounts],
    replays: int | None = None,
) -> Snapshot:
    """Write the line after `before`, and return the lake as it is then."""
    seq = before.seq + 1
    state = replace(state, snapshot_id=seq)
    everything = {**before.versions, **versions}
    is_whole = (
        not before.seq
        or _lasting(state) != _lasting(before.state)
        or bool(state.applied_ddls)
        or replays is not None
        or seq - before.state_seq >= _WHOLE_EVERY - 1
    )
    state_seq = seq if is_whole else before.state_seq
    line = (
        seq,
        datetime.now(UTC),
        state.ts,
        batch,
        decoded,
        dict(watermarks),
        everything if is_whole else dict(versions),
        [(count.incarnation, count.name, *astuple(count.rows)) for count in counts],
        replays,
        state_seq,
        write_json(state.watermarks),
        write_json(replace(state, watermarks=WatermarkState())) if is_whole else None,
    )
    rows = lake.spark.createDataFrame([line], APPLIED)
    writer, _ = stage_writer(rows.coalesce(1).write.mode("append"), STAGE, seq, ts=state.ts)
    writer.save(lake.path("applied"))
    return Snapshot(state, batch, decoded, everything, state_seq)


def _lasting(state: State) -> State:
    """A state without what changes in every window."""
    return replace(state, ts=0, snapshot_id=0, watermarks=WatermarkState(), applied_ddls=[])
