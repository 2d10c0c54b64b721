"""The applied log, which stages read and write: the lake at every resolved ts.

A window appends its snapshot last, after all its tables.  A window that was killed therefore left
no snapshot, and the next run restores the tables to the versions in the last one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from msgspec.structs import replace

from ticdc_assets.events.written import write_json
from ticdc_assets.log.applied_files import read_newest_snapshot, read_snapshot
from ticdc_assets.log.applied_row import (
    STATE_INTERVAL,
    TableCounts,
)
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import State
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import APPLIED
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.tables import COUNTED_STAGE, COUNTED_TABLE
from ticdc_assets.stream.resolved_ts import WatermarkState


def read_last_snapshot(lake: LakeSession) -> Snapshot:
    """Read the newest snapshot; an empty lake if there is none."""
    return read_newest_snapshot(LakeReader(lake.location))


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
    """Append the snapshot that follows `before`, and return it; `versions` are the new ones.

    If another run has appended its own meanwhile, that one counts.
    """
    snapshot_id = before.snapshot_id + 1
    state = replace(state, snapshot_id=snapshot_id)
    # A replay may find that a table never was.
    all_versions = {
        id: version
        for id, version in {**before.versions, **versions}.items()
        if id in state.incarnations
    }
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
        list(watermarks.items()),
        list((all_versions if is_whole else versions).items()),
        [{"incarnation": c.incarnation, "name": c.name, **asdict(c.rows)} for c in counts],
        replayed_from,
        state_snapshot_id,
        write_json(state.watermarks),
        write_json(replace(state, watermarks=WatermarkState())) if is_whole else None,
    )
    mark = StageMark(COUNTED_STAGE, snapshot_id, {"ts": state.ts})
    if not commit_rows(lake, COUNTED_TABLE, make_table(APPLIED, [row]), mark):
        return read_snapshot(LakeReader(lake.location), snapshot_id)
    return Snapshot(state, batch, decoded_batch, all_versions, state_snapshot_id)


def _lasting(state: State) -> State:
    """Return a state without what every window changes."""
    return replace(state, ts=0, snapshot_id=0, watermarks=WatermarkState(), applied_ddls=[])
