"""Tables with a key: what a segment leaves of each key."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.changes import Changes, take_changes
from ticdc_assets.rows.identity import (
    Identity,
    are_among,
    are_same,
    concat_identities,
    find_last,
    identify,
    number_rows,
)
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.stored import find_values
from ticdc_assets.rows.table_rows import Rows, concat_rows
from ticdc_assets.stream.problem import KEY_OF_SEVERAL_ROWS, KEY_WITHOUT_VALUE

Key = tuple[str, ...]


def find_key(schema: TableSchema) -> Key:
    """Return a table's key columns as its columns spell them."""
    columns = (schema.column(name) for name in schema.key)
    return tuple(column.name for column in columns if column is not None)


class Operations(NamedTuple):
    """What changes do to keys: each removes one, or puts a row, which `put` says.

    `place` is that of the change.  `decides` says whether an operation stands for its change: the
    removal of the old key of a moved row does not.
    """

    place: pa.Array
    put: pa.Array
    decides: pa.Array
    identity: Identity
    keys: Rows
    # How late it comes in the order.
    rank: pa.Array
    # Whether it is of the new row of its change, be that whole or the key alone.
    of_new_row: pa.Array


class KeyedChanges(NamedTuple):
    """What changes leave of the keys that they concern: rows that are put, and keys that are gone.

    `applied` counts the changes that decide what is left.
    """

    put: Rows
    gone: Rows
    applied: int


def list_operations(changes: Changes, key: Key, part: Part | None = None) -> Operations:
    """Split changes into the removal of a key, the put of a row, or both; of one part, or all."""
    old, new = changes.old.select(key), changes.new.select(key)
    is_same = are_same(*identify([old, new], key))
    stays = pc.and_(changes.has_new, is_same)
    removes, puts_row = pc.and_not(changes.has_old, stays), changes.has_new
    if part is not None:
        removes = pc.and_(removes, part.has(old, key))
        puts_row = pc.and_(puts_row, part.has(new, key))
    removals = pc.indices_nonzero(removes).cast(pa.int64())
    puts = pc.indices_nonzero(puts_row).cast(pa.int64())
    # Of a row whose key alone is known, the row before it goes.  It is in the quarantine itself,
    # and counts there.
    is_whole = pc.invert(changes.has_key_only).take(puts)
    place = pa.concat_arrays([removals, puts])
    put = pa.concat_arrays([pa.repeat(pa.scalar(False), len(removals)), is_whole])
    decides = pa.concat_arrays([pc.invert(changes.has_new).take(removals), is_whole])
    identities = identify([old.take(removals), new.take(puts)], key)
    keys = concat_rows([old.take(removals), new.take(puts)])
    rank = rank_operations(changes.events, place, put)
    of_new_row = pa.array([False] * len(removals) + [True] * len(puts), pa.bool_())
    return Operations(place, put, decides, concat_identities(identities), keys, rank, of_new_row)


def rank_operations(events: pa.Table, place: pa.Array, put: pa.Array) -> pa.Array:
    """Rank operations by their order, as the reference model states it.

    Within a transaction a put wins over a removal.  Rows that state no commit ts come after the
    transactions of their ts, one by one.
    """
    names = ("order_ts", "after_ddls", "ordered_by_commit_ts", "seq", "index")
    ts, after_ddls, has_ts, seq, index = (
        events[name].combine_chunks().take(place) for name in names
    )
    # Of one transaction, else of one event.
    put_first, put_last = pc.and_(has_ts, put), pc.and_not(put, has_ts)
    order = [ts, after_ddls, pc.invert(has_ts), put_first, seq, index, put_last]
    columns = [str(number) for number in range(len(order))]
    table = pa.Table.from_arrays(order, columns)
    in_order = pc.sort_indices(table, [(name, "ascending") for name in columns])
    return pc.sort_indices(in_order).cast(pa.int64())


def reduce_changes(changes: Changes, operations: Operations) -> KeyedChanges:
    """Reduce changes to what their operations leave of each key."""
    winners = _find_winners(operations)
    put = operations.put.take(winners)
    put_places = operations.place.take(winners.filter(put))
    gone = operations.keys.take(winners.filter(pc.invert(put)))
    applied = pc.sum(operations.decides.take(winners).cast(pa.int64())).as_py() or 0
    return KeyedChanges(changes.new.take(put_places), gone, applied)


# Parameters: changes, the key and the part, and what else is needed.
def keep_deciding(
    changes: Changes, key: Key, part: Part | None = None, *, is_archived: bool = False
) -> Changes:
    """Return the changes that `reduce_changes` needs, also of these and others together.

    Of a table that `is_archived`, these are all from the last put of a key on: any of the removals
    behind it may be the one that deleted the row, if another block has a later put.
    """
    operations = list_operations(changes, key, part)
    if is_archived:
        rank, numbers, last_put = rank_last_puts(operations)
        chosen = pa.array(np.flatnonzero(rank >= last_put[numbers]))
    else:
        chosen = _find_winners(operations)
    places = pc.unique(operations.place.take(chosen))
    return take_changes(changes, places.take(pc.sort_indices(places)))


def rank_last_puts(operations: Operations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rank of each operation, the number of its key, and by this the last put or -1."""
    rank = operations.rank.to_numpy(zero_copy_only=False)
    numbers = number_rows(operations.identity).to_numpy(zero_copy_only=False)
    is_put = operations.put.to_numpy(zero_copy_only=False)
    last_put = np.full(int(numbers.max(initial=-1)) + 1, -1)
    np.maximum.at(last_put, numbers[is_put], rank[is_put])
    return rank, numbers, last_put


def _find_winners(operations: Operations) -> pa.Array:
    """Return the places of the operations that come last of their keys."""
    last = find_last(operations.identity, operations.rank)
    return pc.sort_indices(operations.rank).take(last)


def merge_changes(before: Rows | None, changed: KeyedChanges, key: Key) -> Rows:
    """Return the rows of a table after changes."""
    if before is None or not len(before):
        return changed.put
    touched = concat_rows([changed.put.select(key), changed.gone.select(key)])
    kept = before.filter(pc.invert(are_among(*identify([before.select(key), touched], key))))
    return concat_rows([kept, changed.put])


def keep_last_per_key(rows: Rows, key: Key) -> Rows:
    """Return the last row of each key: a table whose key is new may have several."""
    (identity,) = identify([rows], key)
    places = pa.array(range(len(rows)), pa.int64())
    last = find_last(identity, places)
    return rows if len(last) == len(rows) else rows.take(last.take(pc.sort_indices(last)))


def require_key(rows: Rows, schema: TableSchema) -> Rows:
    """Return the rows of a table whose key is new, each once; raise if it does not tell them apart.

    A table without a key may have repetitions of a row; a damaged key names columns of no table.
    """
    if not len(rows):
        return rows
    key = find_key(schema)
    known = {fold_name(name): rows.columns.get(name) for name in key}
    for name in schema.key:
        stored = known.get(fold_name(name))
        if stored is None or not pc.all(find_values(stored)).as_py():
            raise TableCannotContinue(KEY_WITHOUT_VALUE.format(name))
    once = keep_last_per_key(rows, key)
    if len(once) < len(rows):
        (identity,) = identify([rows], rows.columns)
        if len(pc.unique(number_rows(identity))) > len(once):
            raise TableCannotContinue(KEY_OF_SEVERAL_ROWS.format(", ".join(key)))
    return once


def find_lost_key(
    changes: Changes, key: Key, before: Rows | None, part: Part | None = None
) -> int | None:
    """Find the first update without an old row whose row does not exist: its old key is unknown.

    Return its commit ts.
    """
    operations = list_operations(changes, key, part)
    keys = operations.keys
    is_there = pa.repeat(pa.scalar(False), len(keys))
    if before is not None:
        is_there = are_among(*identify([keys, before.select(key)], key))
    identities = list(zip(*(part.to_pylist() for part in operations.identity), strict=True))
    exists = dict(zip(identities, is_there.to_pylist(), strict=True))
    overwrites = changes.overwrites.take(operations.place).to_pylist()
    puts, times = operations.put.to_pylist(), keys.commit_ts.to_pylist()
    lost = []
    for place in pc.sort_indices(operations.rank).to_pylist():
        identity = identities[place]
        if overwrites[place] and puts[place] and not exists[identity]:
            lost.append(times[place])
        exists[identity] = puts[place]
    return min(lost, default=None)
