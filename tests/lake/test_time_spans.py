"""Spans of time of a table's events, as parts of work that only adds rows."""

from itertools import chain

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.lake.apply.pending_rows import PLACED, EventFiles, PendingRows, Window
from ticdc_assets.lake.apply.time_spans import find_spans
from ticdc_assets.store.lake import Lake

START, END = 10, 500
TIMES = st.lists(st.integers(START + 1, END), min_size=1, max_size=200)


def hold(times: list[int]) -> PendingRows:
    """Hold the events of a table with some commit ts, and those of another."""
    rows = [{"name": "`d`.`t`", "commit_ts": ts} for ts in times]
    rows += [{"name": "`d`.`other`", "commit_ts": START + 1}] * 50
    window = Window(START, 0, END, 9)
    files = EventFiles()
    held = pa.Table.from_pylist(rows, PLACED)
    return PendingRows(Lake("unused", "feed"), window, files, files, held=held)


def cut(times: list[int], count: int) -> list[list[int]]:
    """Return the commit ts of each span."""
    spans = find_spans(hold(times), {"`d`.`t`"}, len(times), count)
    return [[ts for ts in times if s.after_ts < ts <= s.through_ts] for s in spans]


@given(TIMES, st.integers(2, 9))
def test_each_event_is_in_one_of_spans_that_are_alike(times: list[int], count: int) -> None:
    parts = cut(times, count)
    if parts:
        assert len(parts) == count
        assert sorted(chain.from_iterable(parts)) == sorted(times)
        assert max(map(len, parts)) <= 1.25 * len(times) / count


@given(st.permutations(range(START + 1, START + 121)), st.integers(2, 9))
def test_events_of_many_commit_ts_are_cut(times: list[int], count: int) -> None:
    assert len(cut(times, count)) == count


def test_a_transaction_that_has_most_events_is_not_cut() -> None:
    assert cut([100] * 90 + [200] * 10, 2) == []
    assert cut([100], 2) == []
