"""Spans of time of the events of a large table, for work that only adds rows.

Where every event is a whole new row, no key comes twice but in repetitions of one event, which have
one commit ts.  So spans are parts for which nothing has to look at a key.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ticdc_assets.lake.apply.pending_rows import PendingRows, Span
from ticdc_assets.plan.steps import ApplyRows, TableWork

# About how many events are sampled.
_SAMPLED = 1 << 18
# How many times its share of the events a span may have.
_MOST_SHARES = 1.25
# How often an event may be read for all spans together: a file that covers more than one is read
# for each of them.
_MOST_READS = 2


def find_span(work: TableWork) -> Span | None:
    """Return the time of the events of a table; None if one does not state its commit ts."""
    segments = [step for step in work.steps if isinstance(step, ApplyRows)]
    groups = [typed.group for step in segments for typed in step.row_groups]
    if not groups or not all(group.ordered_by_commit_ts for group in groups):
        return None
    first = min(group.first_ts for group in groups)
    return Span(first - 1, max(group.last_ts for group in groups))


def cut_span(
    pending: PendingRows, span: Span, names: Collection[str], events: int, count: int
) -> tuple[Span, ...]:
    """Cut the time of a table's events into spans of about as many events each.

    Return none if a few commit ts have most of the events, or most files events of all times.
    """
    step = max(events // _SAMPLED, 1)
    samples = replace(pending, span=span).map(
        lambda some: np.sort(some["commit_ts"].to_numpy())[::step], ("commit_ts",), names
    )
    times = np.sort(np.concatenate(samples))
    if len(times) < count:
        return ()
    cuts = times[[len(times) * number // count - 1 for number in range(1, count)]]
    bounds = np.array([span.after_ts, *cuts, span.through_ts])
    shares = np.diff(np.searchsorted(times, bounds, "right"))
    if shares.max() > _MOST_SHARES * len(times) / count:
        return ()
    if pending.held is None:
        ends = (np.searchsorted(bounds, each[[0, -1]]) for each in samples if len(each))
        reads = [int(last - first) + 1 for first, last in ends]
        sizes = [len(each) for each in samples if len(each)]
        if np.dot(reads, sizes) > _MOST_READS * len(times):
            return ()
    return tuple(Span(int(low), int(high)) for low, high in pairwise(bounds))
