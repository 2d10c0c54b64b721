"""Texts of row images to typed Python values, and back to the text MySQL gives.

Every reader refuses, with `InvalidValue`, a text that its type cannot hold; none does work that
grows faster than the text.  What a type change makes of a value lives in `convert`.
"""

import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.float_text import float32_digits, format_plain, round_to_float32
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    describe,
    integer_range,
)

# int: integers, year, bit.  float: float (rounded to 32 bits), double.  Decimal: with the declared
# scale.  bytes: binary types.  str: the MySQL text of all others; member names of enum and set.
Value = int | float | Decimal | str | bytes | None

Reader = Callable[[str | None], Value]
Writer = Callable[[Value], str | None]

_INTEGER = re.compile(patterns.INTEGER)
_DECIMAL_DIGITS = rf"([0-9]{{0,{patterns.MAX_DECIMAL_DIGITS}}})"
_DECIMAL = re.compile(rf"([+-]?){_DECIMAL_DIGITS}(?:\.{_DECIMAL_DIGITS})?")
# What a number is written with; `float` reads more, such as `nan` and `1_000`.
_FLOAT_CHARACTERS = "0123456789+-.eE"
_DATE = re.compile(patterns.DATE)
_DATETIME = re.compile(patterns.DATETIME)
_TIME = re.compile(patterns.TIME)


def read_value(text: str | None, type: ColumnType, *, member_names: bool = False) -> Value:
    """Read one value; see `make_reader` for many of one type."""
    return _reader(type, member_names)(text)


def write_value(value: Value, type: ColumnType) -> str | None:
    """Write a value as MySQL prints it; binary as hexadecimal, bit as a decimal number."""
    return _writer(type)(value)


def make_reader(type: ColumnType, member_names: bool = False) -> Reader:
    """Make the reader of a type's texts in row images.

    With `member_names`, ENUM and SET texts are names, not index and bitmask.  Where the type's
    members are unknown an index or bitmask stays as it is.
    """
    kind = describe(type).kind
    read = _make_names_reader(type, kind) if member_names else None
    if read is None:
        read = _READERS[kind](type)

    def read_or_null(text: str | None) -> Value:
        return None if text is None else read(text)

    return read_or_null


def make_writer(type: ColumnType) -> Writer:
    """Make the writer of a type's values as MySQL prints them."""
    # FLOAT needs fewer digits than DOUBLE.
    write = _write_float32 if type.name == "float" else _WRITERS[describe(type).kind]

    def write_or_null(value: Value) -> str | None:
        return None if value is None else write(value)

    return write_or_null


_reader = lru_cache(1024)(make_reader)
_writer = lru_cache(1024)(make_writer)


# --- readers -----------------------------------------------------------------


def _bad(text: str, what: str) -> InvalidValue:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return InvalidValue(f"{shown!r} is not {what}")


def _read_integer(text: str, what: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise _bad(text, what)
    return int(text)


def _make_integer_reader(type: ColumnType) -> Callable[[str], Value]:
    low, high = integer_range(type)
    what = f"a {type.name}{' unsigned' if type.unsigned else ''}"
    match = _INTEGER.fullmatch

    def read(text: str) -> Value:
        try:
            value = int(text)
        except ValueError:
            raise _bad(text, what) from None
        # `int` reads more than MySQL writes; a pattern is matched only where it may have.
        if not low <= value <= high or (str(value) != text and match(text) is None):
            raise _bad(text, what)
        return value

    return read


def _make_bit_reader(type: ColumnType) -> Callable[[str], Value]:
    width = type.length or 64

    def read(text: str) -> Value:
        value = _read_integer(text, "a bit value")
        if -(1 << 63) <= value < 0:
            value += 1 << 64
        if not 0 <= value < 1 << width:
            raise _bad(text, f"a bit({width})")
        return value

    return read


def _make_year_reader(type: ColumnType) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        value = _read_integer(text, "a year")
        if value != 0 and not patterns.MIN_YEAR <= value <= patterns.MAX_YEAR:
            raise _bad(text, "a year")
        return value

    return read


def _read_finite(text: str) -> float | None:
    if len(text) > patterns.MAX_NUMBER_LENGTH or text.strip(_FLOAT_CHARACTERS):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _make_float_reader(type: ColumnType) -> Callable[[str], Value]:
    single = type.name == "float"

    def read(text: str) -> Value:
        value = _read_finite(text)
        if value is None:
            raise _bad(text, f"a {type.name}")
        return round_to_float32(value) if single else value

    return read


def _make_decimal_reader(type: ColumnType) -> Callable[[str], Value]:
    declared = decimal_shape(type)
    what = "a decimal" if declared is None else f"a decimal({declared[0]},{declared[1]})"
    usual = _as_declared(*declared) if declared is not None else None

    def read(text: str) -> Value:
        if usual is not None and usual(text) is not None:
            return Decimal(text)
        found = _DECIMAL.fullmatch(text)
        if found is None:
            raise _bad(text, what)
        sign, whole, fraction = found.groups()
        fraction = fraction or ""
        if not whole and not fraction:
            raise _bad(text, what)
        whole = whole.lstrip("0")
        if declared is not None:
            precision, scale = declared
            if len(fraction) > scale:
                if fraction[scale:].strip("0"):
                    raise _bad(text, what)
                fraction = fraction[:scale]
            else:
                fraction = fraction.ljust(scale, "0")
            if len(whole) > precision - scale:
                raise _bad(text, what)
        # MySQL has no negative zero.
        if sign == "-" and not whole and not fraction.strip("0"):
            sign = ""
        # The constructor is exact whatever the context's precision.
        return Decimal(f"{sign}{whole or '0'}.{fraction}")

    return read


def _as_declared(precision: int, scale: int) -> Callable[[str], object]:
    """Match what servers send: positive or negative, with exactly the declared digits."""
    whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    fraction = rf"\.[0-9]{{{scale}}}" if scale else ""
    return re.compile(rf"-?(?!0+(?:\.0*)?\Z){whole}{fraction}", re.ASCII).fullmatch


def _make_text_reader(type: ColumnType) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        return text

    return read


def _make_binary_reader(type: ColumnType) -> Callable[[str], Value]:
    decode = binascii.a2b_base64

    def read(text: str) -> Value:
        try:
            return decode(text, strict_mode=True)
        except ValueError:
            raise _bad(text, "base64") from None

    return read


def _make_pattern_reader(type: ColumnType) -> Callable[[str], Value]:
    match, what = {
        "date": (_DATE.fullmatch, "a date"),
        "datetime": (_DATETIME.fullmatch, "a datetime"),
        "timestamp": (_DATETIME.fullmatch, "a timestamp"),
        "time": (_TIME.fullmatch, "a time"),
    }[type.name]

    def read(text: str) -> Value:
        if match(text) is None:
            raise _bad(text, what)
        return text

    return read


def _make_enum_reader(type: ColumnType) -> Callable[[str], Value]:
    elements = type.elements

    def read(text: str) -> Value:
        index = _read_integer(text, "an enum index")
        if elements is None:
            return text
        if not 0 <= index <= len(elements):
            raise InvalidValue(f"enum index {index} is beyond the {len(elements)} members")
        # 0 is what MySQL keeps of a value that is no member: it prints as the empty string.
        return elements[index - 1] if index else ""

    return read


def _make_set_reader(type: ColumnType) -> Callable[[str], Value]:
    elements = type.elements

    def read(text: str) -> Value:
        mask = _read_integer(text, "a set bitmask")
        if -(1 << 63) <= mask < 0:
            mask += 1 << 64
        if elements is None:
            return text
        if not 0 <= mask < 1 << len(elements):
            raise InvalidValue(f"set bitmask {mask} is beyond the {len(elements)} members")
        return ",".join(name for bit, name in enumerate(elements) if mask >> bit & 1)

    return read


def _make_names_reader(type: ColumnType, kind: Kind) -> Callable[[str], Value] | None:
    """Make a reader of member names, for the kinds that have members."""
    if kind not in ("enum", "set"):
        return None
    elements = type.elements
    if elements is None:
        return _make_text_reader(type)
    known = {"", *elements}

    def read_enum(text: str) -> Value:
        if text not in known:
            raise _bad(text, "a member of the enum")
        return text

    def read_set(text: str) -> Value:
        names = set(text.split(",")) if text else set()
        if not names <= known:
            raise _bad(text, "made of members of the set")
        return ",".join(name for name in elements if name in names)

    return read_enum if kind == "enum" else read_set


def _make_vector_reader(type: ColumnType) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        vector_elements(text)
        return text

    return read


def vector_elements(text: str) -> list[float]:
    """Take the numbers of a vector's text, each rounded to 32 bits."""
    if not text.startswith("[") or not text.endswith("]") or len(text) < 2:
        raise _bad(text, "a vector")
    inner = text[1:-1]
    if not inner.strip():
        return []
    numbers = []
    for part in inner.split(","):
        number = _read_finite(part.strip())
        if number is None:
            raise _bad(text, "a vector")
        numbers.append(round_to_float32(number))
    return numbers


_READERS: dict[Kind, Callable[[ColumnType], Callable[[str], Value]]] = {
    "integer": _make_integer_reader,
    "bit": _make_bit_reader,
    "year": _make_year_reader,
    "float": _make_float_reader,
    "decimal": _make_decimal_reader,
    "text": _make_text_reader,
    "json": _make_text_reader,
    "binary": _make_binary_reader,
    "date": _make_pattern_reader,
    "datetime": _make_pattern_reader,
    "time": _make_pattern_reader,
    "enum": _make_enum_reader,
    "set": _make_set_reader,
    "vector": _make_vector_reader,
}


# --- writers -----------------------------------------------------------------


def _mistyped(value: Value) -> InvalidValue:
    return InvalidValue(f"the value is of another type, {type(value).__name__}")


def _write_float64(value: Value) -> str:
    if not isinstance(value, float):
        raise _mistyped(value)
    return format_plain(repr(value))


def _write_float32(value: Value) -> str:
    if not isinstance(value, float):
        raise _mistyped(value)
    return format_plain(float32_digits(value))


def _write_decimal(value: Value) -> str:
    if not isinstance(value, Decimal):
        raise _mistyped(value)
    return format(value, "f")


def _write_binary(value: Value) -> str:
    if not isinstance(value, bytes):
        raise _mistyped(value)
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
