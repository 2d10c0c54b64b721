"""Columns of Open Protocol: type codes, flags, and the conversion of values to row images.

    {"t": MySQL type code, "h": handle key, "f": flags, "v": value}

Only the binary flag tells bytes from text.  It may be stale: for a while after a DDL, the
new-architecture server sends the flags of before it, and 0 for a column that was added.  The value
itself always follows the column's real type.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Set
from functools import lru_cache, partial
from math import isfinite
from operator import attrgetter
from typing import Annotated
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from ticdc_assets.errors import MalformedMessage, UnknownMessage
from ticdc_assets.events import row_image
from ticdc_assets.protocols.open_protocol import go_quote
from ticdc_assets.protocols.timestamp import to_utc

Value = int | float | str | None
_Convert = Callable[[Value], str]

_BINARY_FLAG = 0x01
_NULLABLE_FLAG = 0x40
_UNSIGNED_FLAG = 0x80


class OpenColumn(Struct, gc=False, frozen=True):
    """A column of a row: type code, value, flags, and whether it is part of the handle key."""

    t: Annotated[int, Meta(ge=0, le=255)]
    v: Value
    f: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0
    h: bool = False


# A column without its value, hashable.
_Mark = tuple[int, int, bool]
_mark: Callable[[OpenColumn], _Mark] = attrgetter("t", "f", "h")


class OpenImage(Struct, gc=False, frozen=True):
    """A row image, and the types and key that the row states."""

    text: str
    observed: str
    key_columns: tuple[str, ...] | None


def read_image(
    columns: Mapping[str, OpenColumn], zone: ZoneInfo, stale: Set[str] = frozenset()
) -> OpenImage:
    """Read a row; the binary flag of the `stale` columns is known to be wrong."""
    marks = tuple(map(_mark, columns.values()))
    if stale:
        pairs = zip(columns, marks, strict=True)
        marks = tuple([(t, f & ~_BINARY_FLAG if n in stale else f, h) for n, (t, f, h) in pairs])
    plan = _plan(tuple(columns), marks, zone)
    row: dict[str, str | None] = {}
    name = ""
    try:
        for (name, column), convert in zip(columns.items(), plan.converts, strict=True):
            value = column.v
            if value is None:
                row[name] = None
            # Convert the most frequent kinds without a call.
            elif convert is _text and type(value) is str:
                row[name] = value
            elif convert is _integer and type(value) is int:
                row[name] = str(value)
            else:
                row[name] = convert(value)
    except MalformedMessage as error:
        raise MalformedMessage(f"column {name[:80]!r}: {error.reason}") from None
    return OpenImage(row_image.dump(row), plan.observed, plan.key_columns)


def stale_binary_flags(columns: Mapping[str, OpenColumn]) -> set[str]:
    """Find the columns flagged binary whose values are plain text, not quoted bytes."""
    return {
        name
        for name, column in columns.items()
        if column.f & _BINARY_FLAG
        and column.t in _QUOTED_CODES
        and isinstance(column.v, str)
        and not go_quote.is_quoted(column.v)
    }


def _integer(value: Value) -> str:
    if type(value) is not int:
        raise MalformedMessage("not an integer")
    return str(value)


def _float(value: Value) -> str:
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    raise MalformedMessage("not a number")


def _text(value: Value) -> str:
    if type(value) is not str:
        raise MalformedMessage("not a text")
    return value


def _quoted_bytes(value: Value) -> str:
    octets = go_quote.unquote(_text(value))
    return b2a_base64(octets, newline=False).decode("ascii")


def _base64_text(value: Value) -> str:
    return _octets(value).decode("utf-8", "surrogateescape")


def _base64_bytes(value: Value) -> str:
    _octets(value)
    return _text(value)


def _octets(value: Value) -> bytes:
    try:
        return a2b_base64(_text(value), strict_mode=True)
    except (Base64Error, ValueError):
        raise MalformedMessage("not base64") from None


def _timestamp(value: Value, zone: ZoneInfo) -> str:
    return to_utc(_text(value), zone)


def _nothing(_: Value) -> str:
    raise MalformedMessage("a value in a column of type NULL")


class _Type(Struct, frozen=True):
    name: str
    convert: _Convert
    # The type under the binary flag, where it differs.
    binary: tuple[str, _Convert] | None = None
    signed: bool = False


def _number(name: str, convert: _Convert = _integer) -> _Type:
    return _Type(name, convert, signed=True)


def _lob(text: str, octets: str) -> _Type:
    return _Type(text, _base64_text, (octets, _base64_bytes))


_VARCHAR = _Type("varchar", _text, ("varbinary", _quoted_bytes))
_CHAR = _Type("char", _text, ("binary", _quoted_bytes))
_QUOTED_CODES = frozenset({15, 253, 254})
_NULL_CODE = 6
_TIMESTAMP_CODE = 7
_TYPES = {
    1: _number("tinyint"),
    2: _number("smallint"),
    3: _number("int"),
    4: _number("float", _float),
    5: _number("double", _float),
    _NULL_CODE: _Type("null", _nothing),
    _TIMESTAMP_CODE: _Type("timestamp", _text),
    8: _number("bigint"),
    9: _number("mediumint"),
    10: _Type("date", _text),
    11: _Type("time", _text),
    12: _Type("datetime", _text),
    13: _Type("year", _integer),
    14: _Type("date", _text),
    15: _VARCHAR,
    16: _Type("bit", _integer),
    225: _Type("vector", _text),
    245: _Type("json", _text),
    246: _number("decimal", _text),
    247: _Type("enum", _integer),
    248: _Type("set", _integer),
    249: _lob("tinytext", "tinyblob"),
    250: _lob("mediumtext", "mediumblob"),
    251: _lob("longtext", "longblob"),
    252: _lob("text", "blob"),
    253: _VARCHAR,
    254: _CHAR,
}


class _Plan(Struct, frozen=True):
    """The conversion of rows whose columns have these names, codes and flags."""

    converts: tuple[_Convert, ...]
    observed: str
    key_columns: tuple[str, ...] | None


# Limits of TiDB; they also bound the size of the cache.
_WIDEST_TABLE = 4096
_LONGEST_NAME = 64


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...], marks: tuple[_Mark, ...], zone: ZoneInfo) -> _Plan:
    if not 0 < len(names) <= _WIDEST_TABLE or max(map(len, names)) > _LONGEST_NAME:
        raise MalformedMessage("no table can have these columns")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise MalformedMessage("a column name that is not UTF-8") from None
    converts: list[_Convert] = []
    observed: dict[str, str | None] = {}
    for name, (code, flags, _) in zip(names, marks, strict=True):
        observed[name], convert = _reading(code, flags)
        if code == _NULL_CODE:
            # It says nothing of its column.
            del observed[name]
        converts.append(partial(_timestamp, zone=zone) if code == _TIMESTAMP_CODE else convert)
    if not observed:
        raise MalformedMessage("no column has a type")
    keys = tuple([name for name, (_, _, handle) in zip(names, marks, strict=True) if handle])
    return _Plan(tuple(converts), row_image.dump(observed), keys or None)


@lru_cache(maxsize=1024)
def _reading(code: int, flags: int) -> tuple[str, _Convert]:
    """Return the observed type text of a code under flags, and the conversion of its values."""
    kind = _TYPES.get(code)
    if kind is None:
        raise UnknownMessage(f"column type {code}")
    name, convert = kind.name, kind.convert
    if kind.binary is not None and flags & _BINARY_FLAG:
        name, convert = kind.binary
    if kind.signed and flags & _UNSIGNED_FLAG:
        name += " unsigned"
    # Flags of 0 usually mean that the server did not know the column.
    if flags and not flags & _NULLABLE_FLAG:
        name += " not null"
    return name, convert
