"""Reading row images: the text of a value to a typed Python value.

Rules: a reader raises `InvalidValue` for every text that its type cannot hold, and its work grows
no faster than the text.  `conversion` says what a type change makes of a value.
"""

import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.float_text import round_to_float32
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    describe,
    integer_range,
)
from ticdc_assets.schema.types.value import Value

Reader = Callable[[str | None], Value]
# A reader of texts that are not NULL.
_Read = Callable[[str], Value]

_INTEGER = re.compile(patterns.INTEGER)
_DIGITS = f"[0-9]{{0,{patterns.MAX_DECIMAL_DIGITS}}}"
_DECIMAL = re.compile(rf"([+-]?)({_DIGITS})(?:\.({_DIGITS}))?", re.ASCII)
_DATE = re.compile(patterns.DATE)
_DATETIME = re.compile(patterns.DATETIME)
_TIMESTAMP = re.compile(patterns.TIMESTAMP)
_TIME = re.compile(patterns.TIME)
# The characters of a number; `float` accepts more texts, such as `nan` and `1_000`.
_FLOAT_CHARACTERS = "0123456789+-.eE"
_SIGN_BIT = 1 << 63


def read_value(text: str | None, type: ColumnType, *, member_names: bool = False) -> Value:
    """Read one value; use `make_reader` for many values of one type."""
    return _cached_reader(type, member_names)(text)


def make_reader(type: ColumnType, member_names: bool = False) -> Reader:
    """Return the function that reads a type's texts in row images.

    With `member_names`, ENUM and SET texts are member names, otherwise an index and a bitmask.  If
    the type's members are unknown, the text of an index or bitmask is the value.
    """
    kind = describe(type).kind
    read = _make_member_name_reader(type, kind) if member_names else None
    if read is None:
        read = _READERS[kind](type)

    def read_or_null(text: str | None) -> Value:
        return None if text is None else read(text)

    return read_or_null


_cached_reader = lru_cache(1024)(make_reader)


def _invalid(text: str, expected: str) -> InvalidValue:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return InvalidValue(f"{shown!r} is not {expected}")


def _read_integer(text: str, expected: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise _invalid(text, expected)
    return int(text)


def _make_integer_reader(type: ColumnType) -> _Read:
    low, high = integer_range(type)
    expected = f"a {type.name}{' unsigned' if type.unsigned else ''}"
    match = _INTEGER.fullmatch

    def read(text: str) -> Value:
        try:
            value = int(text)
        except ValueError:
            raise _invalid(text, expected) from None
        # `int` accepts more than MySQL writes.  Match the pattern, which is slow, only where the
        # text is not the canonical one.
        if not low <= value <= high or (str(value) != text and match(text) is None):
            raise _invalid(text, expected)
        return value

    return read


def _make_bit_reader(type: ColumnType) -> _Read:
    width = type.length or 64

    def read(text: str) -> Value:
        value = _read_integer(text, "a bit value")
        if -_SIGN_BIT <= value < 0:
            value += 1 << 64
        if not 0 <= value < 1 << width:
            raise _invalid(text, f"a bit({width})")
        return value

    return read


def _make_year_reader(type: ColumnType) -> _Read:
    def read(text: str) -> Value:
        value = _read_integer(text, "a year")
        if value != 0 and not patterns.MIN_YEAR <= value <= patterns.MAX_YEAR:
            raise _invalid(text, "a year")
        return value

    return read


def _parse_float(text: str) -> float | None:
    if len(text) > patterns.MAX_NUMBER_LENGTH or text.strip(_FLOAT_CHARACTERS):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _make_float_reader(type: ColumnType) -> _Read:
    single = type.name == "float"

    def read(text: str) -> Value:
        value = _parse_float(text)
        if value is None:
            raise _invalid(text, f"a {type.name}")
        return round_to_float32(value) if single else value

    return read


def _make_decimal_reader(type: ColumnType) -> _Read:
    declared = decimal_shape(type)
    expected = "a decimal" if declared is None else f"a decimal({declared[0]},{declared[1]})"
    is_canonical = _match_canonical(*declared) if declared is not None else None

    def read(text: str) -> Value:
        if is_canonical is not None and is_canonical(text) is not None:
            return Decimal(text)
        match = _DECIMAL.fullmatch(text)
        if match is None:
            raise _invalid(text, expected)
        sign, whole, fraction = match.groups()
        fraction = fraction or ""
        if not whole and not fraction:
            raise _invalid(text, expected)
        whole = whole.lstrip("0")
        if declared is not None:
            precision, scale = declared
            if len(fraction) > scale:
                if fraction[scale:].strip("0"):
                    raise _invalid(text, expected)
                fraction = fraction[:scale]
            else:
                fraction = fraction.ljust(scale, "0")
            if len(whole) > precision - scale:
                raise _invalid(text, expected)
        # MySQL has no negative zero.
        if sign == "-" and not whole and not fraction.strip("0"):
            sign = ""
        # The constructor is exact, whatever the precision of the decimal context.
        return Decimal(f"{sign}{whole or '0'}.{fraction}")

    return read


def _match_canonical(precision: int, scale: int) -> Callable[[str], object]:
    """Match the text that servers send: not zero, and with exactly the declared scale."""
    whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    fraction = rf"\.[0-9]{{{scale}}}" if scale else ""
    return re.compile(rf"-?(?!0+(?:\.0*)?\Z){whole}{fraction}", re.ASCII).fullmatch


def _make_text_reader(type: ColumnType) -> _Read:
    def read(text: str) -> Value:
        return text

    return read


def _make_binary_reader(type: ColumnType) -> _Read:
    decode = binascii.a2b_base64

    def read(text: str) -> Value:
        try:
            return decode(text, strict_mode=True)
        except ValueError:
            raise _invalid(text, "base64") from None

    return read


def _make_pattern_reader(type: ColumnType) -> _Read:
    match, expected = {
        "date": (_DATE.fullmatch, "a date"),
        "datetime": (_DATETIME.fullmatch, "a datetime"),
        "timestamp": (_TIMESTAMP.fullmatch, "a timestamp"),
        "time": (_TIME.fullmatch, "a time"),
    }[type.name]

    def read(text: str) -> Value:
        if match(text) is None:
            raise _invalid(text, expected)
        # Of two moments, the first.
        return text.partition(EITHER)[0]

    return read


def _make_enum_reader(type: ColumnType) -> _Read:
    elements = type.elements

    def read(text: str) -> Value:
        index = _read_integer(text, "an enum index")
        if elements is None:
            return text
        if not 0 <= index <= len(elements):
            raise InvalidValue(f"enum index {index} exceeds the {len(elements)} members")
        # MySQL stores 0 for a value that is no member, and prints it as the empty string.
        return elements[index - 1] if index else ""

    return read


def _make_set_reader(type: ColumnType) -> _Read:
    elements = type.elements

    def read(text: str) -> Value:
        mask = _read_integer(text, "a set bitmask")
        if -_SIGN_BIT <= mask < 0:
            mask += 1 << 64
        if elements is None:
            return text
        if not 0 <= mask < 1 << len(elements):
            raise InvalidValue(f"set bitmask {mask} exceeds the {len(elements)} members")
        return ",".join(name for bit, name in enumerate(elements) if mask >> bit & 1)

    return read


def _make_member_name_reader(type: ColumnType, kind: Kind) -> _Read | None:
    """Return the reader of member names; None for a kind without members."""
    if kind not in ("enum", "set"):
        return None
    elements = type.elements
    if elements is None:
        return _make_text_reader(type)
    names = {"", *elements}

    def read_enum(text: str) -> Value:
        if text not in names:
            raise _invalid(text, "a member of the enum")
        return text

    def read_set(text: str) -> Value:
        selected = set(text.split(",")) if text else set()
        if not selected <= names:
            raise _invalid(text, "a list of members of the set")
        return ",".join(name for name in elements if name in selected)

    return read_enum if kind == "enum" else read_set


def _make_vector_reader(type: ColumnType) -> _Read:
    def read(text: str) -> Value:
        parse_vector(text)
        return text

    return read


def parse_vector(text: str) -> list[float]:
    """Parse the text of a vector into numbers, each rounded to 32 bits."""
    if not text.startswith("[") or not text.endswith("]") or len(text) < 2:
        raise _invalid(text, "a vector")
    inner = text[1:-1]
    if not inner.strip():
        return []
    numbers = []
    for part in inner.split(","):
        number = _parse_float(part.strip())
        if number is None:
            raise _invalid(text, "a vector")
        numbers.append(round_to_float32(number))
    return numbers


_READERS: dict[Kind, Callable[[ColumnType], _Read]] = {
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
