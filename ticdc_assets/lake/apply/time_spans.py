"""Spans of time of the events of a large table, for work that only adds rows.

Where every event is a whole new row, no key comes twice but in repetitions of one event, which have
one commit ts.  So spans are parts for which nothing has to look at a key.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ticdc_assets.lake.apply.pending_rows import PendingRows, Span
from ticdc_assets.plan.steps import ApplyRows, TableWork

# About how many events are sampled.
_SAMPLED = 1 << 18
# How many times its share of the events a span may have.
_MOST_SHARES = 1.5
# By how much of a share a cut may be off to be where a file ends.
_NEAR = 0.25
# How often an event may be read for all spans together: a block of a file that covers more than one
# is read for each of them.
_MOST_READS = 2


def find_span(work: TableWork) -> Span | None:
    """Return the time of the events of a table; None if one does not state its commit ts."""
    segments = [step for step in work.steps if isinstance(step, ApplyRows)]
    groups = [typed.group for step in segments for typed in step.row_groups]
    if not groups or not all(group.ordered_by_commit_ts for group in groups):
        return None
    first = min(group.first_ts for group in groups)
    return Span(first - 1, max(group.last_ts for group in groups))


@dataclass(frozen=True)
class SpanFiles:
    """A span, and the files that have its events."""

    span: Span
    paths: tuple[str, ...]


def cut_span(
    pending: PendingRows, span: Span, names: Collection[str], events: int, count: int
) -> tuple[SpanFiles, ...]:
    """Cut the time of a table's events in files as `cut_files` does."""
    step = max(events // _SAMPLED, 1)

    def sample(some: pa.Table) -> np.ndarray:
        # The last one says where a file ends.
        times = np.sort(some["commit_ts"].to_numpy())
        return np.append(times[::step], times[-1:])

    of_files = replace(pending.describe(), span=span)
    samples = of_files.map(sample, ("commit_ts",), names)
    files = zip(pending.files.paths, samples, strict=True)
    return cut_files([(path, each) for path, blocks in files for each in blocks], span, count)


def cut_files(
    files: Sequence[tuple[str, np.ndarray]], span: Span, count: int
) -> tuple[SpanFiles, ...]:
    """Cut a time into spans of about as many events each.

    Files come with the ts of their events, sorted, once for each block that is read by itself.
    Return none if a few commit ts have most of the events, or most blocks events of all times.
    """
    files = [(path, each) for path, each in files if len(each)]
    times = np.sort(np.concatenate([np.zeros(0, np.int64), *(each for _, each in files)]))
    if len(times) < count:
        return ()
    cuts = _choose_cuts(times, np.unique([each[-1] for _, each in files]), count)
    bounds = np.array([span.after_ts, *cuts, span.through_ts])
    shares = np.diff(np.searchsorted(times, bounds, "right"))
    if shares.max() > _MOST_SHARES * len(times) / count:
        return ()
    found: list[dict[str, None]] = [{} for _ in range(count)]
    reads = 0
    for path, each in files:
        # A bound belongs to the span before it.
        first, last = np.searchsorted(bounds, each[[0, -1]]) - 1
        reads += int(last - first + 1) * len(each)
        for number in range(first, last + 1):
            found[number][path] = None
    if reads > _MOST_READS * len(times):
        return ()
    spans = (Span(int(low), int(high)) for low, high in pairwise(bounds))
    return tuple(SpanFiles(one, tuple(paths)) for one, paths in zip(spans, found, strict=True))


def _choose_cuts(times: np.ndarray, ends: np.ndarray, count: int) -> list[int]:
    """Choose where to cut: near equal shares, and where a file ends if one does there."""
    share = len(times) / count
    ranks = np.searchsorted(times, ends, "right")
    cuts = []
    for number in range(1, count):
        ideal = round(number * share)
        nearest = int(np.argmin(np.abs(ranks - ideal)))
        is_near = abs(int(ranks[nearest]) - ideal) <= _NEAR * share
        cuts.append(int(ends[nearest] if is_near else times[ideal - 1]))
    return cuts
