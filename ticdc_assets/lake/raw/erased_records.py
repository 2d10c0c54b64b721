"""Records of topics in `raw` that had the values of erased rows: their places are what is left.

A record may have several events.  All of its bytes go, so none of them can be decoded again: they
stay in `events` as they are.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.store.file_rewrites import RowChoice
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

# What `problem` says of such a record.
ERASED = "erased"
_VALUES = ("key", "value", "headers")


def holds_records(reader: LakeReader) -> bool:
    """Return whether `raw` is of a topic, and not of a folder."""
    return "offset" in {field.name for field in reader.open("raw").schema().fields}


def list_erased_records(location: Lake) -> list[int]:
    """List the numbers of the records that were erased."""
    reader = LakeReader(location)
    if not holds_records(reader):
        return []
    where = pc.field("problem") == ERASED
    return sorted(reader.read(reader.open("raw"), ["seq"], where)["seq"].to_pylist())


def choose_records(seqs: Collection[int]) -> RowChoice:
    """Choose records by their numbers, to take their bytes away."""
    wanted = pa.array(sorted(seqs), pa.int64())

    def choose(rows: pa.Table) -> pa.Array:
        is_erased = pc.fill_null(pc.equal(rows["problem"], ERASED), False)
        is_wanted = pc.is_in(rows["seq"], value_set=wanted)
        return pc.and_not(is_wanted, is_erased).combine_chunks()

    return RowChoice(("seq", "problem"), choose, _empty, {"seq": tuple(sorted(seqs))})


def _empty(rows: pa.Table, chosen: pa.Array) -> pa.Table:
    for name in _VALUES:
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        nothing = pa.nulls(rows.num_rows, field.type)
        column = _replace(rows[name], chosen, nothing)
        rows = rows.set_column(place, field, column)
    place = rows.schema.get_field_index("problem")
    marks = pc.if_else(chosen, ERASED, rows["problem"])
    return rows.set_column(place, rows.schema.field(place), marks)


def _replace(column: pa.ChunkedArray, chosen: pa.Array, others: pa.Array) -> pa.ChunkedArray:
    """Take values of another array where rows are chosen, of any type."""
    count = len(chosen)
    places = pc.if_else(chosen, pa.array(range(count, 2 * count)), pa.array(range(count)))
    return pa.chunked_array([*column.chunks, others.cast(column.type)], column.type).take(places)
