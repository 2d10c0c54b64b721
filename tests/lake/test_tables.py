"""The lake's own tables match their contracts, wherever the lake is."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.store import contracts
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.tables import create_tables


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'the owner\'s "lake" 表')


# The other case differs in one table.
@pytest.mark.parametrize("of_records", [pytest.param(True, marks=pytest.mark.any_spark), False])
def test_tables_are_created_once_by_their_contracts(
    spark: SparkSession, root: str, of_records: bool
) -> None:
    uri = "kafka://h:9092/t?protocol=simple" if of_records else "file:///d?protocol=csv"
    feed = changefeed_from_uri(uri, id="shop")
    lake = LakeSession(spark, Lake(root, "shop/eu"), feed)
    create_tables(lake)
    create_tables(lake)

    folder = Path(lake.path("raw")).parent
    raw = contracts.RAW_RECORDS if of_records else contracts.RAW_FILES
    stated_tables = {"raw": raw, **contracts.CONTRACTS}
    assert folder.parent == Path(root)
    assert {path.name for path in folder.iterdir()} == set(stated_tables)
    for name, columns in stated_tables.items():
        stated = spark.createDataFrame([], columns).schema
        # Spark Connect takes no table without rows.
        nulls = pa.Table.from_pylist([{}], arrow_schema(columns))
        assert spark.createDataFrame(nulls).schema == stated, name
        assert lake.read(name).schema == stated, name
        (version,) = (folder / name / "_delta_log").glob("*.json")
        actions = [json.loads(line) for line in version.read_text().splitlines()]
        properties = next(a["metaData"] for a in actions if "metaData" in a)["configuration"]
        indexed = properties.get("delta.dataSkippingStatsColumns")
        assert indexed == (",".join(contracts.STATISTICS.get(name, ())) or None), name
        # Any reader opens it.
        protocol = next(a["protocol"] for a in actions if "protocol" in a)
        assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}, name


def test_changefeeds_share_no_folder() -> None:
    names = ["shop", "shop/eu", "shop_eu", "shop.eu", "..", "表"]
    assert len({Lake("/lake", name).path("raw") for name in names}) == len(names)
    assert all(Lake("/lake", name).path("raw").count("/") == 3 for name in names)


@pytest.mark.any_spark
def test_a_plan_may_be_deep(spark: SparkSession) -> None:
    frame = spark.range(1)
    for number in range(60):
        frame = frame.where(f"id < {number + 1}")
    assert frame.localCheckpoint().count() == 1
