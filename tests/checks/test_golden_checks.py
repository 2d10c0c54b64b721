"""No check fails on recorded TiCDC output, in windows and as a whole."""

from pathlib import Path
from random import Random
from zlib import crc32

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from ticdc_assets.checks import SnapshotRange, evaluate_checks
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.log.applied import read_last_snapshot


@pytest.mark.all_golden
@pytest.mark.parametrize(
    "dataset", ["lifecycle/simple-json", "lifecycle/storage-csv-full", "types/simple-json-checksum"]
)
def test_no_check_fails_on_real_output(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    random = Random(crc32(dataset.encode()))
    golden = GoldenLake(spark, tmp_path, dataset)
    seq = 0
    for cut in cuts(dataset, random.sample(list_truth_points(dataset)[:-1], 1), random):
        golden.advance(cut)
        through = read_last_snapshot(golden.lake).snapshot_id
        assert failed(golden, SnapshotRange(seq, through)) == []
        seq = through
    assert failed(golden, SnapshotRange(0, seq)) == []


def failed(golden: GoldenLake, window: SnapshotRange) -> list[tuple[str, str | None]]:
    keys: dict[str, dg.AssetKey] = {}
    state = read_last_snapshot(golden.lake).state
    for number, (_, incarnation) in enumerate(state.names):
        schema = state.incarnations[incarnation].schema
        name = make_table_name(schema.database, schema.table) or ""
        keys[name] = dg.AssetKey(["golden", "current", str(number)])
    results = list(evaluate_checks(golden.lake, window, keys))
    assert len(results) > len(keys)
    return [(str(one.check_name), one.description) for one in results if not one.passed]
