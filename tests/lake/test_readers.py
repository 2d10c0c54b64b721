"""Readers without Spark open current tables, and see the rows that Spark sees.

`test_golden_lake` compares those with TiDB's.
"""

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from tests.lake.readers import READERS, list_lines
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.log.applied import read_last_snapshot

# With DDL of every kind.
DATASET = "lifecycle/canal-json-ext"


@pytest.mark.slow
def test_other_readers_see_the_rows_of_current_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    golden = GoldenLake(spark, tmp_path, DATASET)
    point = list_truth_points(DATASET)[-1]
    for cut in cuts(DATASET, [point], Random(crc32(DATASET.encode())), 2):
        golden.advance(cut)
    versions = read_last_snapshot(golden.lake).versions
    for incarnation, version in versions.items():
        table = CurrentTable(golden.lake, incarnation)
        expected = table.rows(version).toArrow()
        for name, read in READERS.items():
            found = list_lines(read(table.path, version), expected.schema)
            assert found == list_lines(expected, expected.schema), (name, incarnation)
    assert len(versions) > 10
