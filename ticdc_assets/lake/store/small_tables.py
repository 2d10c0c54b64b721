"""Delta tables as data frames, and back in time: this process handles those that it can.

Before Spark reads a Delta table, it computes the table's state from its log: several jobs, and a
second of processor time, however few rows there are.
"""

import json
from collections.abc import Mapping

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.writer import LakeWriter, is_writable


def read_table(lake: LakeSession, table: str, version: int | None = None) -> DataFrame:
    """Read a table of the lake at a Delta version, by default the newest."""
    reader = LakeReader(lake.location)
    opened = reader.open(table, version)
    if can_hold(reader, opened):
        schema = read_schema(opened)
        rows = reader.read(opened, schema.names)
        # Spark Connect makes no frame without rows.
        if rows.num_rows:
            return lake.make_frame(rows, schema)
    return open_frame(lake, table, opened.version())


def restore_version(lake: LakeSession, table: str, version: int) -> None:
    """Take a table of the lake back to a Delta version."""
    reader = LakeReader(lake.location)
    newest, wanted = (reader.open(table, each) for each in (None, version))
    if is_writable(newest) and newest.protocol() == wanted.protocol():
        LakeWriter(lake.location).restore(newest, version)
    else:
        # Spark keeps the features that the table has got since.
        sql = f"RESTORE TABLE {lake.sql(table)} TO VERSION AS OF {version}"
        lake.spark.sql(sql).collect()


def can_hold(
    reader: LakeReader, opened: DeltaTable, above: Mapping[str, int] | None = None
) -> bool:
    """Return whether this process can read a table and hold its rows, or those above a value."""
    # The features that delta-rs writes are those that it reads, too.
    return is_writable(opened) and reader.is_small(opened, above)


def open_frame(lake: LakeSession, table: str, version: int) -> DataFrame:
    """Open a table of the lake at a Delta version in Spark."""
    stored = lake.spark.read.format("delta").option("versionAsOf", version)
    return stored.load(lake.path(table))


def read_schema(table: DeltaTable) -> StructType:
    """Return the columns of an open Delta table as Spark knows them."""
    return StructType.fromJson(json.loads(table.schema().to_json()))
