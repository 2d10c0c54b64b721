"""One row of the applied log as a value, however it was fetched: with Spark or with delta-rs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

# The whole state and the Delta versions of all tables are in at least every 16th row.
STATE_INTERVAL = 16

# The columns that `decode_applied_row` reads; the state itself is left out because it is large.
APPLIED_COLUMNS = (
    *("snapshot_id", "committed_at", "resolved_ts", "batch", "decoded_batch", "watermarks"),
    *("versions", "counts", "replayed_from", "state_snapshot_id"),
)


@dataclass(frozen=True)
class RowCounts:
    """What became of the pending row events of a table."""

    read: int = 0
    applied: int = 0
    superseded: int = 0
    quarantined: int = 0
    inexact: int = 0

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            self.read + other.read,
            self.applied + other.applied,
            self.superseded + other.superseded,
            self.quarantined + other.quarantined,
            self.inexact + other.inexact,
        )


@dataclass(frozen=True)
class TableCounts:
    """The row counts of one incarnation under one table name."""

    incarnation: str
    name: str
    rows: RowCounts


@dataclass(frozen=True)
class AppliedRow:
    """A snapshot as its row in `applied` states it; `versions` are those of this row alone."""

    snapshot_id: int
    committed_at: datetime
    ts: int
    batch: int
    decoded_batch: int
    watermarks: Mapping[str, int]
    versions: Mapping[str, int]
    counts: tuple[TableCounts, ...]
    # The snapshot that a replay started from; None for a window.
    replayed_from: int | None
    # The newest row at or before this one that has the whole state and the versions of all tables.
    state_snapshot_id: int


_COUNTS = tuple(field.name for field in fields(RowCounts))


def decode_applied_row(row: Mapping[str, Any]) -> AppliedRow:
    """Decode a row of `applied`; its maps may be mappings or lists of pairs."""
    return AppliedRow(
        row["snapshot_id"],
        row["committed_at"],
        row["resolved_ts"],
        row["batch"],
        row["decoded_batch"],
        dict(row["watermarks"] or ()),
        dict(row["versions"] or ()),
        tuple(
            TableCounts(
                count["incarnation"],
                count["name"],
                RowCounts(*(count[name] or 0 for name in _COUNTS)),
            )
            for count in row["counts"] or ()
        ),
        row["replayed_from"],
        row["state_snapshot_id"],
    )


def collect_versions(rows: Iterable[AppliedRow], last: AppliedRow) -> dict[str, int]:
    """Return the Delta version of every table at `last`; `rows` go back to its state, in order."""
    versions: dict[str, int] = {}
    for row in rows:
        if last.state_snapshot_id <= row.snapshot_id <= last.snapshot_id:
            versions |= row.versions
    return versions
