"""Converting existing rows: MODIFY COLUMN and ADD COLUMN.

One dispatch table by the kind of the target type; `number`, `text`, `time` and `json_text` hold the
rules of each kind.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.schema.conversion import json_text
from ticdc_assets.schema.conversion.number import to_bit, to_decimal, to_float, to_integer, to_year
from ticdc_assets.schema.conversion.text import as_text, to_binary, to_enum, to_set, to_text
from ticdc_assets.schema.conversion.time import moment_text, to_moment, to_time
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    describe,
    integer_range,
)
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value

Conversion = Callable[[Value, ColumnType, ColumnType], Value]


def convert_value(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Convert a value as a change of its column's type does; use `make_converter` for many."""
    return make_converter(old, new)(value)


@lru_cache(1024)
def make_converter(old: ColumnType, new: ColumnType) -> Callable[[Value], Value]:
    """Return the conversion between two types; raise `InvalidValue` if TiDB has none.

    NULL converts to NULL.  TiDB converts NULL to the time of the DDL if the column becomes
    TIMESTAMP NOT NULL, a time that the stream does not state.
    """
    old_kind, new_kind = describe(old).kind, describe(new).kind
    if any(old_kind in sources and new_kind in targets for sources, targets in _UNSUPPORTED) or (
        "vector" in (old_kind, new_kind) and old_kind != new_kind
    ):
        raise InvalidValue(f"no conversion from {old.name} to {new.name}")
    if keeps_values(old, new):
        return _same
    change = _CONVERSIONS[new_kind]

    def converted(value: Value) -> Value:
        return None if value is None else change(value, old, new)

    return converted


def _same(value: Value) -> Value:
    return value


def keeps_values(old: ColumnType, new: ColumnType) -> bool:
    """Whether no value changes between the two types."""
    kind = describe(old).kind
    if kind in ("json", "date", "vector"):
        return old.name == new.name
    ours, theirs = (replace(t, charset=None, collation=None, zerofill=False) for t in (old, new))
    if kind in ("integer", "year"):
        # The length of these is for display alone.
        ours, theirs = replace(ours, length=None), replace(theirs, length=None)
    return ours == theirs


def only_widens(old: ColumnType, new: ColumnType) -> bool:
    """Whether every value of the old type is a value of the new type, unchanged."""
    if keeps_values(old, new):
        return True
    ours, theirs = describe(old), describe(new)
    if ours.kind == theirs.kind == "integer":
        (low, high), (lower, higher) = integer_range(old), integer_range(new)
        return lower <= low and high <= higher
    if ours.kind == theirs.kind == "decimal":
        one, other = decimal_shape(old), decimal_shape(new)
        if one is None or other is None or (old.unsigned, new.unsigned) == (False, True):
            return False
        return other[1] >= one[1] and other[0] - other[1] >= one[0] - one[1]
    grown = replace(new, length=old.length, collation=old.collation)
    return old.name in ("varchar", "varbinary") and grown == old and _is_longer(old, new)


def _is_longer(old: ColumnType, new: ColumnType) -> bool:
    return None not in (old.length, new.length) and (new.length or 0) >= (old.length or 0)


_TIMES: tuple[Kind, ...] = ("date", "datetime", "time", "year")

# The conversions that TiDB does not support, as (from, to).
_UNSUPPORTED: tuple[tuple[tuple[Kind, ...], tuple[Kind, ...]], ...] = (
    ((*_TIMES, "text", "binary", "json"), ("bit",)),
    ((*_TIMES, "decimal", "float", "json", "bit"), ("enum", "set")),
    (("enum", "set", "bit", "decimal", "float"), ("date", "datetime")),
    (("enum", "set", "bit"), ("time",)),
)


def _to_json(value: Value, old: ColumnType, new: ColumnType) -> Value:
    match describe(old).kind:
        case "integer" | "year" | "float":
            return json_text.dump(value)
        case "decimal":
            assert isinstance(value, Decimal)
            return json_text.dump(float(value))
        case "datetime" | "time":
            # Always six digits.
            text = str(value)
            whole, _, fraction = text.partition(".")
            return json_text.dump(f"{whole}.{fraction.ljust(6, '0')}")
        case "date":
            return json_text.dump(value)
        case "text" | "binary":
            return json_text.normalise(as_text(value, old))
        case "enum" | "set":
            return _member_json(as_text(value, old))
        case "bit":
            # The bytes are taken for text.
            assert isinstance(value, int)
            data = value.to_bytes(((old.length or 64) + 7) // 8, "big")
            return json_text.dump(_repaired(data))
        case "json":
            return value
        case kind:
            raise InvalidValue(f"no JSON can be made of a {kind}")


def _member_json(text: str) -> str:
    try:
        return json_text.normalise(text)
    except InvalidValue:
        # Since 6.3 TiDB reads names as JSON text, and the DDL would have failed; before, it quoted
        # them.
        return json_text.dump(text)


_CONVERSIONS: dict[Kind, Conversion] = {
    "integer": to_integer,
    "float": to_float,
    "decimal": to_decimal,
    "bit": to_bit,
    "year": to_year,
    "date": to_moment,
    "datetime": to_moment,
    "time": to_time,
    "text": to_text,
    "binary": to_binary,
    "enum": to_enum,
    "set": to_set,
    "json": _to_json,
}


# --- ADD COLUMN --------------------------------------------------------------

_LITERAL = ColumnType("longtext")
_NUMBER = ColumnType("bigint", unsigned=True)
_NOW = ("current_timestamp", "now", "localtime", "localtimestamp")
_TODAY = ("current_date", "curdate")


def backfill(column: Column, commit_ts: int) -> Value:
    """Return the value of existing rows in an added column.

    CURRENT_TIMESTAMP is the time of the statement upstream, for DATETIME in the session's time
    zone; the commit ts, in UTC, is as near as the stream allows.
    """
    type, text = column.type, column.default
    kind = describe(type).kind
    if column.generated is not None:
        raise InvalidValue("the values of a generated column are unknown", column=column.name)
    if text is None:
        return None if column.nullable else _zero(type, kind)
    if kind in ("date", "datetime"):
        now = _current(text, type, commit_ts)
        if now is not None:
            return now
    if column.default_is_expression:
        raise InvalidValue(f"the default is an expression: {text[:80]}", column=column.name)
    if kind == "bit":
        return to_bit(read_value(text, _NUMBER), _NUMBER, type)
    if kind == "binary":
        return to_binary(_as_stored(read_value(text, type)), type, type)
    if kind == "vector" or (kind in ("enum", "set") and type.elements is None):
        return text
    return _CONVERSIONS[kind](text, _LITERAL, type)


def _zero(type: ColumnType, kind: Kind) -> Value:
    """Return the implicit default of a NOT NULL column."""
    match kind:
        case "binary":
            return to_binary(b"", type, type)
        case "enum":
            return type.elements[0] if type.elements else "1"
        case "set":
            return "" if type.elements is not None else "0"
        case "year":
            # TiDB keeps the zero as the text 0, which counts as a year of two digits.
            return 2000
        case "json":
            return "null"
        case "vector":
            raise InvalidValue("a vector has no default")
        case "bit":
            return 0
        case "date" | "datetime" | "time" | "text":
            return _CONVERSIONS[kind](_ZERO_TEXTS[kind], _LITERAL, type)
        case _:
            return _CONVERSIONS[kind]("0", _LITERAL, type)


_ZERO_TEXTS = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "time": "00:00:00",
    "text": "",
}


def _current(text: str, type: ColumnType, commit_ts: int) -> str | None:
    """Evaluate CURRENT_TIMESTAMP and its synonyms; None for any other text."""
    name, _, stated = text.strip("() ").lower().partition("(")
    moment = to_datetime(commit_ts)
    if type.name == "date":
        return moment_text(moment, 0)[:10] if name.strip() in (*_NOW, *_TODAY) else None
    if name.strip() not in _NOW:
        return None
    # Both say the same, where both are known.
    digits = int(stated) if stated in ("1", "2", "3", "4", "5", "6") else 0
    return moment_text(moment, type.decimals if type.decimals is not None else digits)


def _as_stored(value: Value) -> bytes:
    """TiDB keeps a column's default in JSON, where a byte that is no UTF-8 becomes U+FFFD."""
    assert isinstance(value, bytes)
    return _repaired(value).encode()


def _repaired(data: bytes) -> str:
    """Decode UTF-8 as Go does: each byte that belongs to no character becomes U+FFFD."""
    escaped = data.decode(errors="surrogateescape")
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in escaped)
