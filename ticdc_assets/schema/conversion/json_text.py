"""JSON as TiDB prints it: keys in byte order, one space after each comma and colon."""

import json
from json.encoder import encode_basestring
from typing import Any, NoReturn

from ticdc_assets.errors import InvalidValue

_MAX_INTEGER_LENGTH = 20
_LINE_SEPARATORS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def load(text: str) -> Any:
    """Parse a document; integers beyond 64 bits become floats."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidValue(f"{text[:80]!r} is not JSON: {reason}") from None


def dump(content: Any) -> str:
    """Print a document as TiDB does."""
    try:
        return _print(content)
    except RecursionError:
        raise InvalidValue("JSON nested too deeply") from None


def normalize(text: str) -> str:
    """Rewrite JSON text as TiDB prints it."""
    return dump(load(text))


def _parse_integer(digits: str) -> int | float:
    if len(digits) <= _MAX_INTEGER_LENGTH:
        value = int(digits)
        if -(1 << 63) <= value < 1 << 64:
            return value
    return _parse_float(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number exceeds DOUBLE")
    return value


def _fail_on_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(
    parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_fail_on_constant
)


def _print(content: Any) -> str:
    match content:
        case None:
            return "null"
        case bool():
            return "true" if content else "false"
        case int():
            return str(content)
        case float():
            return _print_float(content)
        case str():
            return _print_string(content)
        case list():
            return f"[{', '.join(map(_print, content))}]"
        case dict():
            # Code point order is the byte order of UTF-8.
            items = (f"{_print_string(key)}: {_print(content[key])}" for key in sorted(content))
            return f"{{{', '.join(items)}}}"
        case _:
            raise InvalidValue(f"{type(content).__name__} cannot be printed as JSON")


def _print_float(value: float) -> str:
    """Print with the fewest digits; with an exponent below 1e-15 and from 1e15."""
    digits = repr(value)
    mantissa, _, exponent = digits.partition("e")
    if value == 0 or 1e-15 <= abs(value) < 1e15:
        return _expand_exponent(mantissa, int(exponent)) if exponent else digits
    if exponent:
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    # repr uses exponents only from 1e16.
    sign, digits = ("-", digits[1:]) if value < 0 else ("", digits)
    whole, _, fraction = digits.partition(".")
    significant = (whole + fraction).rstrip("0")
    point = "." if len(significant) > 1 else ""
    return f"{sign}{significant[0]}{point}{significant[1:]}e{len(whole) - 1}"


def _expand_exponent(mantissa: str, exponent: int) -> str:
    # The exponent is negative: repr has none from 1e-4 up to 1e16.
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return f"{sign}0.{'0' * (-exponent - 1)}{mantissa.replace('.', '')}"


def _print_string(text: str) -> str:
    if not text.isascii():
        # Replace unpaired surrogates, which no encoding can represent.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return encode_basestring(text).translate(_LINE_SEPARATORS)
