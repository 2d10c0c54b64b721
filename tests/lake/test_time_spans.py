"""Spans of time of a table's events, as parts of work that only adds rows."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.lake.apply.pending_rows import EventFiles, PendingRows, Span, Window
from ticdc_assets.lake.apply.time_spans import cut_files, cut_span
from ticdc_assets.lake.events.event_files import write_events
from ticdc_assets.store.event_rows import make_batch
from ticdc_assets.store.lake import Lake

START, END = 10, 500
TIMES = st.lists(st.integers(START + 1, END), min_size=1, max_size=200)


def cut(times: list[int], count: int) -> list[list[int]]:
    """Return the commit ts of each span, of events that came in files of five."""
    ordered = np.sort(times)
    files = [(str(at), ordered[at : at + 5]) for at in range(0, len(ordered), 5)]
    spans = [each.span for each in cut_files(files, Span(START, END), count)]
    return [[ts for ts in times if s.after_ts < ts <= s.through_ts] for s in spans]


@given(TIMES, st.integers(2, 9))
def test_each_event_is_in_one_of_spans_that_are_alike(times: list[int], count: int) -> None:
    parts = cut(times, count)
    if parts:
        assert len(parts) == count
        assert sorted(chain.from_iterable(parts)) == sorted(times)
        assert max(map(len, parts)) <= 1.5 * len(times) / count + 1


@given(st.permutations(range(START + 1, START + 121)), st.integers(2, 9))
def test_events_of_many_commit_ts_are_cut(times: list[int], count: int) -> None:
    assert len(cut(times, count)) == count


@pytest.mark.parametrize(("step", "count"), [(1, 4), (4, 0)])
def test_files_that_all_have_events_of_all_times_are_not_read_for_each_span(
    tmp_path: Path, step: int, count: int
) -> None:
    location, row = Lake(str(tmp_path), "feed"), {"kind": "row", "name": "`d`.`t`", "batch": 1}
    paths = []
    for number in range(4):
        first = START + 1 + (number if step > 1 else 50 * number)
        times = range(first, first + 50 * step, step)
        events = [row | {"ordering": "commit_ts", "commit_ts": ts} for ts in times]
        # Of another table, and of one that had the name before.
        events += [events[0] | {"name": "`d`.`other`", "commit_ts": START + 1}] * 200
        events += [events[0] | {"commit_ts": START}] * 200
        paths += [each.file.path for each in write_events(location, [make_batch(events)])]
    files = EventFiles(tuple(paths), 200)
    pending = PendingRows(location, Window(0, 0, END, 9), files, files)
    assert len(cut_span(pending, Span(START, END), {"`d`.`t`"}, 200, 4)) == count


def test_a_transaction_that_has_most_events_is_not_cut() -> None:
    assert cut([100] * 90 + [200] * 10, 2) == []
    assert cut([100], 2) == []
