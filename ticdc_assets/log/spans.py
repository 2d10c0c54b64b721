"""What windows applied, as the applied log states it: which events of a span of time they had."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ticdc_assets.log.applied_row import AppliedRow


class Span(NamedTuple):
    """What a window applied: commit ts and batches; whether it was replayed later."""

    after_ts: int
    ts: int
    batch: int
    is_replayed: bool


def list_spans(rows: Sequence[AppliedRow]) -> list[Span]:
    """List the spans of the windows, in order; they do not overlap.  `rows` are all of them."""
    windows = [(0, 0)]
    windows += [(row.ts, row.snapshot_id) for row in rows if row.replayed_from is None]
    batches = {row.snapshot_id: row.batch for row in rows}
    replays = [
        (row.replayed_from, row.snapshot_id) for row in rows if row.replayed_from is not None
    ]
    return [
        Span(after_ts, ts, batches[id], any(start < id < end for start, end in replays))
        for (after_ts, _), (ts, id) in pairwise(windows)
        if ts > after_ts
    ]


def find_span(spans: Sequence[Span], ts: int | None) -> Span | None:
    """Return the span that a commit ts is in."""
    at = len(spans) if ts is None else bisect_left(spans, ts, key=lambda span: span.ts)
    return spans[at] if at < len(spans) and ts is not None and spans[at].after_ts < ts else None
