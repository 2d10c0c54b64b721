"""Records of topics in `raw` that had the values of erased rows: their places are what is left.

A record may have several events.  All of its bytes go, so none of them can be decoded again: they
stay in `events` as they are.
"""

from collections.abc import Collection
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.store.file_rewrites import FileRewrite, RowChoice, commit_rewrite
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.purge import remove_old_data
from ticdc_assets.store.reader import LakeReader

# What `problem` says of such a record, and the kind of what is left of an event.
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


def erase_records(location: Lake, seqs: Collection[int]) -> int:
    """Take the bytes of records away, in the files of before too; return how many had some."""
    if not seqs:
        return 0
    rewrite = FileRewrite(LakeReader(location), "raw", choose_records(seqs))
    commit_rewrite(rewrite)
    if rewrite.rows:
        remove_old_data(rewrite.reader, "raw", partial(check_lock, location))
    return rewrite.rows


def erase_repeated_records(location: Lake, since: int = 0) -> int:
    """Erase records that brought events of erased rows again, in batches after one."""
    reader = LakeReader(location)
    where = (pc.field("kind") == ERASED) & (pc.field("batch") > since)
    events = reader.read(reader.open("events"), ["seq"], where)
    return erase_records(location, set(events["seq"].to_pylist()))


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
