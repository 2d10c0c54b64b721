"""The versions that the events of a segment begin and end.

What identifies a row is its key; in a table without a key, all of its values and a number that
tells copies apart, so that of equal copies the youngest ends first.

What follows several events of the same commit ts is one version.  Events that state no commit ts of
their own are dated with the end of their segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.plan.steps import ApplyRows
from ticdc_assets.rows.changes import Changes
from ticdc_assets.rows.identity import are_among, concat_identities, identify, number_rows
from ticdc_assets.rows.keyed import find_key, list_operations
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.table import RowSource, list_segment_copies
from ticdc_assets.rows.table_rows import Rows, concat_rows

Operation = Literal["insert", "update", "delete"]

POSITION = pa.struct(
    [
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int64()),
        ("index", pa.int64()),
    ]
)
# What began or ended a version: an event at a position, or a DDL.
MARK = pa.struct(
    [("ts", pa.int64()), ("operation", pa.string()), ("ddl", pa.string()), ("position", POSITION)]
)

_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
_Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class OpenVersions:
    """The open versions of a table, with the marks of what began them."""

    rows: Rows
    since: pa.Array

    def filter(self, chosen: pa.Array) -> Self:
        """Return the versions that are chosen."""
        places = pc.indices_nonzero(chosen)
        return type(self)(self.rows.take(places), self.since.take(places))


@dataclass(frozen=True)
class Versions:
    """Versions of rows; `since` and `until` are marks, the latter NULL while a version is open.

    Of a version that began in its step (`is_new`), `before` has the place in `before_rows` of the
    row before it, NULL if there was none; `before_rows` is None where there was none at all.
    """

    rows: Rows
    since: pa.Array
    until: pa.Array
    is_new: pa.Array
    before: pa.Array
    before_rows: Rows | None = None

    def filter(self, chosen: pa.Array) -> Self:
        """Return the versions that are chosen."""
        places = pc.indices_nonzero(chosen)
        since, until, is_new, before = (
            array.take(places) for array in (self.since, self.until, self.is_new, self.before)
        )
        return type(self)(self.rows.take(places), since, until, is_new, before, self.before_rows)


def make_marks(
    ts: pa.Array, operation: pa.Array, ddl: str | None = None, position: pa.Array | None = None
) -> pa.Array:
    """Return marks with the same DDL, or with none."""
    count = len(ts)
    ddls = pa.repeat(pa.scalar(ddl, pa.string()), count)
    where = pa.nulls(count, POSITION) if position is None else position
    return pa.StructArray.from_arrays([ts, operation, ddls, where], fields=list(MARK))


def keep_versions(versions: OpenVersions, until: pa.Array | None = None) -> Versions:
    """Return versions that began before a step, and when they end."""
    count = len(versions.rows)
    return Versions(
        versions.rows,
        versions.since,
        pa.nulls(count, MARK) if until is None else until,
        pa.repeat(pa.scalar(False), count),
        pa.nulls(count, pa.int64()),
    )


def _split(
    versions: OpenVersions, concerned: Rows, names: Sequence[str]
) -> tuple[OpenVersions, OpenVersions]:
    """Split open versions into those of rows that events concern, and the others."""
    if not len(versions.rows):
        return versions, versions
    is_concerned = are_among(*identify([versions.rows.select(names), concerned], names))
    return versions.filter(is_concerned), versions.filter(pc.invert(is_concerned))


# Events of tables with a key


def apply_by_key(
    versions: OpenVersions, changes: Changes, step: ApplyRows, part: Part | None
) -> Versions:
    """Return the versions of a table with a key: those that were open, and the new ones."""
    key = find_key(step.schema)
    operations = list_operations(changes, key, part)
    ended, kept = _split(versions, operations.keys, key)
    identities = identify([ended.rows.select(key), operations.keys], key)
    numbers = number_rows(concat_identities(identities)).to_numpy()
    count = len(ended.rows)
    dated = _date(
        _Operations(
            numbers[count:],
            operations.rank.to_numpy(),
            operations.put.to_numpy(zero_copy_only=False),
            operations.place.to_numpy(),
        ),
        _get_own_ts(changes, step),
    ).keep_last()
    new = changes.new.take(pa.array(dated.place))
    return _join(kept, _chain(ended, numbers[:count], dated, new, changes))


# Events of tables without a key


def apply_copies(
    versions: OpenVersions, changes: Changes, step: ApplyRows, source: RowSource
) -> Versions:
    """Return the versions of a table without a key: those that were open, and the new ones."""
    chosen, copies = list_segment_copies(versions.rows, changes, step, source)
    names = list(copies.rows.columns)
    ended, kept = _split(versions, copies.rows, names)
    identities = identify([ended.rows, copies.rows], names)
    numbers = number_rows(concat_identities(identities)).to_numpy()
    count = len(ended.rows)
    added = copies.added.to_numpy(zero_copy_only=False).astype(np.int64)
    dated = _date(
        _Operations(numbers[count:], np.arange(len(added)), added > 0, copies.place.to_numpy()),
        _get_own_ts(chosen, step),
    )
    moved, copy, at = _number_copies(dated, added, numbers[:count])
    wide = int(copy.max(initial=0)) + count + 1
    moved = replace(moved, numbers=moved.numbers * wide + copy)
    of_ended = numbers[:count] * wide + _number_by_age(numbers[:count], ended.since)
    return _join(kept, _chain(ended, of_ended, moved, copies.rows.take(pa.array(at)), chosen))


def _number_by_age(numbers: _Numbers, since: pa.Array) -> _Numbers:
    """Number the copies of each row from 1, the oldest first."""
    times = pc.struct_field(since, "ts").to_numpy(zero_copy_only=False)
    order = np.lexsort((times, numbers))
    places = np.arange(len(order))
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(order)))
    ages = np.empty(len(order), np.int64)
    ages[order] = places - first + 1
    return ages


def _number_copies(
    dated: "_Dated", added: _Numbers, there: _Numbers
) -> tuple["_Dated", _Numbers, _Numbers]:
    """Return the operations that begin or end copies, the number of each copy, and its place.

    There are never fewer than no copies (`multiset`).
    """
    numbers, count = dated.numbers, len(dated.numbers)
    existing = np.bincount(there, minlength=int(numbers.max(initial=-1)) + 1)[numbers]
    sums = np.cumsum(added[dated.at])
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sizes = np.diff(starts, append=count)
    total = sums - np.repeat(sums[starts] - added[dated.at][starts], sizes) + existing
    # The lowest so far, row by row: each row is lower than the ones before it.
    apart = np.repeat(np.arange(len(starts)), sizes) * (4 * count + 2 * len(there) + 2)
    missing = np.minimum(np.minimum.accumulate(total - apart) + apart, 0)
    is_last = dated.is_last
    now, last = (total - missing)[is_last], dated.filter(is_last)
    was = np.concatenate(([0], now))[: len(now)]
    is_first = np.diff(last.numbers, prepend=-1) != 0
    was = np.where(is_first, existing[is_last], was)
    changed = np.abs(now - was)
    each = np.repeat(np.arange(len(now)), changed)
    so_far = np.cumsum(changed) - changed
    copy = np.minimum(now, was)[each] + 1 + np.arange(len(each)) - so_far[each]
    return replace(last.filter(each), put=(now > was)[each]), copy, last.at[each]


# Operations in time


class _Operations(NamedTuple):
    """Operations: on which row, how late, whether they put it, and by which change."""

    numbers: _Numbers
    rank: _Numbers
    put: _Flags
    place: _Numbers


@dataclass(frozen=True)
class _Dated:
    """Operations row by row, each in order, with their ts; `at` is their place before that."""

    numbers: _Numbers
    ts: _Numbers
    put: _Flags
    place: _Numbers
    at: _Numbers

    def filter(self, chosen: np.ndarray) -> "_Dated":
        parts = (self.numbers, self.ts, self.put, self.place, self.at)
        return _Dated(*(part[chosen] for part in parts))

    @property
    def is_last(self) -> _Flags:
        """Which operations are the last one on their row at their ts."""
        is_last: _Flags = np.ones(len(self.ts), np.bool_)
        is_last[:-1] = (np.diff(self.numbers) != 0) | (np.diff(self.ts) != 0)
        return is_last

    def keep_last(self) -> "_Dated":
        return self.filter(self.is_last)


def _get_own_ts(changes: Changes, step: ApplyRows) -> _Numbers:
    events = changes.events
    own = pc.if_else(events["after_ddls"], step.high[0], events["order_ts"])
    found: _Numbers = own.combine_chunks().to_numpy(zero_copy_only=False)
    return found


def _date(operations: _Operations, own_ts: _Numbers) -> _Dated:
    """Date operations.

    What states no commit ts comes before everything that follows it in the order.
    """
    at = np.lexsort((operations.rank, operations.numbers))
    numbers, place = operations.numbers[at], operations.place[at]
    times, nth = np.unique(own_ts[place], return_inverse=True)
    # The least ts from here on, row by row: seen from the end, each row is lower than the last.
    spaced = numbers * len(times) + nth
    least = np.minimum.accumulate(spaced[::-1])[::-1] - numbers * len(times)
    return _Dated(numbers, times[least], operations.put[at], place, at)


# Chains


def _chain(
    versions: OpenVersions, numbers: _Numbers, dated: _Dated, rows: Rows, changes: Changes
) -> Versions:
    """Link versions that are open and what follows: `numbers` and `dated` say of which row.

    `rows` are what each operation puts.
    """
    count = len(numbers)
    times = pc.struct_field(versions.since, "ts").to_numpy(zero_copy_only=False)
    of_row = np.concatenate((numbers, dated.numbers))
    is_new = np.arange(len(of_row)) >= count
    put = np.concatenate((np.ones(count, np.bool_), dated.put))
    order = np.lexsort((np.concatenate((times, dated.ts)), is_new, of_row))
    is_same = np.diff(of_row[order]) == 0
    # What comes before and after each in its chain; -1 is nothing.
    previous, following = (np.full(len(order), -1) for _ in range(2))
    previous[order[1:]] = np.where(is_same & put[order[:-1]], order[:-1], -1)
    following[order[:-1]] = np.where(is_same, order[1:], -1)
    has_before = is_new & (previous >= 0)
    position = _find_positions(changes, dated.place)
    ts = pa.array(dated.ts, pa.int64())
    began = make_marks(ts, _choose(has_before[count:], "update", "insert"), position=position)
    ended = make_marks(ts, _choose(dated.put, "update", "delete"), position=position)
    there = order[put[order]]
    both = concat_rows([versions.rows, rows])
    return Versions(
        both.take(pa.array(there)),
        pa.concat_arrays([versions.since, began]).take(pa.array(there)),
        pa.concat_arrays([versions.since, ended]).take(_take_some(following[there])),
        pa.array(is_new[there]),
        _take_some(np.where(has_before, previous, -1)[there]),
        both,
    )


def _take_some(places: _Numbers) -> pa.Array:
    """Return places, NULL where there is none."""
    return pa.array(places, pa.int64(), mask=places < 0)


def _choose(chosen: _Flags, one: Operation, other: Operation) -> pa.Array:
    return pc.if_else(pa.array(chosen), one, other)


def _find_positions(changes: Changes, places: _Numbers) -> pa.Array:
    """Return the positions of changes."""
    taken = pa.array(places)
    parts = [changes.events[field.name].combine_chunks().take(taken) for field in POSITION]
    return pa.StructArray.from_arrays(parts, fields=list(POSITION))


def _join(kept: OpenVersions, linked: Versions) -> Versions:
    """Return versions that no event concerns together with the others."""
    first = keep_versions(kept)
    return Versions(
        concat_rows([first.rows, linked.rows]),
        pa.concat_arrays([first.since, linked.since]),
        pa.concat_arrays([first.until, linked.until]),
        pa.concat_arrays([first.is_new, linked.is_new]),
        pa.concat_arrays([first.before, linked.before]),
        linked.before_rows,
    )
