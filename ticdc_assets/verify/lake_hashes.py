"""Canonical texts and hashes of the rows of a current table, by native Spark expressions.

Texts are binary columns: a text upstream may have bytes that are not UTF-8.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace
from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.events import ColumnType
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.stored import can_be_inexact
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.verify.canonical import (
    HASH_DIGITS,
    MD5_MARK,
    MOST_BYTES,
    NULL,
    ComparedColumn,
)

_WHOLE_SECONDS = r"^([^.]*)\.?(.*?)0*$"


def write_canonical(column: ComparedColumn) -> Column:
    """Write the canonical text of a column; NULL where it is NULL upstream."""
    value = get_value(column)
    if column.delta.type == "binary":
        text = value
    elif column.kind == "float":
        text = _to_bytes(_write_float(value.cast("double")))
    elif column.kind == "datetime":
        fitting = replace(column.lake_type, decimals=column.type.decimals)
        text = _to_bytes(_write_text(value, fitting))
    elif column.kind == "time":
        text = _to_bytes(_fit_fraction(_write_text(value, column.lake_type), column))
    else:
        text = _to_bytes(_write_text(value, column.lake_type))
    if not can_be_inexact(column.lake_type):
        return text
    exact = F.col(INEXACT).getItem(column.delta.name)
    if column.has_bytes:
        return F.coalesce(_unescape(exact), text)
    return F.coalesce(_to_bytes(_fit_fraction(exact, column)), text)


def get_value(column: ComparedColumn) -> Column:
    """Return what the Delta column holds."""
    return F.col(quote_identifier(column.delta.name))


def write_hash(columns: Iterable[ComparedColumn]) -> Column:
    """Write the hash of the values of columns, a BIGINT."""
    text = F.concat_ws(",", *(_write_part(column) for column in columns))
    digits = F.substring(F.md5(text.cast("binary")), 1, HASH_DIGITS)
    return F.conv(digits, 16, 10).cast("bigint")


def write_shown(column: ComparedColumn) -> Column:
    """Write the canonical text of a column, or if it is too long to be read, its MD5."""
    text = write_canonical(column)
    if not column.is_long:
        return text
    short = _to_bytes(F.concat(F.lit(MD5_MARK.decode()), F.md5(text)))
    return F.when(F.octet_length(text) <= MOST_BYTES, text).otherwise(short)


def _write_part(column: ComparedColumn) -> Column:
    text = write_canonical(column)
    part = text.cast("string")
    if column.is_long:
        part = F.md5(text)
    elif column.has_bytes:
        # Casting keeps the bytes, whatever they are.
        part = F.concat(F.octet_length(text).cast("string"), F.lit(":"), part)
    return F.coalesce(part, F.lit(NULL))


def _to_bytes(text: Column) -> Column:
    return text.cast("string").cast("binary")


def _fit_fraction(text: Column, column: ComparedColumn) -> Column:
    """Return texts of a time with as many decimals as the type upstream has, or as they need."""
    if column.kind not in ("datetime", "time"):
        return text
    whole = F.regexp_extract(text, _WHOLE_SECONDS, 1)
    digits = F.regexp_extract(text, _WHOLE_SECONDS, 2)
    places = column.type.decimals or 0
    fraction = F.when(F.length(digits) < places, F.rpad(digits, places, "0")).otherwise(digits)
    fitting = F.when(fraction == "", whole).otherwise(F.concat(whole, F.lit("."), fraction))
    return F.when(F.contains(text, F.lit(EITHER)), text).otherwise(fitting)


def _write_float(number: Column) -> Column:
    """Write sign, mantissa and exponent, as `upstream_sql` does."""
    size = F.abs(number)
    guess = F.greatest(F.least(F.floor(F.log2(size)), F.lit(1023)), F.lit(-1074)).cast("bigint")
    fraction = size / F.pow(F.lit(2.0), guess.cast("double"))
    mantissa = fraction * F.when(fraction >= 2, 0.5).when(fraction < 1, 2.0).otherwise(1.0)
    exponent = guess + F.when(fraction >= 2, 1).when(fraction < 1, -1).otherwise(0)
    text = F.concat(
        F.when(number < 0, "-").otherwise(""),
        (mantissa * F.lit(float(1 << 52))).cast("bigint").cast("string"),
        F.lit("p"),
        exponent.cast("string"),
    )
    return F.when(number == 0, "0").otherwise(text)


def _unescape(escaped_text: Column) -> Column:
    """Return the bytes that a text of `_inexact` stands for."""
    parts = F.split(escaped_text, r"(?=\\x[0-9a-f]{2})", -1)
    pieces = F.transform(
        parts,
        lambda part: F.when(
            part.startswith("\\x"),
            F.concat(F.unhex(F.substring(part, 3, 2)), F.substr(part, F.lit(5)).cast("binary")),
        ).otherwise(part.cast("binary")),
    )
    return F.aggregate(pieces, F.lit(b""), lambda text, piece: F.concat(text, piece))


def _write_text(value: Column, type: ColumnType) -> Column:
    """Write the values of one Delta column, which are exact, as MySQL prints them."""
    return _WRITERS.get(describe(type).kind, _write_plain)(value, type)


def _write_plain(value: Column, type: ColumnType) -> Column:
    return value.cast("string")


def _write_digits(value: Column, type: ColumnType) -> Column:
    # With all digits of a DOUBLE, so that reading a FLOAT back never rounds twice.
    return value.cast("double").cast("string")


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
        value, lambda number: F.regexp_replace(_write_digits(number, type), r"\.0\z", "")
    )
    return F.concat(F.lit("["), F.array_join(numbers, ","), F.lit("]"))


_WRITERS: dict[Kind, Callable[[Column, ColumnType], Column]] = {
    "float": _write_digits,
    "datetime": _write_datetime,
    "vector": _write_vector,
}
