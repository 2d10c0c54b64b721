"""Loading an export: rows come into the lake as they were, and what is no row is quarantined."""

import json
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from resources.export import open_export
from tests.dumpling.exporter import Exporter
from tests.dumpling.test_round_trip import DIALECTS, golden_tables
from tests.lake.canal import FEED
from tests.truth import Row, truth
from ticdc_assets.lake.columns.stored_values import format_blocks
from ticdc_assets.lake.load.load_export import load_export
from ticdc_assets.lake.log.loads import read_loads
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.plan.load import Load

# All types, names that need quotes, and a table without a key.
GOLDEN = ("t_bin", "t_dec", "t_enum", "t_float", "t_int", "t_json", "t_nopk", "t_str", "t_time")
GOLDEN += ("t_vec", "t_gen", "t_cs", "t_pk_enum", "Order", "表 with 空格", "t 1")


def open_lake(spark: SparkSession, root: Path) -> LakeSession:
    return LakeSession(spark, Lake(str(root / "lake"), FEED.id), FEED)


def read_rows(lake: LakeSession, load: Load) -> list[Row]:
    stored = StoredRows(LakeReader(lake.location), f"current/{load.incarnation}", load.version)
    lines = chain.from_iterable(format_blocks(stored.read(), load.schema))
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["sql", "parquet"])
def test_golden_tables_come_into_the_lake(spark: SparkSession, tmp_path: Path, name: str) -> None:
    options = DIALECTS[name]
    # Parquet has no zero dates.
    chosen = [n for n in GOLDEN if name == "sql" or n in ("t_int", "t_dec", "t_bin", "t_gen")]
    tables = {schema: rows for schema, rows in golden_tables() if schema.table in chosen}
    Exporter(tmp_path / "export", options).write(tables)
    lake = open_lake(spark, tmp_path)

    results = load_export(lake, open_export(str(tmp_path / "export")), options.dialect)

    assert [r for r in results if r.outcome != "loaded" or r.quarantined] == []
    points = truth("types")
    loads = {
        (load.schema.database, load.schema.table): load
        for load in read_loads(LakeReader(lake.location))
    }
    assert {table for _, table in loads} == set(chosen)
    for table, load in loads.items():
        true = points[max(points)][table]
        assert true.strict(read_rows(lake, load)) == true.strict_rows(), table
        assert load.rows == len(true.rows)
