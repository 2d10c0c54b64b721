"""Which rows are the same: by the values of some columns, or by all of them.

A value is identified by what its column holds and, where the column cannot hold it, by its exact
text.  NULL is the same as NULL.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.rows.table_rows import Rows

# What Arrow compares and groups, one array per value or exact text.
Identity = Sequence[pa.Array]


def identify(sets: Sequence[Rows], names: Iterable[str]) -> list[Identity]:
    """Return what identifies the rows of several sets by some columns, in the same form for all.

    Without any column, all rows are the same.
    """
    identities: list[list[pa.Array]] = [[] for _ in sets]
    for name in names:
        columns = [rows.columns[name] for rows in sets]
        is_inexact = any(stored.exact is not None for stored in columns)
        for identity, (values, exact) in zip(identities, columns, strict=True):
            identity.append(make_comparable(values))
            if is_inexact:
                identity.append(pa.nulls(len(values), pa.string()) if exact is None else exact)
    if not identities[0]:
        return [[pa.repeat(pa.scalar(True), len(rows))] for rows in sets]
    return list(identities)


def make_comparable(values: pa.Array) -> pa.Array:
    """Return values of which Arrow takes two for the same if they are equal."""
    if pa.types.is_floating(values.type):
        # Arrow tells -0.0 from 0.0, and MySQL does not.
        return pc.if_else(pc.equal(values, 0), pa.scalar(0, values.type), values)
    if pa.types.is_list(values.type):
        numbers = values.to_pylist()
        texts = (None if each is None else repr([n + 0.0 for n in each]) for each in numbers)
        return pa.array(texts, pa.string())
    return values


def concat_identities(identities: Sequence[Identity]) -> Identity:
    """Concatenate the identities of several sets of rows."""
    return [pa.concat_arrays(list(parts)) for parts in zip(*identities, strict=True)]


def number_rows(identity: Identity) -> pa.Array:
    """Number rows so that the same ones have the same number, from 0 in no particular order."""
    names = [str(number) for number in range(len(identity))]
    places = pa.array(range(len(identity[0])), pa.int64())
    table = pa.Table.from_arrays([*identity, places], [*names, "place"])
    grouped = table.group_by(names, use_threads=False).aggregate([("place", "list")])
    lists = grouped["place_list"].combine_chunks()
    numbers = pc.list_parent_indices(lists)
    return numbers.take(pc.sort_indices(pc.list_flatten(lists)))


def find_last(identity: Identity, ranks: pa.Array) -> pa.Array:
    """Return the highest rank among the same rows, for each that there is."""
    names = [str(number) for number in range(len(identity))]
    table = pa.Table.from_arrays([*identity, ranks], [*names, "rank"])
    grouped = table.group_by(names, use_threads=False).aggregate([("rank", "max")])
    last: pa.Array = grouped["rank_max"].combine_chunks()
    return last


def are_same(one: Identity, other: Identity) -> pa.Array:
    """Return whether rows are the same, pair by pair."""
    pairs = (_are_equal(left, right) for left, right in zip(one, other, strict=True))
    return reduce(pc.and_, pairs)


def _are_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(pc.equal(left, right), False), both_null)


def are_among(rows: Identity, others: Identity) -> pa.Array:
    """Return which rows are the same as one of some others."""
    # NULL is in a set that has NULL.
    found = reduce(
        pc.and_, (pc.is_in(one, value_set=other) for one, other in zip(rows, others, strict=True))
    )
    if len(rows) == 1 or not pc.any(found).as_py():
        return found
    # Each value is that of some other row: whether all are of one, takes a closer look.
    places = pc.indices_nonzero(found)
    candidates = [part.take(places) for part in rows]
    numbers = number_rows(concat_identities([candidates, others]))
    is_same = pc.is_in(numbers.slice(0, len(places)), value_set=numbers.slice(len(places)))
    ranks = pc.subtract(pc.cumulative_sum(found.cast(pa.int64())), 1)
    return pc.and_(found, is_same.take(pc.if_else(found, ranks, 0)))
