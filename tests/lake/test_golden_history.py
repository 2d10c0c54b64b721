"""Histories of golden datasets: the versions open at a truth point are the rows that TiDB had."""

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.golden import datasets, released_datasets
from tests.lake.golden_histories import compare_histories, keep_histories
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from tests.reference.golden_feeds import UNUSABLE, allowed


@pytest.mark.all_golden
@pytest.mark.parametrize(
    "dataset", [d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)]
)
def test_every_history_is_what_tidb_had(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    random, golden = Random(crc32(dataset.encode())), GoldenLake(spark, tmp_path, dataset)
    if not golden.is_dated:
        return
    keep_histories(golden, "*.*")
    *earlier, _ = list_truth_points(dataset)
    for cut in cuts(dataset, random.sample(earlier, min(2, len(earlier))), random):
        golden.advance(cut)
    assert compare_histories(golden)
