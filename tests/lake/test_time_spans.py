"""Spans of time of a table's events, as parts of work that only adds rows."""

from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.lake.apply.pending_rows import PLACED, EventFiles, PendingRows, Span, Window
from ticdc_assets.lake.apply.time_spans import cut_span
from ticdc_assets.lake.events.event_files import write_events
from ticdc_assets.lake.events.event_rows import make_batch
from ticdc_assets.store.lake import Lake

START, END = 10, 500
TIMES = st.lists(st.integers(START + 1, END), min_size=1, max_size=200)


def hold(times: list[int]) -> PendingRows:
    """Hold the events of a table with some commit ts, and those of another."""
    row = {"name": "`d`.`t`", "ordering": "commit_ts"}
    rows = [row | {"commit_ts": ts} for ts in times]
    # Of another table, and of one that had the name before.
    rows += [row | {"name": "`d`.`other`", "commit_ts": START + 1}] * 50
    rows += [row | {"commit_ts": START}] * 50
    window = Window(0, 0, END, 9)
    files = EventFiles()
    held = pa.Table.from_pylist(rows, PLACED)
    return PendingRows(Lake("unused", "feed"), window, files, files, held=held)


def cut(times: list[int], count: int) -> list[list[int]]:
    """Return the commit ts of each span."""
    found = cut_span(hold(times), Span(START, END), {"`d`.`t`"}, len(times), count)
    spans = [each.span for each in found]
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
        paths += [each.file.path for each in write_events(location, [make_batch(events)])]
    files = EventFiles(tuple(paths), 200)
    pending = PendingRows(location, Window(START, 0, END, 9), files, files)
    assert len(cut_span(pending, Span(START, END), {"`d`.`t`"}, 200, 4)) == count


def test_a_transaction_that_has_most_events_is_not_cut() -> None:
    assert cut([100] * 90 + [200] * 10, 2) == []
    assert cut([100], 2) == []
