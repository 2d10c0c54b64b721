"""The applied log, read and written with Spark: the lake at every resolved ts.

A window appends its snapshot last, after all its tables.  A window that was killed therefore left
no snapshot, and the next run restores the tables to the versions in the last one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime

from msgspec.structs import replace
from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.log.applied_row import (
    APPLIED_COLUMNS,
    STATE_INTERVAL,
    AppliedRow,
    TableCounts,
    collect_versions,
    decode_applied_row,
)
from ticdc_assets.lake.store.contracts import APPLIED
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.stage_commits import make_stage_writer, read_last_stage_commit
from ticdc_assets.plan.state import State
from ticdc_assets.stream.resolved_ts import WatermarkState

STAGE = "apply"


@dataclass(frozen=True)
class Snapshot:
    """The lake at one resolved ts, with the Delta version of every table."""

    state: State = field(default_factory=State)
    # Every batch up to `batch` was applied, except files that waited to be decoded; no file of a
    # batch up to `decoded_batch` waited.
    batch: int = 0
    decoded_batch: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)
    # The snapshot whose row has the whole state.
    state_snapshot_id: int = 0

    @property
    def ts(self) -> int:
        return self.state.ts

    @property
    def snapshot_id(self) -> int:
        return self.state.snapshot_id


def read_last_snapshot(lake: LakeSession) -> Snapshot:
    """Read the newest snapshot; an empty lake if there is none."""
    mark = read_last_stage_commit(lake, "applied", STAGE)
    if mark.found:
        return read_snapshot(lake, mark.number)
    newest = lake.read("applied").agg(F.max("snapshot_id")).collect()[0][0]
    return Snapshot() if newest is None else read_snapshot(lake, newest)


def read_snapshot(lake: LakeSession, snapshot_id: int) -> Snapshot:
    """Read a snapshot by its id; snapshot 0 is the empty lake."""
    if snapshot_id == 0:
        return Snapshot()
    id = F.col("snapshot_id")
    recent = lake.read("applied").where((id <= snapshot_id) & (id > snapshot_id - STATE_INTERVAL))
    rows_by_id = {row["snapshot_id"]: row.asDict(recursive=True) for row in recent.collect()}
    rows = [decode_applied_row(rows_by_id[id]) for id in sorted(rows_by_id)]
    last = rows[-1]
    state = read_json(rows_by_id[last.state_snapshot_id]["state"], State)
    state = replace(
        state,
        ts=last.ts,
        snapshot_id=last.snapshot_id,
        watermarks=read_json(rows_by_id[snapshot_id]["watermark_state"], WatermarkState),
        applied_ddls=state.applied_ddls if state.ts == last.ts else [],
    )
    versions = collect_versions(rows, last)
    return Snapshot(state, last.batch, last.decoded_batch, versions, last.state_snapshot_id)


def read_applied_rows(lake: LakeSession, condition: Column) -> list[AppliedRow]:
    """Read the rows of `applied` that meet a condition, in order."""
    rows = lake.read("applied").where(condition).select(*APPLIED_COLUMNS).orderBy("snapshot_id")
    return [decode_applied_row(row.asDict(recursive=True)) for row in rows.collect()]


def find_valid_snapshot(lake: LakeSession, snapshot_id: int, ts: int | None = None) -> int:
    """Return the newest valid snapshot at or before `snapshot_id` and below `ts`; 0 if none is.

    A replay invalidates the snapshots between the one that it started from and its own.
    """
    applied = lake.read("applied").select("snapshot_id", "resolved_ts", "replayed_from")
    rows = applied.collect()
    replays = [
        (row["replayed_from"], row["snapshot_id"])
        for row in rows
        if row["replayed_from"] is not None
    ]
    valid = [
        row["snapshot_id"]
        for row in rows
        if row["snapshot_id"] <= snapshot_id
        and (ts is None or row["resolved_ts"] < ts)
        and not any(start < row["snapshot_id"] < end for start, end in replays)
    ]
    return max(valid, default=0)


# Parameters: one per column of `applied`.
def write_snapshot(
    lake: LakeSession,
    before: Snapshot,
    state: State,
    *,
    batch: int,
    decoded_batch: int,
    versions: Mapping[str, int],
    watermarks: Mapping[str, int],
    counts: Sequence[TableCounts],
    replayed_from: int | None = None,
) -> Snapshot:
    """Append the snapshot that follows `before`, and return it; `versions` are the new ones."""
    snapshot_id = before.snapshot_id + 1
    state = replace(state, snapshot_id=snapshot_id)
    all_versions = {**before.versions, **versions}
    is_whole = (
        not before.snapshot_id
        or _lasting(state) != _lasting(before.state)
        or bool(state.applied_ddls)
        or replayed_from is not None
        or snapshot_id - before.state_snapshot_id >= STATE_INTERVAL - 1
    )
    state_snapshot_id = snapshot_id if is_whole else before.state_snapshot_id
    row = (
        snapshot_id,
        datetime.now(UTC),
        state.ts,
        batch,
        decoded_batch,
        dict(watermarks),
        all_versions if is_whole else dict(versions),
        [(count.incarnation, count.name, *astuple(count.rows)) for count in counts],
        replayed_from,
        state_snapshot_id,
        write_json(state.watermarks),
        write_json(replace(state, watermarks=WatermarkState())) if is_whole else None,
    )
    frame = lake.spark.createDataFrame([row], APPLIED).coalesce(1)
    writer, _ = make_stage_writer(frame.write.mode("append"), STAGE, snapshot_id, ts=state.ts)
    writer.save(lake.path("applied"))
    return Snapshot(state, batch, decoded_batch, all_versions, state_snapshot_id)


def _lasting(state: State) -> State:
    """Return a state without what every window changes."""
    return replace(state, ts=0, snapshot_id=0, watermarks=WatermarkState(), applied_ddls=[])
