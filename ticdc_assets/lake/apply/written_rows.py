"""The rows of data files that tasks wrote and no commit names yet, for Spark to commit.

A table with features that delta-rs does not write gets these rows from Spark.
"""

import pyarrow as pa
from pyspark.sql import DataFrame

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.exact_texts import MAP
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.rows.columns import (
    INEXACT,
    list_delta_columns,
    list_own_columns,
    make_row_schema,
)
from ticdc_assets.rows.merging import PUT
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.small_tables import open_files


def open_written(
    lake: LakeSession, done: TableDone, schema: TableSchema, *, with_map: bool
) -> DataFrame:
    """Open the rows that tasks wrote for a table as a frame."""
    columns = make_row_schema(schema, done.layout)
    listed = (*list_delta_columns(schema, done.layout), *list_own_columns(done.layout))
    types = [*(c.type for c in listed), MAP]
    if not with_map:
        columns, types = columns.remove(columns.get_field_index(INEXACT)), types[:-1]
    if done.way == "merge":
        columns, types = columns.append(pa.field(PUT, pa.bool_())), [*types, "boolean"]
    return open_files(lake, f"current/{done.id}", done.files, columns, types)
