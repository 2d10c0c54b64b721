"""Conversion to a number, BIT or YEAR.

Follows `Datum.ConvertTo` in TiDB's `pkg/types`; comments mark its surprising rules.
"""

import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import isfinite
from sys import float_info

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.conversion import json_text
from ticdc_assets.schema.conversion import time as time_conversion
from ticdc_assets.schema.conversion.text import as_text, get_member_number
from ticdc_assets.schema.types.float_text import round_to_float32
from ticdc_assets.schema.types.mysql_type import decimal_shape, describe, integer_range
from ticdc_assets.schema.types.value import Value

Number = int | float | Decimal

_BIGINT = ColumnType("bigint")
_MAX_FLOAT = 3.4028234663852886e38
# Wide enough for a DOUBLE's digits with any scale.
_HALF_UP = Context(prec=800, rounding=ROUND_HALF_UP)
_HALF_EVEN = Context(prec=800, rounding=ROUND_HALF_EVEN)
_EXCEEDS_ALL_TYPES = Decimal("1e400")
_NUMBER_PREFIX = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?", re.ASCII
)


def to_integer(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to an integer type."""
    if describe(old).kind in ("datetime", "time") and not new.unsigned:
        # Rounds with a carry into the minutes; for unsigned types TiDB rounds the plain number.
        value = time_conversion.round_text(str(value), 0)
    return _clip(_round_to_integer(_read_number(value, old)), new)


def to_bit(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to BIT; a negative integer converts by its two's complement."""
    number = _round_to_integer(_read_number(value, old))
    if number < 0 and describe(old).kind == "integer":
        number += 1 << 64
    return min(max(number, 0), (1 << (new.length or 1)) - 1)


def to_year(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to YEAR; a two-digit year is in 1970 to 2069."""
    kind = describe(old).kind
    if kind in ("date", "datetime"):
        return complete_year(int(str(value)[:4]))
    if kind == "time":
        value = time_conversion.round_text(str(value), 0)
    number = _clip(_round_to_integer(_read_number(value, old)), _BIGINT)
    if kind in ("text", "binary"):
        text = as_text(value, old)
        return complete_year(number, from_text=len(text) != 4 and text.strip().startswith("0"))
    return complete_year(number)


def complete_year(number: int, *, from_text: bool = False) -> int:
    """Return the YEAR value of a number; the number 0 is the zero year, the text `0` is 2000."""
    if number == 0 and not from_text:
        return 0
    if 0 <= number <= 99:
        number += 2000 if number <= 69 else 1900
    return 0 if number < 0 else min(max(number, 1901), 2155)


def to_float(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to FLOAT or DOUBLE; (M,D) rounds to D fractional digits."""
    number = float(_read_number(value, old))
    if not isfinite(number):
        number = float_info.max if number > 0 else -float_info.max
    if new.length is not None and new.decimals is not None:
        number = _round_float(number, new.length, new.decimals)
    if new.unsigned and number < 0:
        return 0.0
    if new.name == "float":
        return round_to_float32(min(max(number, -_MAX_FLOAT), _MAX_FLOAT))
    return number


def to_decimal(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert to DECIMAL, rounding half away from zero."""
    number = _read_number(value, old)
    # A FLOAT converts by the digits of its DOUBLE value: 0.1 by 0.10000000149011612.
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if new.unsigned and exact < 0:
        exact = Decimal(0)
    declared = decimal_shape(new)
    if declared is None:
        return exact
    precision, scale = declared
    rounded = exact.quantize(Decimal(1).scaleb(-scale), context=_HALF_UP)
    if rounded.adjusted() >= precision - scale and rounded:
        limit = Decimal((0, (9,) * precision, -scale))
        return limit.copy_sign(rounded)
    return rounded if rounded else rounded.copy_abs()


def read_number_prefix(text: str) -> Decimal:
    """Read the number at the start of a text, 0 if there is none; ±1e400 exceeds every type."""
    match = _NUMBER_PREFIX.match(text.strip())
    if match is None:
        return Decimal(0)
    sign, whole, fraction, exponent = match.groups()
    whole = whole.lstrip("0")
    shift = 0
    if exponent:
        places = exponent.lstrip("+-").lstrip("0")
        shift = int(places or 0) if len(places) < 7 else 1_000_000
        shift = -shift if exponent.startswith("-") else shift
    digits = whole + (fraction or "").rstrip("0")
    if not digits.strip("0"):
        return Decimal(0)
    # The first significant digit has the place value 10 ** (len(whole) - leading + shift - 1).
    leading = len(digits) - len(digits.lstrip("0"))
    if len(whole) - leading + shift > 400:
        return _EXCEEDS_ALL_TYPES.copy_negate() if sign == "-" else _EXCEEDS_ALL_TYPES
    if len(whole) - leading + shift < -400:
        return Decimal(0)
    digits = digits[: leading + 800]
    return Decimal(f"{sign}{digits}e{shift - (len(digits) - len(whole))}")


def _read_number(value: Value, old: ColumnType) -> Number:
    """Return the number that TiDB reads a value as."""
    match describe(old).kind:
        case "integer" | "bit" | "year" | "float" | "decimal":
            assert isinstance(value, int | float | Decimal)
            return value
        case "text" | "binary":
            return read_number_prefix(as_text(value, old))
        case "date" | "datetime" | "time":
            return time_conversion.to_number(str(value))
        case "enum" | "set":
            # TiDB converts through DOUBLE: masks above 2^53 lose their lowest bits.
            return float(get_member_number(str(value), old))
        case "json":
            content = json_text.load(str(value))
            if isinstance(content, str):
                return read_number_prefix(content)
            return content if isinstance(content, int | float) else 0
        case kind:
            raise InvalidValue(f"no conversion from {kind} to a number")


def _round_to_integer(number: Number) -> int:
    """Round to an integer: a float half to even, a decimal half away from zero."""
    if isinstance(number, float):
        return round(number)
    if isinstance(number, Decimal):
        return int(number.to_integral_value(context=_HALF_UP))
    return int(number)


def _clip(number: int, new: ColumnType) -> int:
    low, high = integer_range(new)
    return min(max(number, low), high)


def _round_float(number: float, length: int, decimals: int) -> float:
    shift = 10.0**decimals
    shifted = number * shift
    if isfinite(shifted):
        number = float(Decimal(shifted).to_integral_value(context=_HALF_EVEN)) / shift
    limit = 10.0 ** (length - decimals) - 10.0**-decimals
    return min(max(number, -limit), limit)
