"""Tables without a key: how many copies of equal rows a segment adds or removes.

There are never fewer than no copies: a delete of a row that is not there takes nothing from a later
insert of it.  So besides the number of copies that a segment adds, `lowest` counts how many it has
added (or, negative, removed) where they are fewest.
"""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.rows.changes import Changes, take_changes
from ticdc_assets.rows.identity import are_among, concat_identities, identify, number_rows
from ticdc_assets.rows.keyed import rank_operations
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.stored import find_values
from ticdc_assets.rows.table_rows import Rows, concat_rows
from ticdc_assets.stream.problem import OLD_ROW_MISSING


class Copies(NamedTuple):
    """Copies that come (`added` is 1) or go (-1), in order: of which row, by which change."""

    rows: Rows
    added: pa.Array
    place: pa.Array


class RowCopies(NamedTuple):
    """Distinct rows, how many copies of each come or go, and the fewest that there were on the way.

    Each row has the commit ts of its last change.
    """

    rows: Rows
    copies: np.ndarray
    lowest: np.ndarray


def choose_changes(changes: Changes, passes: pa.Array | None) -> Changes:
    """Return the changes that count, without what a sender repeated.

    A transaction's equal changes count as often as the sender sent them in one pass; `passes` is
    the pass of each change, None if their order is that of arrival.  Changes outside of
    transactions all count.
    """
    overwrites = changes.overwrites
    if passes is None or (len(pc.unique(passes)) < 2 and not pc.any(overwrites).as_py()):
        return changes
    events = changes.events
    content = number_rows([_get(events, name) for name in ("order_ts", "before", "after")])
    columns = [content, passes, _get(events, "ordered_by_commit_ts"), overwrites]
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    # How many equal ones there were in each pass, and in any of them.
    in_pass: Counter[tuple[int, int]] = Counter()
    most: Counter[int] = Counter()
    chosen = []
    for place in _sort_by_arrival(events).to_pylist():
        name, number, is_of_transaction, overwrites_row = rows[place]
        if is_of_transaction:
            in_pass[name, number] += 1
            nth = in_pass[name, number]
            # A row can be overwritten only once.
            if nth <= most[name] or (overwrites_row and nth > 1):
                continue
            most[name] = nth
        chosen.append(place)
    return take_changes(changes, pa.array(sorted(chosen), pa.int64()))


def _get(events: pa.Table, name: str) -> pa.Array:
    return events[name].combine_chunks()


def _sort_by_arrival(events: pa.Table) -> pa.Array:
    return pc.sort_indices(events, [("seq", "ascending"), ("index", "ascending")])


def list_copies(changes: Changes, part: Part | None = None) -> Copies:
    """List the copies that changes remove and add, in the order in which they do; of one part."""
    removes, adds = changes.has_old, changes.has_new
    if part is not None:
        removes = pc.and_(removes, part.has(changes.old, changes.old.columns))
        adds = pc.and_(adds, part.has(changes.new, changes.new.columns))
    removed = pc.indices_nonzero(removes).cast(pa.int64())
    added = pc.indices_nonzero(adds).cast(pa.int64())
    place = pa.concat_arrays([removed, added])
    is_put = pa.concat_arrays(
        [pa.repeat(pa.scalar(False), len(removed)), pa.repeat(pa.scalar(True), len(added))]
    )
    in_order = pc.sort_indices(rank_operations(changes.events, place, is_put))
    rows = concat_rows([changes.old.take(removed), changes.new.take(added)])
    counted = pc.if_else(is_put, 1, -1)
    return Copies(rows.take(in_order), counted.take(in_order), place.take(in_order))


def add_overwritten(
    copies: Copies, changes: Changes, before: Rows, unique_keys: Sequence[Sequence[str]]
) -> Copies:
    """Add the removal of rows that updates without old rows overwrite.

    The unique keys identify such a row: all of them agree, and at least one has no NULL.  It must
    exist since an earlier transaction; otherwise the update moved another row to this key, and the
    stream does not say which.
    """
    rows = concat_rows([before, copies.rows])
    names = list(dict.fromkeys(column for key in unique_keys for column in key))
    (identity,) = identify([rows], names)
    identities = number_rows(identity).to_pylist()
    is_identified = _have_any_key(rows, unique_keys).to_pylist()
    events = changes.events.take(copies.place)
    times, of_transactions = (
        events[name].to_pylist() for name in ("order_ts", "ordered_by_commit_ts")
    )
    overwrites = changes.overwrites.take(copies.place).to_pylist()
    places, added = copies.place.to_pylist(), copies.added.to_pylist()
    # The row that has a key now, and since when.
    present = {identities[at]: (at, -1) for at in range(len(before))}
    taken: list[tuple[int, int, int]] = []
    for number, (place, count) in enumerate(zip(places, added, strict=True)):
        at = len(before) + number
        name = identities[at]
        if overwrites[number] and count > 0:
            old, since = present.get(name, (-1, 0))
            is_earlier = not of_transactions[number] or since < times[number]
            if not is_identified[at] or old < 0 or not is_earlier:
                ts = copies.rows.commit_ts[number].as_py()
                raise TableCannotContinue(f"at commit ts {ts}: {OLD_ROW_MISSING}")
            taken.append((old, -1, place))
        taken.append((at, count, place))
        if count > 0:
            present[name] = (at, times[number])
        else:
            present.pop(name, None)
    sources, counts, changed_by = (pa.array(column) for column in zip(*taken, strict=True))
    columns = rows.take(sources).columns
    commit_ts = changes.new.commit_ts.take(changed_by)
    return Copies(Rows(columns, commit_ts), counts, changed_by)


def _have_any_key(rows: Rows, keys: Sequence[Sequence[str]]) -> pa.Array:
    """Return which rows have a unique key without NULL."""
    has_value = {name: find_values(stored) for name, stored in rows.columns.items()}
    return reduce(pc.or_, (reduce(pc.and_, (has_value[name] for name in key)) for key in keys))


def sum_copies(copies: Copies) -> RowCopies:
    """Sum up the copies of equal rows; `copies` are in order."""
    rows, added = copies.rows, copies.added
    if not len(rows):
        nothing = np.zeros(0, np.int64)
        return RowCopies(rows, nothing, nothing)
    (identity,) = identify([rows], rows.columns)
    numbers = number_rows(identity).to_numpy(zero_copy_only=False)
    # Equal rows together, each in the order of its changes.
    order = np.argsort(numbers, kind="stable")
    counted = added.to_numpy(zero_copy_only=False)[order].astype(np.int64)
    times = rows.commit_ts.to_numpy(zero_copy_only=False)[order]
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    so_far = np.cumsum(counted)
    before = np.concatenate(([0], so_far))[starts]
    lowest = np.minimum(0, np.minimum.reduceat(so_far, starts) - before)
    distinct = rows.take(pa.array(order[starts]))
    last = pa.array(np.maximum.reduceat(times, starts), pa.int64())
    return RowCopies(Rows(distinct.columns, last), np.add.reduceat(counted, starts), lowest)


def merge_copies(before: Rows | None, changed: RowCopies) -> Rows:
    """Return the rows of a table after changes of copies."""
    rows, copies, lowest = changed.rows, changed.copies, changed.lowest
    if before is None or not len(before):
        return _repeat(rows, copies - lowest)
    if not len(rows):
        return before
    identities = identify([before, rows], rows.columns)
    is_changed = are_among(*identities)
    affected = before.filter(is_changed)
    numbers = number_rows(concat_identities(identify([affected, rows], rows.columns)))
    all_numbers = numbers.to_numpy(zero_copy_only=False)
    there, of_rows = all_numbers[: len(affected)], all_numbers[len(affected) :]
    counts = _count_there(there, of_rows)
    # What the deletes of rows that were not there took.
    missing = np.minimum(counts + lowest, 0)
    latest = np.zeros(len(all_numbers), np.int64)
    for part, times in ((there, affected.commit_ts), (of_rows, rows.commit_ts)):
        np.maximum.at(latest, part, times.to_numpy(zero_copy_only=False))
    left = Rows(rows.columns, pa.array(latest[of_rows], pa.int64()))
    kept = before.filter(pc.invert(is_changed))
    return concat_rows([kept, _repeat(left, copies + counts - missing)])


def _count_there(numbers: np.ndarray, of_rows: np.ndarray) -> np.ndarray:
    """Count how many of some rows each of several distinct ones is."""
    count = int(max(numbers.max(initial=-1), of_rows.max(initial=-1))) + 1
    counts: np.ndarray = np.bincount(numbers, minlength=count)[of_rows]
    return counts


def _repeat(rows: Rows, copies: np.ndarray) -> Rows:
    """Return each row as many times as it is counted."""
    return rows.take(pa.array(np.repeat(np.arange(len(rows)), np.maximum(copies, 0))))


def number_passes(sent: pa.Table) -> dict[tuple[int, int], int]:
    """Return how often its sender had gone back in time before each row, by `seq` and `index`.

    `sent` are the rows of a table since the first batch with pending ones, applied or not.
    """
    names = ("seq", "index", "commit_ts", "source", "partition", "schema_version", "table_id")
    ordered = sent.take(_sort_by_arrival(sent))
    passes: dict[tuple[int, int], int] = {}
    senders: dict[tuple[object, ...], tuple[int, int]] = {}
    for seq, index, ts, source, partition, version, table_id in zip(
        *(ordered[name].to_pylist() for name in names), strict=True
    ):
        sender = (version, table_id) if partition is None else (source, partition)
        last, number = senders.get(sender, (0, 0))
        number += ts < last
        senders[sender] = ts, number
        passes[seq, index] = number
    return passes
