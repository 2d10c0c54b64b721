"""The rows of a load on their way to Spark: batches of `dumpling.rows`, with their source.

Values as far as `typed_arrays` reads them are in `v0`, `v1`, …; everything else is in `untyped`,
with the texts that are left.  Where nothing is left, `untyped` is NULL, which costs Spark nothing.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.dumpling.rows import OWN_FIELDS, list_stored, make_batch_schema
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.load.typed_arrays import type_texts
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.schema.types.mysql_type import map_to_delta_type

# The number of a row's source among those of the portion.
SOURCE = "source"
UNTYPED = "untyped"
_OWN_FIELDS = "offset: bigint, problem: string, raw: binary, escaped: boolean"


def format_columns(schema: TableSchema) -> str:
    """Format the columns of the batches as Spark DDL text."""
    types = [map_to_delta_type(column.type) for column in list_stored(schema)]
    texts = (f"c{place}: string" for place in range(len(types)))
    values = (f"v{place} {type}" for place, type in enumerate(types))
    untyped = f"{UNTYPED} struct<{', '.join([_OWN_FIELDS, *texts])}>"
    return ", ".join([f"{SOURCE} int", untyped, *values])


def add_typed(
    rows: pa.RecordBatch, number: int, schema: TableSchema, *, typed: bool
) -> pa.RecordBatch:
    """Return a batch with its source's number and, if `typed`, the typed values."""
    count, columns = rows.num_rows, list_stored(schema)
    own, texts = rows.columns[: len(OWN_FIELDS)], rows.columns[len(OWN_FIELDS) :]
    # Escaped texts are for Spark to read.
    typed = typed and not pc.any(rows.column("escaped"), min_count=0).as_py()
    values, left = [], []
    for column, found in zip(columns, texts, strict=True):
        value = type_texts(found, column.type) if typed else None
        values.append(pa.nulls(count, get_arrow_type(column.type)) if value is None else value)
        left.append(found if value is None else None)
    fields = list(make_batch_schema(len(columns)))
    if typed and all(text is None for text in left) and rows.column("problem").null_count == count:
        untyped = pa.nulls(count, pa.struct(fields))
    else:
        kept = [pa.nulls(count, pa.string()) if text is None else text for text in left]
        untyped = pa.StructArray.from_arrays([*own, *kept], fields=fields)
    source = pa.repeat(pa.scalar(number, pa.int32()), count)
    names = [SOURCE, UNTYPED, *(f"v{place}" for place in range(len(values)))]
    return pa.RecordBatch.from_arrays([source, untyped, *values], names=names)
