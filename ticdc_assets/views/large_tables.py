"""Tables that are too large for one process: Spark's workers read them, part by part."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.exact_texts import MAP
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import (
    DELETED_TS,
    INEXACT,
    list_delta_columns,
    list_own_columns,
)
from ticdc_assets.rows.lines import format_blocks, list_key_columns
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.table_rows import Rows, write_table
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.small_tables import open_frame
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.views.table_rows import TableRows

_LINE = "line"
# What a worker sends at once.
_ROWS_PER_BATCH = 16_384


def make_frame(lake: LakeSession, rows: Rows | None, table: Incarnation) -> DataFrame:
    """Make a frame of rows of a table that this process holds."""
    types = _write_types(table)
    if not rows:
        # Spark Connect makes no frame of Arrow without rows.
        return lake.spark.createDataFrame([], types)
    return lake.make_frame(write_table(rows, table.schema, table.shown_layout), types)


def read_version(lake: LakeSession, table: Incarnation, version: int) -> DataFrame:
    """Read the rows of a version of a current table."""
    stored = open_frame(lake, f"current/{table.id}", version)
    known = set(stored.columns)
    columns = (
        (F.col(quote_identifier(name)) if name in known else F.lit(None)).cast(type).alias(name)
        for name, type in _list_types(table.schema, table.shown_layout)
    )
    return stored.select(*columns)


def read_there(
    lake: LakeSession, table: Incarnation, version: int, count: int
) -> tuple[DataFrame, int]:
    """Read the rows of a version that are there upstream, and count them; `count` is of all."""
    rows = read_version(lake, table, version)
    if not table.layout.archived:
        return rows, count
    there = leave_out_kept(rows)
    return there, there.count()


def leave_out_kept(rows: DataFrame) -> DataFrame:
    """Leave out the rows of an archived table that were deleted."""
    return rows.where(F.col(DELETED_TS).isNull())


def compute_rows(lake: LakeSession, tables: TableRows, table: Incarnation, parts: int) -> DataFrame:
    """Have Spark's workers read a table in parts."""
    numbers = lake.spark.range(0, parts, 1, parts)
    return numbers.mapInArrow(_Reader(tables, table, parts), _write_types(table))


def _list_types(schema: TableSchema, layout: Layout = PLAIN) -> list[tuple[str, str]]:
    columns = (*list_delta_columns(schema), *list_own_columns(layout))
    return [*((column.name, column.type) for column in columns), (INEXACT, MAP)]


def _write_types(table: Incarnation) -> str:
    types = _list_types(table.schema, table.shown_layout)
    return ", ".join(f"{quote_identifier(name)} {type}" for name, type in types)


@dataclass(frozen=True)
class _Reader:
    """Reads the parts of a table of which Spark sends the numbers to its process."""

    tables: TableRows
    table: Incarnation
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        id, schema = self.table.id, self.table.schema
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = Part(number, self.parts) if self.parts > 1 else None
                rows = self.tables.read({id: schema}, part).get(id)
                if rows is not None:
                    table = write_table(rows, schema, self.table.shown_layout)
                    yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)


# --- printed lines -----------------------------------------------------------


def format_lines(rows: DataFrame, schema: TableSchema, *, by_key: bool) -> Iterator[bytes]:
    """Format rows in Spark's workers as `rows.lines` does, in byte order or that of the key."""
    types = dict(_list_types(schema))
    names = {column.column: column.name for column in list_delta_columns(schema)}
    keys = [names[column.name] for column in list_key_columns(schema)] if by_key else []
    ordering = [f"key_{number}" for number in range(len(keys))]
    fields = [f"{name} {types[key]}" for name, key in zip(ordering, keys, strict=True)]
    format = partial(_format_batches, schema, rows.columns, keys)
    # Spark would take a dot in a name for the way to a field.
    placed = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
    lines = placed.mapInArrow(format, ", ".join([*fields, f"{_LINE} binary"]))
    # A global sort would do all the work twice: Spark samples its input first.
    found = lines.repartition(1).sortWithinPartitions(*ordering, _LINE).select(_LINE)
    for row in found.toLocalIterator():
        yield bytes(row[0])


def _format_batches(
    schema: TableSchema, names: list[str], keys: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    ordering = [f"key_{number}" for number in range(len(keys))]
    for batch in batches:
        block = dict(zip(names, batch.columns, strict=True))
        (lines,) = format_blocks([block], schema)
        columns = [*(block[key] for key in keys), pa.array(lines, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, [*ordering, _LINE])
