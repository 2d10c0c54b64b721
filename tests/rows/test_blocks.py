"""Of a segment's blocks of events, few changes are held, whichever keys they are of."""

from random import Random
from unittest import mock

import pyarrow as pa

from ticdc_assets.events import Column, ColumnType, FilePosition, Index, Op, RowChange, TableSchema
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import ApplyRows, TypedRowGroup
from ticdc_assets.rows import blocks as tested
from ticdc_assets.rows.blocks import read_blocks, read_deciding
from ticdc_assets.rows.changes import Segment, join_segments
from ticdc_assets.rows.keyed import list_operations, reduce_changes
from ticdc_assets.store.event_rows import SCHEMA, Arrival, to_arrow

TABLE = TableSchema(
    "d",
    "t",
    (Column("id", ColumnType("int"), nullable=False), Column("v", ColumnType("int"))),
    (Index("PRIMARY", ("id",), unique=True, primary=True),),
)
GROUP = RowGroup(database="d", table="t", first_ts=1, last_ts=999, rows=1, inserts=0)
STEP = ApplyRows(TABLE, (0, 0), (999, 9), (TypedRowGroup(GROUP, TABLE),))
PER_BLOCK = 50


def make_block(number: int, keys: int, random: Random) -> pa.Table:
    """Make events of some keys in no order: rows that are put, move to another key, or go."""
    arrivals = []
    for place in range(PER_BLOCK):
        ids = random.randrange(keys), random.randrange(keys)
        old, new = (f'{{"id":"{id}","v":"{random.randrange(9)}"}}' for id in ids)
        kind = random.randrange(5)
        if not kind:
            # One that no table can have.
            new = new.replace('"id"', '"no"')
        images = {"before": old if kind > 1 else None, "after": new if kind != 2 else None}
        ts = random.randrange(1, 300)
        position = FilePosition("f", place)
        change = RowChange(
            op=Op.UPDATE, commit_ts=ts, database="d", table="t", position=position, **images
        )
        arrivals.append(Arrival(1, number * PER_BLOCK + place, 0, change))
    events = pa.Table.from_batches(to_arrow(arrivals), SCHEMA)
    count = events.num_rows
    return (
        events.append_column("order_ts", events["commit_ts"])
        .append_column("after_ddls", pa.repeat(pa.scalar(False), count))
        .append_column("ordered_by_commit_ts", pa.repeat(pa.scalar(True), count))
    )


def describe(segment: Segment) -> tuple[object, ...]:
    operations = list_operations(segment.changes, ("id",))
    put, gone, applied = reduce_changes(segment.changes, operations)
    rows = zip(*(put.columns[name].values.to_pylist() for name in ("id", "v")), strict=True)
    reasons = sorted(segment.quarantined["seq"].to_pylist())
    ids = sorted(gone.columns["id"].values.to_pylist())
    return sorted(rows), ids, applied, segment.counts, reasons


def test_what_decides_is_left_of_blocks_and_a_hot_key_takes_the_memory_of_one() -> None:
    for seed, keys in enumerate((1, 2, 30, 10_000)):
        blocks = [make_block(n, keys, Random(100 * seed + n)) for n in range(20)]
        most = 0

        def join(parts: list[Segment]) -> Segment:
            nonlocal most
            joined = join_segments(parts)
            most = max(most, len(joined.changes))
            return joined

        with mock.patch.object(tested, "join_segments", join):
            segment = read_deciding(blocks, STEP, None, ("id",), None)
        assert describe(segment) == describe(read_blocks(blocks, STEP, None))
        if keys <= 2:
            assert most <= 2 * PER_BLOCK
            assert len(segment.changes) <= 2 * keys
