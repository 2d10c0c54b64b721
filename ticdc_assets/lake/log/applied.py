"""The applied log, read and written with Spark: the lake at every resolved ts.

A window appends its snapshot last, after all its tables.  A window that was killed therefore left
no snapshot, and the next run restores the tables to the versions in the last one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime

from msgspec.structs import replace
from pyspark.sql import functions as F

from ticdc_assets.events.written import write_json
from ticdc_assets.lake.log.applied_row import (
    STATE_INTERVAL,
    TableCounts,
)
from ticdc_assets.lake.log.snapshot import (
    Snapshot,
    SnapshotName,
    choose_valid_snapshot,
    decode_snapshot,
)
from ticdc_assets.lake.store.contracts import APPLIED
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.stage_commits import make_stage_writer, read_last_stage_commit
from ticdc_assets.plan.state import State
from ticdc_assets.stream.resolved_ts import WatermarkState

STAGE = "apply"


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
    return decode_snapshot((row.asDict(recursive=True) for row in recent.collect()), snapshot_id)


def find_valid_snapshot(lake: LakeSession, snapshot_id: int, ts: int | None = None) -> int:
    """Return the newest valid snapshot at or before `snapshot_id` and below `ts`; 0 if none is."""
    rows = lake.read("applied").select(*SnapshotName._fields).collect()
    return choose_valid_snapshot([SnapshotName(*row) for row in rows], snapshot_id, ts)


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
