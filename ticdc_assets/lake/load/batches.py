"""The rows of a load on their way to Spark: batches of `dumpling.rows`, with their source.

Values as far as `typed_arrays` reads them are in `v0`, `v1`, …, in place of the texts.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.dumpling.rows import OWN_FIELDS, list_stored
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.load.typed_arrays import get_arrow_type, type_texts
from ticdc_assets.schema.types.mysql_type import map_to_delta_type

# The number of a row's source among those of the portion.
SOURCE = "source"
_OWN_COLUMNS = "offset bigint, problem string, raw binary, escaped boolean"


def format_columns(schema: TableSchema) -> str:
    """Format the columns of the batches as Spark DDL text."""
    types = [map_to_delta_type(column.type) for column in list_stored(schema)]
    texts = (f"c{place} string" for place in range(len(types)))
    values = (f"v{place} {type}" for place, type in enumerate(types))
    return ", ".join([f"{SOURCE} int", _OWN_COLUMNS, *texts, *values])


def add_typed(
    rows: pa.RecordBatch, number: int, schema: TableSchema, *, typed: bool
) -> pa.RecordBatch:
    """Return a batch with its source's number and, if `typed`, the typed values."""
    count, own = rows.num_rows, len(OWN_FIELDS)
    # Escaped texts are for Spark to read.
    typed = typed and not pc.any(rows.column("escaped"), min_count=0).as_py()
    texts, values = [], []
    for column, found in zip(list_stored(schema), rows.columns[own:], strict=True):
        value = type_texts(found, column.type) if typed else None
        texts.append(found if value is None else pa.nulls(count, pa.string()))
        values.append(pa.nulls(count, get_arrow_type(column.type)) if value is None else value)
    source = pa.repeat(pa.scalar(number, pa.int32()), count)
    names = [SOURCE, *rows.schema.names, *(f"v{place}" for place in range(len(values)))]
    return pa.RecordBatch.from_arrays([source, *rows.columns[:own], *texts, *values], names=names)
