"""Spans of time of the events of a large table, for work that only adds rows.

Where every event is a whole new row, no key comes twice but in repetitions of one event, which have
one commit ts.  So spans are parts for which nothing has to look at a key.
"""

from collections.abc import Collection
from itertools import pairwise

import numpy as np

from ticdc_assets.lake.apply.pending_rows import PendingRows, Span

# About how many events are looked at.
_SAMPLED = 1 << 18
# How many times its share of the events a span may have.
_MOST_SHARES = 1.25


def find_spans(
    pending: PendingRows, names: Collection[str], events: int, count: int
) -> tuple[Span, ...]:
    """Cut the time of a table's events into spans of about as many events each.

    Return none if a few commit ts have most of the events.
    """
    step = max(events // _SAMPLED, 1)
    samples = pending.map(
        lambda some: np.sort(some["commit_ts"].to_numpy())[::step], ("commit_ts",), names
    )
    times = np.sort(np.concatenate(samples))
    if len(times) < count:
        return ()
    cuts = times[[len(times) * number // count - 1 for number in range(1, count)]]
    bounds = [pending.window.after_ts, *cuts.tolist(), pending.window.ts]
    shares = np.diff(np.searchsorted(times, bounds, "right"))
    if shares.max() > _MOST_SHARES * len(times) / count:
        return ()
    return tuple(Span(*ends) for ends in pairwise(bounds))
