"""Read rows of current tables from their Arrow columns, and print them as Spark does.

`writing` and `conversion.format_rows` state the same rules as Spark expressions; tests compare the
two on every type.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.rows.table_rows import read_columns
from ticdc_assets.schema.types.row import RowWriter
from ticdc_assets.schema.types.value import Value


def format_blocks(
    blocks: Iterator[Mapping[str, pa.Array]], schema: TableSchema
) -> Iterator[list[bytes]]:
    """Format blocks of rows as JSON lines, in the order given."""
    write = RowWriter(schema)
    for rows in read_blocks(blocks, schema):
        yield [dump(write(row)).encode() + b"\n" for row in rows]


def read_blocks(
    blocks: Iterator[Mapping[str, pa.Array]], schema: TableSchema
) -> Iterator[list[dict[str, Value]]]:
    """Read blocks of rows as typed rows, in the order given."""
    types = {column.name: column.type for column in list_stored_columns(schema)}
    for block in blocks:
        columns = read_columns(block, schema)
        values = [read_stored(stored, types[name]) for name, stored in columns.items()]
        yield [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
