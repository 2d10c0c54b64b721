"""A golden dataset whose tables are archived: nothing that knows upstream alone takes notice."""

import dataclasses
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from tests.checks.test_golden_checks import failed
from tests.lake.golden_histories import compare_histories, keep_histories
from tests.lake.golden_runs import GoldenLake, compare, cuts, list_truth_points
from ticdc_assets.changefeed.archive import TableArchive
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.rows.columns import DELETED_TS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.verify.small_lake import SmallLake
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.large_tables import read_there

DATASET = "lifecycle/simple-json"


def test_views_histories_checks_and_verify_show_what_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    golden = GoldenLake(spark, tmp_path, DATASET)
    golden.feed = dataclasses.replace(golden.feed, archives=(TableArchive(("*.*",)),))
    keep_histories(golden, "*.*")
    random, points = Random(3), list_truth_points(DATASET)
    for cut in cuts(DATASET, random.sample(points[:-1], 1), random):
        golden.advance(cut)
    for ts in points[:-1]:
        compare(golden, ts, random)
    compare(golden, points[-1])
    assert compare_histories(golden) > 10
    last = read_last_snapshot(golden.lake)
    assert failed(golden, SnapshotRange(0, last.snapshot_id)) == {}
    assert compare_sides(golden.lake) > 10


def compare_sides(lake: LakeSession) -> int:
    """Compare the rows that `verify` takes with those that are there; count the kept ones."""
    versions, view, kept = read_last_snapshot(lake).versions, as_of(lake), 0
    for table in view.tables():
        if table.id not in versions or table.is_stopped:
            continue
        stored = StoredRows(LakeReader(lake.location), f"current/{table.id}", versions[table.id])
        there = len(list(view.lines(table)))
        assert SmallLake(stored, table.schema).measure(None).rows == there
        rows, count = read_there(lake, table, versions[table.id], -1)
        assert rows.count() == there
        assert count in (there, -1)
        times = [ts for block in stored.read([DELETED_TS]) for ts in block[DELETED_TS].to_pylist()]
        assert times.count(None) == there
        kept += len(times) - there
    return kept
