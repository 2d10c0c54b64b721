"""Verify one table: compare sums of its rows, narrow down what differs, and read those rows."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from ticdc_assets.log.verifications import TableProgress
from ticdc_assets.schema.types.mysql_type import integer_range
from ticdc_assets.upstream.snapshot import UpstreamSnapshot
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.columns import Match
from ticdc_assets.verify.narrowing import (
    MOST_SPANS,
    NOTHING,
    ROWS_PER_SPAN,
    CoarsePlan,
    DifferentRow,
    compare_sums,
    do_both,
    find_different_rows,
    plan_hashes,
    plan_keys,
)
from ticdc_assets.verify.side import Comparison, Digest, Measure, Side, Span
from ticdc_assets.verify.upstream_side import UpstreamSide, estimate_rows

# Rows that a verification lists per table; there may be more that differ.
MOST_DIFFERENCES = 10_000
# A key of several columns is found by the first one if no value of it has more rows on average.
_MOST_ROWS_PER_LEAD = 1000
# Coarse spans that are compared between two saves of the progress, and its least interval.
_SPANS_PER_SAVE = 16
_SECONDS_BETWEEN_SAVES = 10.0


class OpenTable(Protocol):
    """A table of the lake, which opens as a side once it is known what is compared."""

    def measure(self, lead: ComparedColumn | None) -> Measure:
        """Count rows and values of the lead; find values of it that divide the rows evenly."""

    def open(self, comparison: Comparison) -> Side: ...


@dataclass
class TableComparison:
    """The comparison of a table: the two sides, and what it found."""

    comparison: Comparison
    lake: Side
    upstream: UpstreamSide
    progress: TableProgress
    lake_rows: int = 0
    upstream_rows: int = 0
    different: list[DifferentRow] = field(default_factory=list)
    complete: bool = True
    spans: int = 0


# Called with the rows compared so far.
ShowRows = Callable[[int], None]


def start_comparison(
    table: OpenTable, match: Match, upstream: UpstreamSnapshot, known: TableProgress | None
) -> TableComparison:
    """Open both sides; choose the first spans, or take up the progress of a run that was killed."""
    comparison = match.comparison
    if known is not None:
        if not known.lead:
            comparison = replace(comparison, lead=None)
        lake = table.open(comparison)
        return TableComparison(comparison, lake, UpstreamSide(upstream, comparison), known)
    measure = table.measure(comparison.lead)
    repeats = measure.rows > _MOST_ROWS_PER_LEAD * measure.distinct
    if len(comparison.key) > 1 and repeats:
        comparison = replace(comparison, lead=None)
    plan = _plan(comparison, measure, upstream)
    lake = table.open(comparison)
    progress = TableProgress(
        lead=comparison.lead is not None,
        parts=plan.parts,
        spans=[(span.low, span.high) for span in plan.spans],
        upstream=[],
    )
    return TableComparison(comparison, lake, UpstreamSide(upstream, comparison), progress)


def _plan(comparison: Comparison, measure: Measure, upstream: UpstreamSnapshot) -> CoarsePlan:
    if comparison.lead is None:
        return plan_hashes(measure.rows)
    least, most = integer_range(comparison.lead.type)
    # What is below the first key of the lake, and behind its last, is only upstream.
    ends = {bound + (bound == max(measure.bounds)) for bound in measure.bounds}
    name = comparison.database, comparison.table
    theirs = estimate_rows(upstream, *name, comparison.lead)
    if theirs.rows > 2 * (measure.rows + ROWS_PER_SPAN) and len(theirs.bounds) == 2:
        # The lake lacks most rows, so that its keys divide theirs into spans too long to read.
        whole = Span(theirs.bounds[0], theirs.bounds[1] + 1)
        parts = whole.split(min(MOST_SPANS, theirs.rows // ROWS_PER_SPAN + 1))
        ends |= {part.high for part in parts} | {whole.low}
    edges = sorted({least, *ends, most + 1})
    spans = list(map(Span, edges, edges[1:]))
    return plan_keys(spans, max(measure.rows, theirs.rows))


def compare_table(compared: TableComparison, save: Callable[[], None], show: ShowRows) -> None:
    """Compare the sums of all spans, and find the rows that differ."""
    progress = compared.progress
    plan = CoarsePlan(tuple(Span(*span) for span in progress.spans), progress.parts)
    ours, theirs = do_both(
        lambda: dict(compared.lake.sum_parts(plan.spans, plan.parts)),
        lambda: _sum_upstream(compared, plan, save, show),
    )
    compared.lake_rows = sum(digest.rows for digest in ours.values())
    compared.upstream_rows = sum(digest.rows for digest in theirs.values())
    parts = plan.list_parts()
    compared.spans = len(parts)
    different = compare_sums(ours, theirs, parts)
    if different:
        save()
        _narrow(compared, different, ours, theirs)


def _sum_upstream(
    compared: TableComparison, plan: CoarsePlan, save: Callable[[], None], show: ShowRows
) -> dict[Span, Digest]:
    """Sum up all spans upstream, without those that a killed run has summed up."""
    progress = compared.progress
    theirs = _decode(progress.upstream)
    saved = time.monotonic()
    for spans in _batches(plan, set(theirs)):
        found = dict(compared.upstream.sum_parts(spans, plan.parts))
        # Spans without rows are done, too.
        parts = [part for span in spans for part in span.split(plan.parts)]
        sums = {part: found.get(part, NOTHING) for part in parts}
        theirs |= sums
        progress.upstream += _encode(sums.items())
        show(sum(digest.rows for digest in theirs.values()))
        if time.monotonic() - saved >= _SECONDS_BETWEEN_SAVES:
            save()
            saved = time.monotonic()
    return theirs


def _batches(plan: CoarsePlan, done: set[Span]) -> Iterator[list[Span]]:
    """Yield the spans that are not done yet, some at a time."""
    spans = [span for span in plan.spans if span.split(plan.parts)[0] not in done]
    for start in range(0, len(spans), _SPANS_PER_SAVE):
        yield spans[start : start + _SPANS_PER_SAVE]


def _narrow(
    compared: TableComparison,
    different: list[Span],
    ours: Mapping[Span, Digest],
    theirs: Mapping[Span, Digest],
) -> None:
    most = max(
        max(ours.get(span, NOTHING).rows, theirs.get(span, NOTHING).rows) for span in different
    )

    def count_spans(more: int) -> None:
        compared.spans += more

    rows = find_different_rows(compared.lake, compared.upstream, different, most, count_spans)
    compared.different = list(islice(rows, MOST_DIFFERENCES + 1))
    compared.complete = len(compared.different) <= MOST_DIFFERENCES
    del compared.different[MOST_DIFFERENCES:]


def _encode(sums: Iterable[tuple[Span, Digest]]) -> list[tuple[int, int, int, str]]:
    return [(span.low, span.high, digest.rows, str(digest.sum)) for span, digest in sums]


def _decode(sums: Iterable[tuple[int, int, int, str]]) -> dict[Span, Digest]:
    return {Span(low, high): Digest(rows, int(sum)) for low, high, rows, sum in sums}
