"""The applied log read without Spark, for definitions, sensors and commands that only read."""

import pyarrow.compute as pc
from deltalake import DeltaTable

from ticdc_assets.lake.log.applied_row import (
    APPLIED_COLUMNS,
    STATE_INTERVAL,
    AppliedRow,
    decode_applied_row,
)
from ticdc_assets.lake.log.snapshot import SNAPSHOT_COLUMNS, Snapshot, decode_snapshot
from ticdc_assets.lake.store.reader import LakeNotFound, LakeReader


def read_existing_snapshot(reader: LakeReader) -> Snapshot:
    """Read the last snapshot; raise `LakeNotFound` if there is none."""
    applied = reader.open("applied")
    newest = find_newest_id(reader, applied)
    if not newest:
        raise LakeNotFound(reader.location)
    rows = reader.read(applied, SNAPSHOT_COLUMNS, _between(newest - STATE_INTERVAL, newest))
    return decode_snapshot(rows.to_pylist(), newest)


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
