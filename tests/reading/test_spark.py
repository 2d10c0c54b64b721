"""A frame of the caller's session has the rows that the other libraries get."""

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.lake.conftest import spark
from tests.lake.readers import list_lines
from tests.reading.conftest import Shop
from ticdc_assets.reading import PinnedTable, open_lake

__all__ = ["spark"]


def list_tables(shop: Shop) -> list[PinnedTable]:
    """List one at a Delta version, one that is computed, and one that never had rows."""
    lake = open_lake(shop.root, shop.feed)
    first, second, *_ = lake.snapshots()
    between, empty = lake.at((first + second) // 2), lake.at(first)
    names = [table.name for table in empty.tables() if not table.arrow().num_rows]
    return [lake.table("shop.orders"), between.table("shop.orders"), empty.table(names[0])]


def test_spark_reads_the_rows_with_the_same_columns(spark: SparkSession, shop: Shop) -> None:
    stored, computed, empty = list_tables(shop)
    assert stored.version is not None
    assert computed.version is None
    assert empty.arrow().num_rows == 0
    for table in (stored, computed, empty):
        rows = table.arrow()
        frame = table.spark(spark)
        assert frame.columns == rows.column_names
        assert list_lines(pa.table(frame.toArrow()), rows.schema) == list_lines(rows, rows.schema)
    plan = stored.spark(spark).where("id = 1")._jdf.queryExecution().toString()
    assert "PushedFilters: [EqualTo(id,1)]" in plan
