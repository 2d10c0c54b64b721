"""Rows that were deleted and are kept, in the tables that are archived.

A kept row has the values that it had when it was deleted, and the commit ts of the delete.  A table
with a key has one row of each key: a row that is there upstream takes the place of a kept one.
Without a key, rows have no identity, so that each deleted copy is kept.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.rows.changes import Changes
from ticdc_assets.rows.identity import are_among, concat_identities, identify, number_rows
from ticdc_assets.rows.keyed import Key, Operations, keep_last_per_key, rank_last_puts
from ticdc_assets.rows.multiset import Copies
from ticdc_assets.rows.table_rows import Rows, concat_rows

_NONE = np.iinfo(np.int64).max


class SplitRows(NamedTuple):
    """The rows of a table: those that are there upstream, and those that are kept, if any."""

    there: Rows
    kept: Rows | None


def split_kept(rows: Rows) -> SplitRows:
    """Split the rows of a table."""
    if rows.deleted_ts is None:
        return SplitRows(rows, None)
    is_there = pc.is_null(rows.deleted_ts)
    there, kept = rows.filter(is_there), rows.filter(pc.invert(is_there))
    return SplitRows(Rows(there.columns, there.commit_ts), kept if len(kept) else None)


def join_kept(there: Rows, kept: Rows | None) -> Rows:
    """Return all rows of a table."""
    return there if kept is None else concat_rows([there, kept])


def mark_deleted(rows: Rows, commit_ts: pa.Array) -> Rows:
    """Return rows as deleted at some ts, which is their last change."""
    return Rows(rows.columns, commit_ts, commit_ts)


def add_deleted_by_ddl(kept: Rows | None, gone: Rows, commit_ts: int) -> Rows:
    """Return kept rows, and those that a DDL deletes."""
    deleted = mark_deleted(gone, pa.repeat(pa.scalar(commit_ts, pa.int64()), len(gone)))
    return deleted if kept is None else concat_rows([kept, deleted])


def leave_out_returned(kept: Rows, there: Rows, key: Key) -> Rows:
    """Leave out kept rows whose keys rows have that are there upstream."""
    if not len(kept) or not len(there):
        return kept
    is_back = are_among(*identify([kept.select(key), there.select(key)], key))
    return kept.filter(pc.invert(is_back))


def fit_new_key(kept: Rows, there: Rows, key: Key) -> Rows:
    """Return the kept rows of a table that has a new key: of each one the row deleted last."""
    ordered = kept.take(pc.sort_indices(kept.commit_ts))
    return leave_out_returned(keep_last_per_key(ordered, key), there, key)


# Parameters: the rows before a segment, its changes, and what these do to which keys.
def keep_deleted(
    before: SplitRows, changes: Changes, operations: Operations, key: Key, *, keeps: bool
) -> Rows | None:
    """Return the kept rows of a table with a key after a segment, which keeps its deletes or not.

    A row that comes and goes within the segment is kept with the values that it came with.
    """
    put = pc.indices_nonzero(operations.put)
    kept = before.kept
    if kept is not None:
        kept = leave_out_returned(kept, operations.keys.take(put), key)
    if not keeps:
        return kept
    found = _find_deletes(operations)
    # Of these, the segment has the row itself.
    of_put = found.put >= 0
    places = operations.place.take(pa.array(found.put[of_put]))
    came = changes.new.take(places)
    times = operations.keys.commit_ts
    deleted = [mark_deleted(came, times.take(pa.array(found.removal[of_put])))]
    others = found.removal[~of_put]
    removed = operations.keys.take(pa.array(others))
    deleted.append(_find_deleted(before.there, removed, key))
    return concat_rows([*([] if kept is None else [kept]), *deleted])


class _Deletes(NamedTuple):
    """The operation that deletes each row, and the one that put the row before it, or -1."""

    removal: np.ndarray
    put: np.ndarray


def _find_deletes(operations: Operations) -> _Deletes:
    """Find for each key the first removal behind the last put."""
    rank, numbers, last_put = rank_last_puts(operations)
    is_put = operations.put.to_numpy(zero_copy_only=False)
    by_rank = np.argsort(rank)
    first_removal = np.full(len(last_put), _NONE)
    is_behind = ~is_put & (rank > last_put[numbers])
    np.minimum.at(first_removal, numbers[is_behind], rank[is_behind])
    keys = np.flatnonzero(first_removal != _NONE)
    removal = by_rank[first_removal[keys]]
    puts = last_put[keys]
    put = np.where(puts >= 0, by_rank[np.maximum(puts, 0)], -1)
    # A new row of which the stream has the key alone is there upstream.
    deletes = ~operations.of_new_row.to_numpy(zero_copy_only=False)[removal]
    return _Deletes(removal[deletes], put[deletes])


def _find_deleted(there: Rows, removed: Rows, key: Key) -> Rows:
    """Return the rows of some keys as deleted at the ts that comes with each key."""
    found = there.filter(are_among(*identify([there.select(key), removed], key)))
    identities = identify([found.select(key), removed], key)
    numbers = number_rows(concat_identities(identities)).to_numpy(zero_copy_only=False)
    of_found, of_removed = numbers[: len(found)], numbers[len(found) :]
    times = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    times[of_removed] = removed.commit_ts.to_numpy(zero_copy_only=False)
    return mark_deleted(found, pa.array(times[of_found], pa.int64()))


def keep_deleted_copies(before: SplitRows, changes: Changes, copies: Copies) -> Rows | None:
    """Return the kept rows of a table without a key after a segment: a copy for each delete.

    An update removes a copy, too, and deletes none.
    """
    rows = copies.rows
    affected = before.there.filter(are_among(*identify([before.there, rows], rows.columns)))
    identities = identify([affected, rows], rows.columns)
    numbers = number_rows(concat_identities(identities)).to_pylist()
    counts = dict.fromkeys(numbers, 0)
    for number in numbers[: len(affected)]:
        counts[number] += 1
    is_delete = pc.invert(changes.has_new).take(copies.place).to_pylist()
    deleted = []
    steps = zip(numbers[len(affected) :], copies.added.to_pylist(), is_delete, strict=True)
    for place, (number, added, deletes) in enumerate(steps):
        if added > 0:
            counts[number] += 1
        elif counts[number]:
            counts[number] -= 1
            if deletes:
                deleted.append(place)
    taken = rows.take(pa.array(deleted, pa.int64()))
    new = mark_deleted(taken, taken.commit_ts)
    return new if before.kept is None else concat_rows([before.kept, new])
