"""No check fails on recorded TiCDC output, in windows and as a whole.

One warns: TiDB itself marked rows of one changefeed as corrupted.
"""

import json
from pathlib import Path
from random import Random
from zlib import crc32

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from tests.golden import records
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from ticdc_assets.checks import SnapshotRange, evaluate_checks
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.event_rows import make_table_name

WARNING = "rows_are_not_marked_corrupted"


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
        assert failed(golden, SnapshotRange(seq, through)).keys() <= {WARNING}
        seq = through
    marked = count_marked(dataset)
    whole = failed(golden, SnapshotRange(0, seq))
    assert whole == ({WARNING: marked} if marked else {})


def count_marked(dataset: str) -> int:
    """Count the rows that the server marked as corrupted, in its messages themselves."""
    if not dataset.startswith("types/simple-json"):
        return 0
    messages = (json.loads(message.value or b"{}") for message in records(dataset))
    return sum((message.get("checksum") or {}).get("corrupted", False) for message in messages)


def failed(golden: GoldenLake, window: SnapshotRange) -> dict[str, int]:
    """Return the checks that failed, with the number of rows that violate them."""
    keys: dict[str, dg.AssetKey] = {}
    state = read_last_snapshot(golden.lake).state
    for number, (_, incarnation) in enumerate(state.names):
        schema = state.incarnations[incarnation].schema
        name = make_table_name(schema.database, schema.table) or ""
        keys[name] = dg.AssetKey(["golden", "current", str(number)])
    results = list(evaluate_checks(golden.lake, window, keys))
    assert len(results) > len(keys)
    return {
        str(one.check_name): int(str(one.metadata["ticdc/violations"].value))
        for one in results
        if not one.passed
    }
