"""The applied log read without Spark, for definitions, sensors and commands that only read."""

from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from ticdc_assets.log.applied_row import (
    APPLIED_COLUMNS,
    STATE_INTERVAL,
    AppliedRow,
    decode_applied_row,
)
from ticdc_assets.log.snapshot import (
    SNAPSHOT_COLUMNS,
    Snapshot,
    SnapshotName,
    choose_valid_snapshot,
    decode_snapshot,
)
from ticdc_assets.store.reader import LakeNotFound, LakeReader


def read_newest_snapshot(reader: LakeReader) -> Snapshot:
    """Read the last snapshot; an empty lake if there is none."""
    applied = reader.open("applied")
    newest = find_newest_id(reader, applied)
    return _read_snapshot(reader, applied, newest) if newest else Snapshot()


def read_existing_snapshot(reader: LakeReader) -> Snapshot:
    """Read the last snapshot; raise `LakeNotFound` if there is none."""
    newest = read_newest_snapshot(reader)
    if not newest.snapshot_id:
        raise LakeNotFound(reader.location)
    return newest


def read_snapshot(reader: LakeReader, snapshot_id: int) -> Snapshot:
    """Read a snapshot by its id; snapshot 0 is the empty lake."""
    return (
        _read_snapshot(reader, reader.open("applied"), snapshot_id) if snapshot_id else Snapshot()
    )


def _read_snapshot(reader: LakeReader, applied: DeltaTable, snapshot_id: int) -> Snapshot:
    first = snapshot_id - STATE_INTERVAL + 1
    rows = _read_range(reader, applied, first, snapshot_id)
    since = rows[-1]["state_snapshot_id"]
    if since < first:
        # Of an older lake, in which states were further apart.
        rows = _read_range(reader, applied, since, first - 1) + rows
    return decode_snapshot(rows)


def _read_range(
    reader: LakeReader, applied: DeltaTable, first: int, last: int
) -> list[dict[str, Any]]:
    rows = reader.read(applied, SNAPSHOT_COLUMNS, _between(first - 1, last))
    return rows.sort_by("snapshot_id").to_pylist()  # type: ignore[no-any-return]


def read_snapshot_names(reader: LakeReader) -> list[SnapshotName]:
    """Read what decides which snapshots are valid."""
    rows = reader.read(reader.open("applied"), SnapshotName._fields).to_pylist()
    return [SnapshotName(**row) for row in rows]


def find_base(reader: LakeReader, last: Snapshot, ts: int) -> int:
    """Find the newest valid snapshot at or before a ts by its id; 0 if there is none."""
    if ts == last.ts:
        return last.snapshot_id
    return choose_valid_snapshot(read_snapshot_names(reader), last.snapshot_id, ts + 1)


def read_rows(
    reader: LakeReader, applied: DeltaTable, after: int, through: int | None = None
) -> list[AppliedRow]:
    """Read the rows of `applied` behind a snapshot, in order; by default to the newest."""
    rows = reader.read(applied, APPLIED_COLUMNS, _between(after, through)).to_pylist()
    return sorted(map(decode_applied_row, rows), key=lambda row: row.snapshot_id)


def find_newest_id(reader: LakeReader, applied: DeltaTable) -> int:
    """Return the id of the newest snapshot, from statistics alone; 0 if there is none."""
    return reader.max_of(applied, "snapshot_id")


def _between(after: int, through: int | None) -> pc.Expression:
    condition = pc.field("snapshot_id") > after
    return condition if through is None else condition & (pc.field("snapshot_id") <= through)
