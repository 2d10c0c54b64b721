"""Take the values of erased rows out of events: of those in the lake, and of all that arrive later.

What is left of an event of an erased row is its place: a row of `events` of the kind `erased`, with
the position, the table and the commit ts, so that all input stays accounted for.  An update that
moved a row to an erased key, or from one, has a side that is of another row: that stays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.raw.erased_records import ERASED
from ticdc_assets.log.erasures import Erasure, Place, make_digest, read_erasures
from ticdc_assets.store.reader import LakeReader

KIND = ERASED
# What tells an event of an erased row.
TESTED = ("kind", "name", "batch", "commit_ts", "ordering", "before", "after")
# What is left of an event.
_KEPT = frozenset(
    (
        *("batch", "seq", "index", "name", "database", "table", "op", "commit_ts", "ordering"),
        *("schema_version", "table_id", "source", "partition", "number"),
    )
)
_Image = Mapping[str, str | None]
_Work = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class Sides(NamedTuple):
    """Which sides of an event are of an erased row; False for one that the event lacks."""

    before: bool
    after: bool


@dataclass(frozen=True)
class ErasedEvents:
    """Recognizes the events of erased rows, in any process."""

    erasures: tuple[Erasure, ...]
    _nothing: Sides = field(default=Sides(before=False, after=False), repr=False)

    @cached_property
    def _names(self) -> pa.Array:
        return pa.array(sorted({p.name for e in self.erasures for p in e.places}), pa.string())

    def choose(self, events: pa.Table) -> pa.Array:
        """Return which rows of `events` are of erased rows, on one side at least."""
        may_be = self._may_be(events)
        chosen = may_be.to_pylist()
        if any(chosen):
            rows = events.filter(may_be).select(TESTED).to_pylist()
            sides = iter(any(self.find_sides(row)) for row in rows)
            chosen = [maybe and next(sides) for maybe in chosen]
        return pa.array(chosen, pa.bool_())

    def _may_be(self, events: pa.Table) -> pa.Array:
        """Return which events are of tables with erased rows, and old enough."""
        through = max((each.through_ts for each in self.erasures), default=0)
        batch = max((each.batch for each in self.erasures), default=0)
        is_old = pc.or_(
            pc.less_equal(events["commit_ts"], through), pc.less_equal(events["batch"], batch)
        )
        is_of_table = pc.is_in(events["name"], value_set=self._names)
        found = pc.and_(pc.equal(events["kind"], "row"), pc.and_(is_of_table, is_old))
        found = pc.fill_null(found, False)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def find_sides(self, row: Mapping[str, Any]) -> Sides:
        """Find which sides of a row event are of erased rows."""
        erasures = [each for each in self.erasures if each.covers(row)]
        try:
            before, after = _load_sides(row)
        except CONTENT_ERRORS:
            return self._nothing
        ts, name = row["commit_ts"], row["name"]
        found = [False, False]
        for erasure in erasures:
            for place in erasure.places:
                if place.name == name and place.covers(ts):
                    for side, image in enumerate((before, after)):
                        found[side] = found[side] or _is_of(erasure, place, image)
        return Sides(*found)

    def change(self, events: pa.Table, chosen: pa.Array) -> pa.Table:
        """Return rows of `events` without the values of erased rows, in their order.

        What is left of the sides of updates comes behind all others.
        """
        rows = events.filter(chosen).to_pylist()
        left = list(map(_strip, rows))
        other_sides = [self._find_other_side(row) for row in rows]
        changed = [side or gone for side, gone in zip(other_sides, left, strict=True)]
        beside = [gone for side, gone in zip(other_sides, left, strict=True) if side is not None]
        places = pc.if_else(
            chosen,
            pc.add(pc.cumulative_sum(chosen.cast(pa.int64())), events.num_rows - 1),
            pa.array(range(events.num_rows), pa.int64()),
        )
        found = pa.concat_tables([events, _make_table(changed, events.schema)]).take(places)
        return pa.concat_tables([found, _make_table(beside, events.schema)])

    def _find_other_side(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return an update as what it does to another row; None if it is of no other."""
        is_before, is_after = self.find_sides(row)
        before, after = _load_sides(row)
        # What was stated of both rows is of no use for one.
        other = {**row, "checksum": None, "claim_check_digest": None}
        if before is not None and not is_before:
            return {**other, "op": "delete", "before": dump(before), "after": None}
        if after is not None and not is_after:
            return {**other, "op": "upsert", "before": None}
        return None

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of `events` without the values of erased rows."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            chosen = self.choose(table)
            if pc.any(chosen).as_py():
                yield from self.change(table, chosen).combine_chunks().to_batches()
            else:
                yield batch


def read_erased_events(reader: LakeReader) -> ErasedEvents | None:
    """Read what recognizes the events of erased rows; None if no row was erased."""
    erasures = read_erasures(reader)
    return ErasedEvents(tuple(erasures)) if erasures else None


def leave_out_erased(work: _Work, erased: ErasedEvents | None) -> _Work:
    """Return work that yields events, without the values of erased rows."""
    return work if erased is None else lambda input: erased.apply(work(input))


def read_values(image: _Image, columns: Sequence[str]) -> list[str | None]:
    """Return the texts of columns in a row image; None for one that it lacks."""
    by_name = {fold_name(name): text for name, text in image.items()}
    return [by_name.get(fold_name(column)) for column in columns]


def _strip(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of an event."""
    return {name: value if name in _KEPT else None for name, value in row.items()} | {"kind": KIND}


def _make_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _load_sides(row: Mapping[str, Any]) -> tuple[_Image | None, _Image | None]:
    """Load both images of an event; an old row may state only the columns that changed."""
    before, after = (None if row[name] is None else load(row[name]) for name in ("before", "after"))
    return (None if before is None else {**(after or {}), **before}), after


def _is_of(erasure: Erasure, place: Place, image: _Image | None) -> bool:
    if image is None:
        return False
    digest = make_digest(erasure.salt, read_values(image, place.columns))
    return digest in erasure.digests
