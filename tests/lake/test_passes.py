"""The passes of senders do not depend on which of a table's pending rows somebody has."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.lake.history_lake import HistoryLake
from tests.lake.test_stopped_tables import no_spark
from ticdc_assets.events import Event, RowChange, TopicPosition
from ticdc_assets.lake.apply.pending_rows import Window, find_pending_rows
from ticdc_assets.store.reader import LakeReader

# Partition and commit ts, by batch; the window begins behind the first two rows.
BATCHES = [[(0, 110), (0, 120), (0, 250)], [(0, 110)], [(0, 120), (1, 260)], [(1, 250), (0, 250)]]


def sent(partition: int, ts: int) -> Event:
    position = TopicPosition("t", partition, ts)
    return RowChange(
        op="insert",
        commit_ts=ts,
        database="shop",
        table="t",
        position=position,
        after='{"id":"1"}',
    )


@pytest.mark.parametrize("is_held", [True, False])
def test_parts_of_a_table_number_passes_alike(tmp_path: Path, is_held: bool) -> None:
    history = HistoryLake(no_spark, tmp_path, [])
    for batch, rows in enumerate(BATCHES, 1):
        history.take(batch, [sent(*row) for row in rows], 0)
    location = history.lake.location
    events = LakeReader(location).open_all(["events"])
    window = Window(120, 1, 300, len(BATCHES))
    pending = find_pending_rows(location, events, window, in_milliseconds=False)
    if is_held:
        pending = pending.hold()
    rows = pending.read(["`shop`.`t`"]).sort_by([("seq", "ascending")])
    places = list(zip(rows["partition"].to_pylist(), rows["commit_ts"].to_pylist(), strict=True))
    assert places == [(0, 250), (1, 260), (1, 250), (0, 250)]
    # Each partition goes back once; that of partition 0 is of rows that are applied already.
    expected = [0, 0, 1, 1]
    for size in range(1, len(rows) + 1):
        for part in combinations(range(len(rows)), size):
            passes = pending.read_passes("`shop`.`t`", rows.take(list(part)))
            assert passes.to_pylist() == [expected[at] for at in part]
