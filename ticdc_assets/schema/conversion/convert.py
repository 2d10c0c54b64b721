"""Converting values for MODIFY COLUMN, and computing them for ADD COLUMN.

A table dispatches on the kind of the target type; `number`, `text`, `time` and `json_text` hold the
rules of each kind.
"""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache, partial

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.schema.conversion import json_text
from ticdc_assets.schema.conversion.number import to_bit, to_decimal, to_float, to_integer, to_year
from ticdc_assets.schema.conversion.text import as_text, to_binary, to_enum, to_set, to_text
from ticdc_assets.schema.conversion.time import format_moment, to_moment, to_time
from ticdc_assets.schema.conversion.time_zone import to_local
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    describe,
    integer_range,
)
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value

Conversion = Callable[[Value, ColumnType, ColumnType], Value]


def convert_value(
    value: Value, old: ColumnType, new: ColumnType, zone: tzinfo | None = None
) -> Value:
    """Convert one value to another type; use `make_converter` for many values."""
    return make_converter(old, new, zone)(value)


@lru_cache(1024)
def make_converter(
    old: ColumnType, new: ColumnType, zone: tzinfo | None = None
) -> Callable[[Value], Value]:
    """Return the conversion between two types; raise `InvalidValue` if TiDB has none.

    `zone` is the time zone of the DDL's session, if it is known; `time` says what depends on it.
    NULL converts to NULL, even if the column becomes TIMESTAMP NOT NULL: TiDB then stores the time
    of the DDL, which the stream does not state.
    """
    old_kind, new_kind = describe(old).kind, describe(new).kind
    if any(old_kind in sources and new_kind in targets for sources, targets in _UNSUPPORTED) or (
        "vector" in (old_kind, new_kind) and old_kind != new_kind
    ):
        raise InvalidValue(f"no conversion from {old.name} to {new.name}")
    if keeps_values(old, new):
        return _keep
    in_zone = _IN_ZONE.get(new_kind)
    convert = _CONVERSIONS[new_kind] if in_zone is None else partial(in_zone, zone=zone)
    leaves_utc = old.name == "timestamp" != new.name

    def convert_or_null(value: Value) -> Value:
        if value is None:
            return None
        return convert(to_local(str(value), zone) if leaves_utc else value, old, new)

    return convert_or_null


def _keep(value: Value) -> Value:
    return value


def keeps_values(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value keeps its typed form when the column changes its type."""
    kind = describe(old).kind
    if kind in ("json", "date", "vector"):
        return old.name == new.name
    if kind in ("text", "binary", "float") and not rewrites_rows(old, new):
        return True
    before, after = (replace(t, charset=None, collation=None, zerofill=False) for t in (old, new))
    if kind in ("integer", "year"):
        # The length of these types is only a display width.
        before, after = replace(before, length=None), replace(after, length=None)
    return before == after


def only_widens(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value of the old type is the same value of the new type."""
    if keeps_values(old, new):
        return True
    old_kind, new_kind = describe(old).kind, describe(new).kind
    if old_kind == new_kind == "integer":
        (old_low, old_high), (new_low, new_high) = integer_range(old), integer_range(new)
        return new_low <= old_low and old_high <= new_high
    if old_kind == new_kind == "decimal":
        old_shape, new_shape = decimal_shape(old), decimal_shape(new)
        if old_shape is None or new_shape is None or (new.unsigned and not old.unsigned):
            return False
        (old_precision, old_scale), (new_precision, new_scale) = old_shape, new_shape
        return new_scale >= old_scale and new_precision - new_scale >= old_precision - old_scale
    return False


# What TiDB takes for the length of a FLOAT or DOUBLE that states none.
_FLOAT_LENGTHS = {"float": 12, "double": 22}
_FIXED = frozenset({"char", "binary"})
_VARYING = frozenset({"varchar", "var_string", "varbinary"})


def rewrites_rows(old: ColumnType, new: ColumnType) -> bool:
    """Return whether TiDB writes all rows anew when a text, binary or float changes its type.

    Otherwise stored values stay as they are, even those that the new type would cut, strip, pad or
    round.  Follows `needChangeColumnData` in TiDB's `pkg/ddl`: it compares the lengths of texts in
    whatever unit a type has, characters of VARCHAR with bytes of TEXT.
    """
    before, after = describe(old), describe(new)
    if before.kind != after.kind:
        return True
    if before.kind == "float":
        if before != after or old.unsigned != new.unsigned:
            return True
        shapes = [
            (t.length or _FLOAT_LENGTHS[t.name], -1 if t.decimals is None else t.decimals)
            for t in (old, new)
        ]
        return any(narrow < wide for wide, narrow in zip(*shapes, strict=True))
    names = {before.name, after.name}
    is_padded = names == {"binary"} and old.length != new.length
    if is_padded or (names & _FIXED and names & _VARYING):
        return True
    old_length, new_length = before.width or old.length, after.width or new.length
    return old_length is None or new_length is None or new_length < old_length


_TIMES: tuple[Kind, ...] = ("date", "datetime", "time", "year")

# Conversions that TiDB does not support, as (kinds of the old type, kinds of the new type).
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
            # TiDB always prints six fractional digits.
            text = str(value)
            whole, _, fraction = text.partition(".")
            return json_text.dump(f"{whole}.{fraction.ljust(6, '0')}")
        case "date":
            return json_text.dump(value)
        case "text" | "binary":
            return json_text.normalize(as_text(value, old))
        case "enum" | "set":
            return _member_to_json(as_text(value, old))
        case "bit":
            # TiDB reads the bytes as text.
            assert isinstance(value, int)
            data = value.to_bytes(((old.length or 64) + 7) // 8, "big")
            return json_text.dump(_decode_leniently(data))
        case "json":
            return value
        case kind:
            raise InvalidValue(f"no conversion from {kind} to json")


def _member_to_json(text: str) -> str:
    try:
        return json_text.normalize(text)
    except InvalidValue:
        # TiDB before 6.3 quotes the member's name.  Later versions parse it as JSON, so the DDL
        # would have failed.
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
# Conversions that may depend on the session's time zone.
_IN_ZONE: dict[Kind, Callable[..., Value]] = {
    "date": to_moment,
    "datetime": to_moment,
    "time": to_time,
}


# --- ADD COLUMN --------------------------------------------------------------

_LITERAL = ColumnType("longtext")
_NUMBER = ColumnType("bigint", unsigned=True)
_NOW = ("current_timestamp", "now", "localtime", "localtimestamp")
_TODAY = ("current_date", "curdate")


def backfill(column: Column, commit_ts: int, zone: tzinfo | None = None) -> Value:
    """Return the value of existing rows in an added column; `zone` is as for `make_converter`.

    TiDB evaluates CURRENT_TIMESTAMP at the time of the statement, for DATETIME in the session's
    time zone.  The stream does not state that time, so the commit ts approximates it.
    """
    type, text = column.type, column.default
    kind = describe(type).kind
    if column.generated is not None:
        raise InvalidValue("the values of a generated column are unknown", column=column.name)
    if text is None:
        return None if column.nullable else _make_implicit_default(type, kind)
    if kind in ("date", "datetime"):
        now = _evaluate_current_time(text, type, to_datetime(commit_ts).astimezone(zone or UTC))
        if now is not None:
            return now
    if column.default_is_expression:
        raise InvalidValue(f"the default is an expression: {text[:80]}", column=column.name)
    if kind == "bit":
        return to_bit(read_value(text, _NUMBER), _NUMBER, type)
    if kind == "binary":
        return to_binary(_restore_default(read_value(text, type)), type, type)
    if kind == "vector" or (kind in ("enum", "set") and type.elements is None):
        return text
    return convert_value(text, _LITERAL, type, zone)


def _make_implicit_default(type: ColumnType, kind: Kind) -> Value:
    """Return the implicit default of a NOT NULL column."""
    match kind:
        case "binary":
            return to_binary(b"", type, type)
        case "enum":
            return type.elements[0] if type.elements else "1"
        case "set":
            return "" if type.elements is not None else "0"
        case "json":
            return "null"
        case "vector":
            raise InvalidValue("a vector has no default")
        case "bit" | "year":
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


def _evaluate_current_time(text: str, type: ColumnType, local: datetime) -> str | None:
    """Evaluate CURRENT_TIMESTAMP and its synonyms; None for any other text."""
    name, _, stated = text.strip("() ").lower().partition("(")
    moment = local.astimezone(UTC) if type.name == "timestamp" else local
    if type.name == "date":
        return format_moment(moment, 0)[:10] if name.strip() in (*_NOW, *_TODAY) else None
    if name.strip() not in _NOW:
        return None
    # The column type and the expression state the same number of fractional digits.
    digits = int(stated) if stated in ("1", "2", "3", "4", "5", "6") else 0
    return format_moment(moment, type.decimals if type.decimals is not None else digits)


def _restore_default(value: Value) -> bytes:
    """Return a default as TiDB stores it: in JSON, where an invalid byte becomes U+FFFD."""
    assert isinstance(value, bytes)
    return _decode_leniently(value).encode()


def _decode_leniently(data: bytes) -> str:
    """Decode UTF-8 as Go does: each invalid byte becomes U+FFFD."""
    escaped = data.decode(errors="surrogateescape")
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in escaped)
