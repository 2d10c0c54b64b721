"""Golden datasets through the lake, cut anywhere: at every truth point it is what TiDB had."""

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.golden import datasets
from tests.lake.golden_runs import (
    GoldenLake,
    compare,
    compare_history,
    cuts,
    points_of,
    unexpected_problems,
)
from tests.reference.test_golden_replay import UNUSABLE, allowed

# Those that differ most; the others, and every truth point, with `-m all_golden`.
USUAL = [
    "lifecycle/simple-json-restart",
    "types/simple-avro",
    "types/storage-csv-full",
    "types/storage-csv-default",
    "lifecycle/open-protocol-force-replicate",
]


@pytest.mark.parametrize("dataset", USUAL)
def test_the_lake_is_what_tidb_had(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    random = Random(crc32(dataset.encode()))
    points = points_of(dataset)
    golden = GoldenLake(spark, tmp_path, dataset)
    # One truth point is the end of a window; the other window ends anywhere.
    for cut in cuts(dataset, random.sample(points[:-1], min(1, len(points) - 1)), random, 1):
        ts = golden.advance(cut).applied.resolved_ts
        if ts in points:
            compare(golden, ts)
    assert ts == points[-1]
    assert unexpected_problems(golden) == []
    compare_history(golden)
    applied = {run.applied.resolved_ts for run in golden.runs}
    between = [ts for ts in points if ts not in applied]
    if between:
        compare(golden, random.choice(between), random)


@pytest.mark.all_golden
@pytest.mark.parametrize("dataset", [d for d in datasets() if UNUSABLE not in allowed(d)])
def test_the_lake_is_what_tidb_had_at_every_truth_point(
    spark: SparkSession, tmp_path: Path, dataset: str
) -> None:
    random = Random(crc32(dataset.encode()))
    points = points_of(dataset)
    golden = GoldenLake(spark, tmp_path, dataset)
    resolved = [ts for ts in points[:-1] if random.random() < 0.7]
    for cut in cuts(dataset, resolved, random, 1):
        ts = golden.advance(cut).applied.resolved_ts
        if ts in points:
            compare(golden, ts)
    assert unexpected_problems(golden) == []
    compare_history(golden)
    for ts in points:
        # Those that were compared when they were applied, once more: they stay as they are.
        compare(golden, ts)


@pytest.mark.any_spark
def test_the_first_of_a_dataset_on_any_spark(spark: SparkSession, tmp_path: Path) -> None:
    dataset = "lifecycle/canal-json-ext"
    random = Random(crc32(dataset.encode()))
    before, point, *_ = points_of(dataset)
    golden = GoldenLake(spark, tmp_path, dataset)
    for cut in cuts(dataset, [before, point], random)[:2]:
        compare(golden, golden.advance(cut).applied.resolved_ts)
    assert [run.applied.resolved_ts for run in golden.runs] == [before, point]
    compare(golden, before)
    assert unexpected_problems(golden) == []
