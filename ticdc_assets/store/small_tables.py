"""Delta tables as data frames, and back in time: this process handles those that it can.

Before Spark reads a Delta table, it computes the table's state from its log: several jobs, and a
second of processor time, however few rows there are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader, read_data_files
from ticdc_assets.store.writer import is_writable

# This process reads fewer rows of data files itself.
_MANY_ROWS, _MANY_BYTES = 20_000, 8 << 20
# What a partition of the job reads.
_ROWS_PER_PARTITION = 500_000
_ROWS_PER_BATCH = 1 << 16


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


# Parameters: the files of a table, and their columns in Arrow and in Spark.
def open_files(
    lake: LakeSession,
    table: str,
    files: Sequence[WrittenFile],
    columns: pa.Schema,
    types: Sequence[str],
) -> DataFrame:
    """Open the rows of data files that no commit names yet as a frame."""
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
