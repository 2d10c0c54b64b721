"""Blocks of events, each by the names that rows have in `events`."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

# The events of each name, and none.
Block = tuple[dict[str, pa.Table], pa.Table]


def make_block(events: pa.Table) -> Block:
    """Make a block of events of any names."""
    return _split_by_name(events), events.slice(0, 0)


def skip_empty(blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the blocks that have rows, or one if none has."""
    found = False
    for block in blocks:
        if block.num_rows:
            found = True
            yield block
    if not found:
        yield block


def _split_by_name(events: pa.Table) -> dict[str, pa.Table]:
    names = events["name"].unique().to_pylist()
    if len(names) == 1:
        return {names[0]: events}
    ordered = events.sort_by("name")
    runs = ordered["name"].combine_chunks().dictionary_encode()
    counts = runs.indices.value_counts()
    return dict(_slice_runs(ordered, runs, counts))


def _slice_runs(
    ordered: pa.Table, runs: pa.DictionaryArray, counts: pa.StructArray
) -> Iterable[tuple[str, pa.Table]]:
    start = 0
    for run in counts.to_pylist():
        yield runs.dictionary[run["values"]].as_py(), ordered.slice(start, run["counts"])
        start += run["counts"]
