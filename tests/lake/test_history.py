"""Histories: at every ts, the versions that were open are the rows that upstream had.

Changes are what begins and ends these versions.
"""

import dataclasses
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.lake.changes_tables import compare_with_histories
from tests.lake.histories import histories
from tests.lake.history_lake import FEED, HistoryLake, shown
from tests.lake.versions_at import read_histories
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.lake.history.update import update_histories
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.state import Incarnation

WITH_HISTORY = dataclasses.replace(FEED, history=("*.*",), changes=("*.*",))


def keep_histories(history_lake: HistoryLake, random: Random, windows: int) -> None:
    """Apply workloads in windows, each followed by the histories; compare these at every ts."""
    lake = history_lake.lake
    cuts = history_lake.cuts(random, windows)
    pieces = zip(*(history.pieces(cuts) for history in history_lake.histories), strict=True)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        history_lake.take(batch, [event for events in piece for event in events], ts)
        done = apply(lake, read_last_snapshot(lake), DecodedBatches(batch, batch))
        assert (done.resolved_ts, done.problems) == (ts, [])
        assert update_histories(lake, done.snapshot) == []
    compare(history_lake)


def compare(history_lake: HistoryLake) -> None:
    rows_at = read_histories(history_lake.lake)
    times = sorted({ts for history in history_lake.histories for ts in history.times})
    for ts in times:
        found = [
            (Incarnation(id=id, schema=schema, created_ts=0), lines)
            for id, (schema, lines) in rows_at(ts).items()
        ]
        history_lake.check(ts, shown(found))
    assert compare_with_histories(history_lake.lake)


@pytest.mark.slow
def test_histories_have_the_rows_of_every_ts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1)
    history_lake = HistoryLake(spark, tmp_path, histories((1000,), steps=16), WITH_HISTORY)
    keep_histories(history_lake, Random(1), windows=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(7000, 7060, 3))
def test_more_histories_have_the_rows_of_every_ts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if seed % 2 else 1 << 20)
    history_lake = HistoryLake(
        spark, tmp_path, histories(range(seed, seed + 3), steps=30), WITH_HISTORY
    )
    keep_histories(history_lake, Random(seed), windows=3)
