"""Writing values: a typed Python value to the text that MySQL prints."""

from binascii import b2a_base64
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.float_text import float32_digits, format_plain
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value

Writer = Callable[[Value], str | None]


def write_value(value: Value, type: ColumnType) -> str | None:
    """Write a value as MySQL prints it; binary as hexadecimal, bit as a decimal number."""
    return _cached_writer(type)(value)


def make_writer(type: ColumnType) -> Writer:
    """Return the function that writes a type's values as MySQL prints them."""
    # FLOAT needs fewer digits than DOUBLE.
    write = _write_float32 if type.name == "float" else _WRITERS[describe(type).kind]

    def write_or_null(value: Value) -> str | None:
        return None if value is None else write(value)

    return write_or_null


_cached_writer = lru_cache(1024)(make_writer)


def make_image_writer(type: ColumnType) -> Writer:
    """Return the function that writes a type's values as texts of row images, members by name."""
    return _write_base64_or_null if describe(type).kind == "binary" else make_writer(type)


def _write_base64_or_null(value: Value) -> str | None:
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise _wrong_type(value)
    return b2a_base64(value, newline=False).decode("ascii")


def _wrong_type(value: Value) -> InvalidValue:
    return InvalidValue(f"the value has the wrong Python type, {type(value).__name__}")


def _write_float64(value: Value) -> str:
    if not isinstance(value, float):
        raise _wrong_type(value)
    return format_plain(repr(value))


def _write_float32(value: Value) -> str:
    if not isinstance(value, float):
        raise _wrong_type(value)
    return format_plain(float32_digits(value))


def _write_decimal(value: Value) -> str:
    if not isinstance(value, Decimal):
        raise _wrong_type(value)
    return format(value, "f")


def _write_binary(value: Value) -> str:
    if not isinstance(value, bytes):
        raise _wrong_type(value)
    return value.hex()


_WRITERS: dict[Kind, Callable[[Value], str]] = {
    "integer": str,
    "bit": str,
    "year": str,
    "float": _write_float64,
    "decimal": _write_decimal,
    "text": str,
    "json": str,
    "binary": _write_binary,
    "date": str,
    "datetime": str,
    "time": str,
    "enum": str,
    "set": str,
    "vector": str,
}
