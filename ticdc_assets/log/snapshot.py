"""A snapshot as a value, decoded from rows of the applied log however they were fetched."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from ticdc_assets.events.written import read_json
from ticdc_assets.log.applied_row import (
    APPLIED_COLUMNS,
    collect_versions,
    decode_applied_row,
)
from ticdc_assets.plan.state import State
from ticdc_assets.stream.resolved_ts import WatermarkState

# The columns that `decode_snapshot` reads.
SNAPSHOT_COLUMNS = (*APPLIED_COLUMNS, "watermark_state", "state")


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


def decide_as(base: Snapshot, last: Snapshot) -> Snapshot:
    """Return a snapshot from which windows skip the DDLs that people have skipped by now.

    Incarnations that begin after it keep the names that they have.
    """
    older = [id for id in last.state.incarnations if "." not in id]
    state = replace(base.state, skipped_ddls=last.state.skipped_ddls, older_ids=older)
    return dataclasses.replace(base, state=state)


def decode_snapshot(rows: Sequence[Mapping[str, Any]]) -> Snapshot:
    """Decode the snapshot of the last of some rows of `applied`, in order.

    They go back to the row with its state, or further.
    """
    decoded = [decode_applied_row(row) for row in rows]
    last = decoded[-1]
    stated = next(row for row in rows if row["snapshot_id"] == last.state_snapshot_id)
    state = read_json(stated["state"], State)
    state = replace(
        state,
        ts=last.ts,
        snapshot_id=last.snapshot_id,
        watermarks=read_json(rows[-1]["watermark_state"], WatermarkState),
        applied_ddls=state.applied_ddls if state.ts == last.ts else [],
    )
    versions = collect_versions(decoded, last)
    return Snapshot(state, last.batch, last.decoded_batch, versions, last.state_snapshot_id)


class SnapshotName(NamedTuple):
    """What decides whether a snapshot is valid; the columns have these names."""

    snapshot_id: int
    resolved_ts: int
    replayed_from: int | None


def choose_valid_snapshot(names: Sequence[SnapshotName], snapshot_id: int, ts: int | None) -> int:
    """Return the newest valid snapshot at or before `snapshot_id` and below `ts`; 0 if none is."""
    valid = [
        name.snapshot_id
        for name in list_valid_snapshots(names)
        if name.snapshot_id <= snapshot_id and (ts is None or name.resolved_ts < ts)
    ]
    return max(valid, default=0)


def list_valid_snapshots(names: Sequence[SnapshotName]) -> list[SnapshotName]:
    """List the valid snapshots.

    A replay invalidates the snapshots between the one that it started from and its own.
    """
    replays = [
        (name.replayed_from, name.snapshot_id) for name in names if name.replayed_from is not None
    ]
    return [
        name for name in names if not any(start < name.snapshot_id < end for start, end in replays)
    ]
