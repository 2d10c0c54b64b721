"""Readers without Spark open the current tables of a golden lake, whatever DDL went over them.

`advance_in_windows` opens those of other golden lakes.
"""

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.lake.golden_readers import compare_readers
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from ticdc_assets.lake.apply import table_features

# With DDL of every kind.
DATASET = "lifecycle/canal-json-ext"


@pytest.mark.slow
def test_every_reader_opens_small_tables_after_ddl_of_every_kind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    golden = GoldenLake(spark, tmp_path, DATASET)
    point = list_truth_points(DATASET)[-1]
    for cut in cuts(DATASET, [point], Random(crc32(DATASET.encode())), 2):
        golden.advance(cut)
    assert compare_readers(golden.lake, one_of=1) == []
