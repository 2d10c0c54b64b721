"""Readers without Spark open current tables, and see the rows that Spark sees.

`test_golden_lake` compares those with TiDB's.
"""

from pathlib import Path
from random import Random
from zlib import crc32

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.log.applied import read_last_snapshot

# With DDL of every kind.
DATASET = "lifecycle/canal-json-ext"


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_delta_rs_opens_current_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", -1 if large else 1 << 20)
    golden = GoldenLake(spark, tmp_path, DATASET)
    point = list_truth_points(DATASET)[-1]
    for cut in cuts(DATASET, [point], Random(crc32(DATASET.encode())), 2):
        golden.advance(cut)
    unread = set()
    versions = read_last_snapshot(golden.lake).versions
    for incarnation, version in versions.items():
        table = CurrentTable(golden.lake, incarnation)
        try:
            found = DeltaTable(table.path, version=version).to_pyarrow_table()
        except DeltaError:
            unread |= set(DeltaTable(table.path).protocol().reader_features or ())
            continue
        assert rows_of(found) == rows_of(table.rows(version).toArrow()), incarnation
    assert len(versions) > 10
    # Small tables are all opened; of large ones those are not that a MODIFY COLUMN has widened.
    assert ("typeWidening" in unread) if large else not unread


def rows_of(table: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in table.to_pylist())
