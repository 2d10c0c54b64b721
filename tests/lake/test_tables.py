"""The lake's own tables are as their contracts say, wherever the lake lies."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ticdc_assets.lake.store import contracts as tables
from ticdc_assets.lake.store.contracts import Lake

pytestmark = pytest.mark.any_spark


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'the owner\'s "lake" 表')


@pytest.mark.parametrize("of_records", [True, False])
def test_tables_are_made_once_and_as_stated(
    spark: SparkSession, root: str, of_records: bool
) -> None:
    lake = Lake(root, "shop/eu")
    tables.create(spark, lake, of_records=of_records)
    tables.create(spark, lake, of_records=of_records)

    folder = Path(lake.path("raw")).parent
    raw = tables.RAW_RECORDS if of_records else tables.RAW_FILES
    contracts = {"raw": raw, **tables.CONTRACTS}
    assert folder.parent == Path(root)
    assert {path.name for path in folder.iterdir()} == set(contracts)
    for name, columns in contracts.items():
        stated = spark.createDataFrame([], columns).schema
        assert lake.read(spark, name).schema == stated, name
        (version,) = (folder / name / "_delta_log").glob("*.json")
        actions = [json.loads(line) for line in version.read_text().splitlines()]
        properties = next(a["metaData"] for a in actions if "metaData" in a)["configuration"]
        indexed = properties.get("delta.dataSkippingStatsColumns")
        assert indexed == (",".join(tables.STATISTICS.get(name, ())) or None), name
        domains = {d["domainMetadata"]["domain"]: d for d in actions if "domainMetadata" in d}
        clustering = domains.get("delta.clustering")
        layout = [[column] for column in tables.LAYOUT.get(name, ())]
        stated_layout = clustering and json.loads(clustering["domainMetadata"]["configuration"])
        assert (stated_layout["clusteringColumns"] if stated_layout else []) == layout, name


def test_changefeeds_share_no_folder() -> None:
    names = ["shop", "shop/eu", "shop_eu", "shop.eu", "..", "表"]
    assert len({Lake("/lake", name).path("raw") for name in names}) == len(names)
    assert all(Lake("/lake", name).path("raw").count("/") == 3 for name in names)
