"""DEFAULT clauses: reading them, and converting them to the row-image convention of a type.

A literal becomes the text of a value of the column's type.  An expression keeps its SQL and is
marked as one; nothing is evaluated here.
"""

from base64 import b64encode
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite

from ticdc_assets.events import ColumnType
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.statement import Default
from ticdc_assets.schema.ddl.temporal_literal import normalize_temporal
from ticdc_assets.schema.ddl.tokens import Kind
from ticdc_assets.schema.types.float_text import format_plain
from ticdc_assets.schema.types.mysql_type import TYPES

_NOW = ("CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "NOW")
_TODAY = ("CURRENT_DATE", "CURDATE")
# More digits than any number type holds; numbers beyond it keep their text.
_MAX_DIGITS = 100
_EXACT = Context(prec=2 * _MAX_DIGITS, rounding=ROUND_HALF_UP, traps=[])


def read_default(cursor: Cursor) -> Default:
    """Read the value after DEFAULT."""
    if not cursor.next_is("("):
        return _read_literal(cursor) or _read_expression(cursor)
    inside = cursor.read_group().strip_parentheses()
    start = inside.position
    default = _read_literal(inside) or _read_now(inside)
    if default is not None and inside.at_end():
        return default
    inside.position = start
    return Default(inside.read_rest(), is_expression=True)


def convert_default(default: Default, type: ColumnType) -> tuple[str | None, bool]:
    """Convert a default to the row-image convention; also return whether it is an expression."""
    text = default.text
    if text is None or default.is_expression:
        return text, default.is_expression
    row = TYPES[type.name]
    if default.literal == "number" and "e" in text.lower() and row.kind != "float":
        # TiDB reads a number with an exponent as a DOUBLE and then takes its digits as a text.
        number = float(_EXACT.create_decimal(text))
        if isfinite(number):
            digits = repr(round(number) if row.kind == "integer" else number)
            return convert_default(Default(format_plain(digits)), type)
    if default.literal == "bytes":
        data = bytes.fromhex(text)
        if row.kind in ("integer", "float", "decimal", "bit", "year"):
            return _parse_bytes(data) or f"x'{text}'", False
        text = _decode_stored(data, type)
    match row.kind:
        case "bit":
            is_number = default.literal == "number"
            return (text if is_number else _parse_bytes(text.encode()) or text), False
        case "integer":
            return _round_number(text, 0), False
        case "decimal":
            return _round_number(text, type.decimals or 0), False
        case "enum" | "set":
            return _read_members(text, type, by_number=default.literal == "number"), False
        case "date" | "datetime" | "time" | "year":
            return normalize_temporal(text, type), False
        case "binary":
            return b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii"), False
        case _:
            return text, False


def _read_literal(cursor: Cursor) -> Default | None:
    """Read a literal, if one comes next."""
    if cursor.accept("NULL"):
        return Default()
    if boolean := cursor.accept_any("TRUE", "FALSE"):
        return Default(str(int(boolean == "TRUE")), literal="number")
    if cursor.next_is_any("DATE", "TIME", "TIMESTAMP") and cursor.peek(1).kind is Kind.STRING:
        cursor.advance()
        return Default(cursor.read_string())
    cursor.accept_introducer()
    if cursor.token.kind is Kind.STRING:
        return Default(cursor.read_string())
    if cursor.token.kind in (Kind.HEX, Kind.BIT):
        return Default(cursor.advance().data.hex(), literal="bytes")
    return _read_number(cursor)


def _read_number(cursor: Cursor) -> Default | None:
    signed = int(cursor.next_is_any("+", "-"))
    ahead = signed + int(cursor.peek(signed).key == ".")
    if cursor.peek(ahead).kind is not Kind.NUMBER:
        return None
    sign = "-" if cursor.next_is("-") else ""
    point = "0." if ahead > signed else ""
    cursor.position += ahead
    return Default(f"{sign}{point}{cursor.advance().text}", literal="number")


def _read_now(cursor: Cursor) -> Default | None:
    """Read a synonym of CURRENT_TIMESTAMP or CURRENT_DATE, if one comes next."""
    if cursor.accept_any(*_TODAY):
        if cursor.next_is("("):
            cursor.read_group().expect_end()
        return Default("CURRENT_DATE", is_expression=True)
    if not cursor.accept_any(*_NOW):
        return None
    places = 0
    if cursor.next_is("("):
        inside = cursor.read_group()
        places = 0 if inside.at_end() else inside.read_integer()
        inside.expect_end()
    arguments = f"({places})" if places else ""
    return Default(f"CURRENT_TIMESTAMP{arguments}", is_expression=True)


def _read_expression(cursor: Cursor) -> Default:
    """Read a function call or the next value of a sequence."""
    now = _read_now(cursor)
    if now is not None:
        return now
    start = cursor.position
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.read_table_name()
    else:
        cursor.read_name()
        cursor.read_group()
    return Default(cursor.slice(start, cursor.position).read_rest(), is_expression=True)


def _parse_bytes(data: bytes) -> str | None:
    """Return the big-endian number in some bytes; None beyond 64 bits."""
    significant = data.lstrip(b"\0")
    return None if len(significant) > 8 else str(int.from_bytes(significant, "big"))


def _decode_stored(data: bytes, type: ColumnType) -> str:
    """Return the text that TiDB stores for a default given as bytes.

    TiDB stores defaults as JSON, where each byte that is not UTF-8 becomes U+FFFD.  Rows get the
    stored text, not the bytes of the statement.
    """
    if type.charset in ("gbk", "gb18030"):
        return data.decode(type.charset, "replace")
    text = data.decode("utf-8", "surrogateescape")
    return "".join("\N{REPLACEMENT CHARACTER}" if "\udc80" <= c <= "\udcff" else c for c in text)


def _round_number(text: str, places: int) -> str:
    """Round a number to the scale of its type."""
    if text.removeprefix("-").isdecimal() or len(text) > _MAX_DIGITS:
        return text
    number = _EXACT.create_decimal(text.strip())
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
        return text
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and 0 >= exponent >= -places:
        return format(number, "f")
    return format(number.quantize(Decimal(1).scaleb(-places), context=_EXACT), "f")


def _read_members(text: str, type: ColumnType, *, by_number: bool) -> str:
    """Return member names as the ENUM or SET spells and orders them."""
    elements = type.elements or ()
    if by_number and text.isdecimal() and len(text) <= 20:
        number = int(text)
        if type.name == "set":
            return ",".join(name for bit, name in enumerate(elements) if number >> bit & 1)
        return elements[number - 1] if 0 < number <= len(elements) else text
    folded = {name.casefold(): name for name in reversed(elements)}
    names = [text.rstrip(" ")] if type.name == "enum" else text.split(",")
    selected = {name if name in elements else folded.get(name.casefold(), name) for name in names}
    if not selected <= set(elements):
        return text
    return ",".join(name for name in elements if name in selected)
