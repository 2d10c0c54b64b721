"""The rows of data files that tasks wrote and no commit names yet, for Spark to commit.

A table with features that delta-rs does not write gets these rows from Spark.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.exact_texts import MAP
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.lake.store.data_files import WrittenFile
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader, read_data_files
from ticdc_assets.rows.columns import INEXACT, list_delta_columns, make_row_schema
from ticdc_assets.rows.merging import PUT

# This process reads fewer rows itself.
_MANY_ROWS, _MANY_BYTES = 20_000, 8 << 20
# What a partition of the job reads.
_ROWS_PER_PARTITION = 500_000
_ROWS_PER_BATCH = 1 << 16


def open_written(
    lake: LakeSession, done: TableDone, schema: TableSchema, *, with_map: bool
) -> DataFrame:
    """Open the rows that tasks wrote for a table as a frame."""
    columns = make_row_schema(schema)
    types = [*(c.type for c in list_delta_columns(schema)), "bigint", MAP]
    if not with_map:
        columns, types = columns.remove(columns.get_field_index(INEXACT)), types[:-1]
    if done.way == "merge":
        columns, types = columns.append(pa.field(PUT, pa.bool_())), [*types, "boolean"]
    return open_files(lake, f"current/{done.id}", done.files, columns, types)


# Parameters: the files of a table, and their columns in Arrow and in Spark.
def open_files(
    lake: LakeSession,
    table: str,
    files: Sequence[WrittenFile],
    columns: pa.Schema,
    types: Sequence[str],
) -> DataFrame:
    """Open the rows of data files as a frame."""
    # Spark gets places for names: no name of a table's column goes through a text of types.
    placed = ", ".join(f"c{place} {type}" for place, type in enumerate(types))
    paths = [file.path for file in files]
    rows = sum(file.rows for file in files)
    read = partial(_read, lake.location, table, columns)
    if rows < _MANY_ROWS and sum(file.size for file in files) < _MANY_BYTES:
        frame = lake.make_frame(read(paths), placed)
    else:
        count = min(len(paths), -(-rows // _ROWS_PER_PARTITION))
        bundles = [paths[number::count] for number in range(count)]
        numbers = lake.spark.range(0, count, 1, count)
        frame = numbers.mapInArrow(partial(_read_bundles, read, bundles), placed)
    return frame.select(
        *(F.col(f"c{place}").alias(name) for place, name in enumerate(columns.names))
    )


def _read(location: Lake, table: str, columns: pa.Schema, paths: Sequence[str]) -> pa.Table:
    reader = LakeReader(location)
    folder = reader.open_folder(table)
    with reader.explained(location.path(table)):
        rows = read_data_files(folder, paths, columns, columns.names)
    return rows.rename_columns([f"c{place}" for place in range(rows.num_columns)])


def _read_bundles(
    read: partial[pa.Table], bundles: Sequence[Sequence[str]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the files of the bundles of which Spark sends the numbers to this process."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for path in bundles[number]:
                yield from read([path]).to_batches(_ROWS_PER_BATCH)
