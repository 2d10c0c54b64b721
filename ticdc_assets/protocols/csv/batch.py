"""Rows of CSV files as Arrow batches, and their conversion to events.

`ROWS` has one row per record; `EVENTS` has one row per event: the two records of an update with old
values become one.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Op
from ticdc_assets.protocols.csv.shape import Row

ROWS = pa.schema(
    [
        ("op", pa.string()),
        ("database", pa.string()),
        ("table", pa.string()),
        ("commit_ts", pa.int64()),
        ("is_update", pa.bool_()),
        ("image", pa.string()),
        ("record", pa.int64()),
    ]
)
EVENTS = pa.schema(
    [
        ("op", pa.string()),
        ("commit_ts", pa.int64()),
        ("database", pa.string()),
        ("table", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("record", pa.int64()),
    ]
)

# Stating the types: inferring them takes longer than the work on a small batch.
_D, _I, _U, _UPDATE, _DELETE = (
    pa.scalar(text, pa.string()) for text in ("D", "I", "U", "update", "delete")
)
_NOWHERE = pa.scalar(None, pa.int32())
_ONE = pa.scalar(1, pa.int32())
_NEXT = pa.scalar(1, pa.int64())
_NO = pa.array([False], pa.bool_())

# An Arrow string array holds less than 2 GiB; a character takes at most four bytes.
_LONGEST_IMAGE = 1 << 29
_LARGEST_BATCH = 1 << 24
_MOST_ROWS = 4096


class RowCollector:
    """Collects single rows into batches of bounded size."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._size = 0

    def add(self, row: Row, record: int) -> pa.RecordBatch | None:
        """Add a row; return a batch whenever one is full."""
        if len(row.image) > _LONGEST_IMAGE:
            raise MalformedMessage("a row of half a gigabyte or more")
        full = None
        if self._size + len(row.image) > _LARGEST_BATCH or len(self._rows) == _MOST_ROWS:
            full = self.flush()
        self._rows.append((*row, record))
        self._size += len(row.image)
        return full

    def flush(self) -> pa.RecordBatch | None:
        """Return the collected rows, if any."""
        if not self._rows:
            return None
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*self._rows, strict=True), ROWS, strict=True)
        ]
        self._rows, self._size = [], 0
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)


class UpdatePairs:
    """Converts batches of rows to events: a delete and an insert marked is-update become an update.

    Half a pair (in a truncated file, or beside a broken record) remains a delete or an insert.
    """

    def __init__(self, insert: Op = Op.INSERT) -> None:
        self._insert = pa.scalar(insert.value, pa.string())
        # A row whose other half may be the first row of the next batch.
        self._held: pa.RecordBatch | None = None

    def add(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Add rows; return the events that are complete."""
        if self._held is not None:
            rows = pa.concat_batches([self._held, rows])
            self._held = None
        last = rows.num_rows - 1
        if rows["is_update"][last].as_py() and rows["op"][last].as_py() == "D":
            self._held = rows.slice(last)
            rows = rows.slice(0, last)
        return _events(rows, self._insert) if rows.num_rows else None

    def flush(self) -> pa.RecordBatch | None:
        """Return the row that was held back: its other half does not exist."""
        held, self._held = self._held, None
        return None if held is None else _events(held, self._insert)


def numbered(columns: Sequence[pa.Array], first_record: int) -> pa.RecordBatch:
    """Make a batch of rows from all columns but the last, and number the records."""
    records = range(first_record, first_record + len(columns[0]))
    return pa.RecordBatch.from_arrays([*columns, pa.array(records, pa.int64())], schema=ROWS)


def _events(rows: pa.RecordBatch, insert: pa.Scalar) -> pa.RecordBatch:
    op, image, count = rows["op"], rows["image"], rows.num_rows
    deletes = pc.equal(op, _D)
    kinds = pc.if_else(deletes, _DELETE, pc.if_else(pc.equal(op, _U), _UPDATE, insert))
    others = [rows[name] for name in ("commit_ts", "database", "table")]
    record = rows["record"]
    if not pc.any(deletes).as_py():
        columns = [kinds, *others, pa.nulls(count, pa.string()), image, record]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
    places = pa.array(range(count), pa.int32())
    before = pc.if_else(deletes, places, _NOWHERE)
    after = pc.if_else(deletes, _NOWHERE, places)
    starts = _starts_of_updates(rows, deletes)
    if starts is not None:
        kinds = pc.if_else(starts, _UPDATE, kinds)
        after = pc.if_else(starts, pc.add(places, _ONE), after)
        ends = pa.concat_arrays([_NO, starts.slice(0, count - 1)])
        kept = pc.invert(ends)
        kinds, *others, before, after, record = (
            column.filter(kept) for column in (kinds, *others, before, after, record)
        )
    columns = [kinds, *others, image.take(before), image.take(after), record]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def _starts_of_updates(rows: pa.RecordBatch, deletes: pa.Array) -> pa.Array | None:
    """Mark the deletes that an insert of the same update follows; None if there are none."""
    count = rows.num_rows
    updates = rows["is_update"]
    if count < 2 or not pc.any(updates).as_py():
        return None
    first, second = rows.slice(0, count - 1), rows.slice(1)
    conditions: Sequence[pa.Array] = [
        deletes.slice(0, count - 1),
        updates.slice(0, count - 1),
        updates.slice(1),
        pc.equal(second["op"], _I),
        *(pc.equal(first[name], second[name]) for name in ("commit_ts", "database", "table")),
        pc.equal(pc.subtract(second["record"], first["record"]), _NEXT),
    ]
    starts = conditions[0]
    for condition in conditions[1:]:
        starts = pc.and_(starts, condition)
    return pa.concat_arrays([starts, _NO])
