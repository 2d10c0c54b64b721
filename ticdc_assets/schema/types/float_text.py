"""Rounding to FLOAT, and the shortest decimal texts of FLOAT and DOUBLE values."""

from decimal import Decimal
from math import frexp
from struct import Struct, error

from ticdc_assets.errors import InvalidValue

_FLOAT32 = Struct("<f")
_MIN_NORMAL_FLOAT = 2.0**-126


def round_to_float32(value: float) -> float:
    """Round to the nearest FLOAT value."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except (OverflowError, error):
        raise InvalidValue(f"{value!r} is beyond FLOAT") from None
    return rounded


def float32_digits(value: float) -> str:
    """Format a FLOAT value with the fewest digits that read back as it."""
    # FLOAT preserves any six digits, except in subnormal numbers.
    for digits in range(6 if abs(value) >= _MIN_NORMAL_FLOAT else 1, 9):
        text = f"{value:.{digits}g}"
        if _reads_back(text, value):
            return text
        # FLOATs are denser below a power of two than above it: there the nearest text with these
        # digits may read back as another number while the next text up reads back as this one.
        if abs(frexp(value)[0]) == 0.5 and _reads_back(up := _round_up(value, digits), value):
            return up
    return f"{value:.9g}"


def _reads_back(text: str, value: float) -> bool:
    try:
        back: float = _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0]
    except OverflowError:
        return False
    return back == value


def _round_up(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    last_place = 1 - digits
    grown = abs(int(mantissa.replace(".", ""))) + 1
    return f"{'-' if value < 0 else ''}{grown}e{int(exponent) + last_place}"


def format_plain(digits: str) -> str:
    """Rewrite a float's text, such as `1e+16` or `5.0`, without exponent and trailing zeros."""
    if "e" in digits or "E" in digits:
        digits = format(Decimal(digits), "f")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return digits
