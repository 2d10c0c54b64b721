"""Write Delta columns back as the texts of row images, by native Spark expressions.

ENUM and SET are written as names; every text reads back as the same value.  Rows have their entries
(`inexact`), whose texts take the place of what the columns hold.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.lake.columns.escaped_text import escape_name, escape_text, unescape_image
from ticdc_assets.lake.columns.inexact import (
    GetColumn,
    can_be_inexact,
    get_column,
    get_exact_text,
)
from ticdc_assets.rows.columns import INEXACT, list_delta_columns, list_stored_columns
from ticdc_assets.schema.types.mysql_type import Kind, describe


def write_images(schema: TableSchema, get: GetColumn = get_column) -> Column:
    """Write each row of a current table as the text of a row image, with all of its columns."""
    deltas, columns = list_delta_columns(schema), list_stored_columns(schema)
    texts, exact_texts = [], []
    entries = get(INEXACT)
    for delta, column in zip(deltas, columns, strict=True):
        value = get(delta.name)
        text = write_text(value, column.type)
        texts.append(text.alias(column.name))
        if can_be_inexact(delta):
            text = F.coalesce(get_exact_text(delta.name, entries), escape_text(text))
        exact_texts.append(text.alias(escape_name(column.name)))
    if not any(map(can_be_inexact, deltas)):
        return _write_json(texts)
    exact = unescape_image(_write_json(exact_texts))
    return F.when(entries.isNull(), _write_json(texts)).otherwise(exact)


def write_text(value: Column, type: ColumnType) -> Column:
    """Write the values of one Delta column, which are exact, as the texts of row images."""
    return _WRITERS.get(describe(type).kind, _write_plain)(value, type)


def _write_json(texts: list[Column]) -> Column:
    return F.to_json(F.struct(*texts), {"ignoreNullFields": "false"})


def _write_plain(value: Column, type: ColumnType) -> Column:
    return value.cast("string")


def _write_float(value: Column, type: ColumnType) -> Column:
    # With all digits of a DOUBLE, so that reading a FLOAT back never rounds twice.
    return value.cast("double").cast("string")


def _write_binary(value: Column, type: ColumnType) -> Column:
    # Spark's base64 breaks lines.
    return F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))


def _write_datetime(value: Column, type: ColumnType) -> Column:
    if type.name == "timestamp":
        # Independent of the session's time zone.
        micros = F.unix_micros(value).cast("decimal(20,0)")
        seconds = (micros / F.lit(1_000_000)).cast("decimal(18,6)")
        value = F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)
    text = value.cast("string")
    if not type.decimals:
        return text
    # The cast drops trailing zeros, and the point if no digit follows it.
    whole = len("2024-01-01 10:00:00")
    length = whole + 1 + type.decimals
    with_point = F.when(F.length(text) == whole, F.concat(text, F.lit("."))).otherwise(text)
    return F.when(F.length(text) < length, F.rpad(with_point, length, "0")).otherwise(text)


def _write_vector(value: Column, type: ColumnType) -> Column:
    numbers = F.transform(
        value, lambda number: F.regexp_replace(_write_float(number, type), r"\.0\z", "")
    )
    return F.concat(F.lit("["), F.array_join(numbers, ","), F.lit("]"))


_WRITERS: dict[Kind, Callable[[Column, ColumnType], Column]] = {
    "float": _write_float,
    "binary": _write_binary,
    "datetime": _write_datetime,
    "vector": _write_vector,
}
