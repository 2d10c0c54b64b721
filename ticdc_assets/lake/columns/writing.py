"""Write Delta columns back as the texts of row images, by native Spark expressions.

ENUM and SET are written as names; every text reads back as the same value.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.lake.columns.types import list_delta_columns, list_stored_columns
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.schema.types.mysql_type import Kind, describe


def write_texts(schema: TableSchema) -> list[Column]:
    """Write the columns of a current table as texts, under their upstream names."""
    return [
        _WRITERS.get(describe(column.type).kind, _write_plain)(
            F.col(quote_identifier(delta.name)), column.type
        ).alias(column.name)
        for delta, column in zip(
            list_delta_columns(schema), list_stored_columns(schema), strict=True
        )
    ]


def write_images(schema: TableSchema) -> Column:
    """Write each row of a current table as the text of a row image, with all of its columns."""
    return F.to_json(F.struct(*write_texts(schema)), {"ignoreNullFields": "false"})


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
