"""Narrow a table down to the rows that differ; pure, whatever the two sides are.

First the sums of all parts are compared, so that an equal table is read once.  In a table of up to
two million rows, a part has some 32 of them.  Larger parts that differ are divided again, and of
small ones that differ, every row's hash is compared.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from ticdc_assets.verify.side import ALL_HASHES, Digest, Entry, Side, Span, Texts

_Ours = TypeVar("_Ours")
_Theirs = TypeVar("_Theirs")
What = Literal["missing", "extra", "differs"]
NOTHING = Digest(0, 0)
# Rows of a span, which is one query upstream, unless there were too many spans; and of a part of
# it, whose hashes are read one by one.
ROWS_PER_SPAN = 20_000
MOST_SPANS = 4096
ROWS_PER_PART = 32
# All parts are in memory, and in the progress of a run.
MOST_PARTS = 100_000
_MOST_PARTS = 4096
# Spans that are narrowed at once.
_SPANS_AT_ONCE = 32
# Parts whose rows are compared at once.
_PARTS_AT_ONCE = 10_000
# Sums of parts that are in memory at once, of each side.
_SUMS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class CoarsePlan:
    """The first spans to compare, each divided into equal parts."""

    spans: tuple[Span, ...]
    parts: int = 1

    def list_parts(self) -> list[Span]:
        return [part for span in self.spans for part in span.split(self.parts)]


@dataclass(frozen=True)
class DifferentRow:
    """A row of which the sides differ, or how many copies of it are missing or extra.

    With a key, there is more than one copy only if a side has a key more than once.
    """

    position: int
    key: Texts
    what: What
    copies: int = 1


def choose_parts(rows: int, most: int) -> int:
    """Choose the number of parts of a span: a power of two, so that those of hashes are equal."""
    parts = 1
    while parts * ROWS_PER_PART < rows and 2 * parts <= most:
        parts *= 2
    return parts


def plan_hashes(rows: int) -> CoarsePlan:
    """Plan the parts of a table whose positions are hashes."""
    return CoarsePlan((ALL_HASHES,), choose_parts(rows, MOST_PARTS))


def plan_keys(spans: Sequence[Span], rows: int) -> CoarsePlan:
    """Plan the parts of a table whose positions are keys, in even spans."""
    each = min(rows, ROWS_PER_SPAN)
    return CoarsePlan(tuple(spans), choose_parts(each, MOST_PARTS // len(spans)))


def add_sums(sums: dict[Span, Digest], more: Mapping[Span, Digest]) -> None:
    """Add the sums of other rows."""
    for span, (rows, sum) in more.items():
        before = sums.get(span, NOTHING)
        sums[span] = Digest(before.rows + rows, before.sum + sum)


def compare_sums(
    lake: Mapping[Span, Digest], upstream: Mapping[Span, Digest], spans: Iterable[Span]
) -> list[Span]:
    """Return the spans whose rows differ."""
    return [span for span in spans if lake.get(span, NOTHING) != upstream.get(span, NOTHING)]


def find_different_rows(
    lake: Side,
    upstream: Side,
    spans: Sequence[Span],
    rows_per_span: int,
    count: Callable[[int], None],
) -> Iterator[DifferentRow]:
    """Yield the rows that differ in spans whose sums differ; `count` gets numbers of parts."""
    parts = choose_parts(rows_per_span // 2, _MOST_PARTS)
    step = max(_SUMS_AT_ONCE // parts, 1)
    if upstream.finds_by_index and parts > 1:
        # Each pass over hashes reads the whole table upstream.
        step = min(step, _SPANS_AT_ONCE)
    for start in range(0, len(spans), step):
        different = chosen = spans[start : start + step]
        if parts > 1:
            ours, theirs = do_both(
                partial(_sum_parts, lake, chosen, parts),
                partial(_sum_parts, upstream, chosen, parts),
            )
            count(parts * len(chosen))
            different = compare_sums(ours, theirs, sorted({*ours, *theirs}))
        for first in range(0, len(different), _PARTS_AT_ONCE):
            some = different[first : first + _PARTS_AT_ONCE]
            yield from compare_entries(
                *do_both(partial(_list_entries, lake, some), partial(_list_entries, upstream, some))
            )


def _sum_parts(side: Side, spans: Sequence[Span], parts: int) -> dict[Span, Digest]:
    return dict(side.sum_parts(spans, parts))


def _list_entries(side: Side, spans: Sequence[Span]) -> list[Entry]:
    return list(side.list_entries(spans))


def do_both(ours: Callable[[], _Ours], theirs: Callable[[], _Theirs]) -> tuple[_Ours, _Theirs]:
    """Let both sides work at the same time."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(ours)
        found = theirs()
        return working.result(), found


def compare_entries(lake: Iterable[Entry], upstream: Iterable[Entry]) -> Iterator[DifferentRow]:
    """Yield the rows that differ among those that both sides have listed."""
    ours, theirs = _group(lake), _group(upstream)
    for name in sorted({*ours, *theirs}, key=lambda name: (name[0], repr(name[1]))):
        one, other = ours.get(name, Counter()), theirs.get(name, Counter())
        if one == other:
            continue
        position, key = name
        copies = one.total() - other.total()
        if one and other and key and not copies:
            yield DifferentRow(position, key, "differs")
        else:
            yield DifferentRow(position, key, "extra" if copies > 0 else "missing", abs(copies))


def _group(entries: Iterable[Entry]) -> dict[tuple[int, Texts], Counter[int]]:
    """Count the hashes of rows by their keys."""
    groups: dict[tuple[int, Texts], Counter[int]] = defaultdict(Counter)
    for entry in entries:
        groups[entry.position, entry.key][entry.hash] += entry.copies
    return groups
