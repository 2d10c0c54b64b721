"""Reading, comparing and hashing column values as partitioning does.

RANGE COLUMNS and LIST COLUMNS compare a row's values with bounds converted to the column's type.
KEY partitioning hashes the text of a value under its collation.
"""

from collections.abc import Callable
from typing import Any

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.schema.conversion.convert import convert_value
from ticdc_assets.schema.ddl_context import DECLARE_COLLATION
from ticdc_assets.schema.partition.calendar import parse_time
from ticdc_assets.schema.partition.collation import (
    get_collation,
    make_collation_sort_key,
    make_hash_key,
)
from ticdc_assets.schema.partition.function import Constant, Row
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_writer import make_writer

UNKNOWN_COLLATION = (
    "the partition of a row depends on the collation of a text, which no message states;"
    f" {DECLARE_COLLATION}"
)

# Computes a key that sorts as TiDB sorts the value, which is never NULL.
SortKey = Callable[[Any], Any]


def make_column_reader(column: Column) -> Callable[[Row], Any]:
    """Return the function that reads a column's value from a row, in any case of its name."""
    name = column.name
    folded = name.casefold()

    def read(row: Row) -> Value:
        try:
            return row[name]
        except KeyError:
            for spelled, value in row.items():
                if spelled.casefold() == folded:
                    return value
        raise InvalidValue("the row lacks this partitioning column", column=name)

    return read


def make_sort_key(column: Column) -> SortKey:
    """Return the function that computes the sort key of a column's values."""
    kind = _get_comparable_kind(column)
    if kind == "text":
        return make_collation_sort_key(_require_collation(column))
    return {"datetime": _pad_datetime, "time": _count_microseconds}.get(kind, _return_unchanged)


def convert_bound(bound: Constant, column: Column) -> Value:
    """Convert a bound or list value to the column's type, as TiDB does when it is declared."""
    kind = _get_comparable_kind(column)
    if bound is None or (kind == "integer" and isinstance(bound, int)):
        return bound
    if not isinstance(bound, _ACCEPTED[kind]):
        raise InvalidValue(f"{bound!r} is not a {column.type.name}", column=column.name)
    return convert_value(bound, _LITERALS[type(bound)], column.type)


def make_hash(column: Column) -> Callable[[Value], bytes]:
    """Return the function that encodes a column's values for KEY partitioning."""
    hash_value = _make_not_null_hash(column)

    def hash_or_null(value: Value) -> bytes:
        return b"\0" if value is None else hash_value(value)

    return hash_or_null


def lacks_collation(column: Column) -> bool:
    """Whether texts of a column compare by a collation that nothing states."""
    is_text = describe(column.type).kind in ("text", "enum", "set")
    return is_text and get_collation(column.type) is None


def _require_collation(column: Column) -> str:
    collation = get_collation(column.type)
    if collation is None:
        raise InvalidValue(UNKNOWN_COLLATION, column=column.name)
    return collation


def _get_comparable_kind(column: Column) -> Kind:
    name = column.type.name
    kind = describe(column.type).kind
    if kind not in _ACCEPTED or name.endswith(("text", "blob")) or name == "timestamp":
        raise InvalidValue(
            f"RANGE or LIST COLUMNS by a {name} is not supported", column=column.name
        )
    return kind


# The Python types of the literals that TiDB accepts as bounds of a column, by its kind.
_ACCEPTED: dict[Kind, tuple[type, ...]] = {
    "integer": (int,),
    "text": (str, bytes, int),
    "binary": (str, bytes, int),
    "date": (str,),
    "datetime": (str,),
    "time": (str,),
}

_LITERALS: dict[type, ColumnType] = {
    int: ColumnType("bigint"),
    str: ColumnType("varchar"),
    bytes: ColumnType("varbinary"),
}


# --- comparison keys ---------------------------------------------------------


def _return_unchanged(value: Any) -> Any:
    return value


def _pad_datetime(text: str) -> str:
    """Pad the fraction to six digits, so that the texts sort chronologically."""
    return f"{text}.000000" if len(text) == 19 else text.ljust(26, "0")


def _count_microseconds(text: str) -> int:
    return parse_time(text).microseconds


# --- hashing -----------------------------------------------------------------


def _make_not_null_hash(column: Column) -> Callable[[Any], bytes]:
    type = column.type
    kind = describe(type).kind
    if type.name == "timestamp":
        # TiDB hashes the text in the time zone of the session that writes the row.
        raise InvalidValue(
            "KEY partitioning by a timestamp depends on the session's time zone",
            column=column.name,
        )
    if kind in ("integer", "year"):
        return lambda value: str(value).encode()
    if kind in ("float", "decimal", "date", "datetime", "time"):
        write = make_writer(type)
        return lambda value: (write(value) or "").encode()
    if kind == "bit":
        size = ((type.length or 1) + 7) // 8
        # TiDB hashes the bytes as text, so trailing spaces do not count.
        return lambda value: int(value).to_bytes(size).rstrip(b" ")
    if kind == "binary" and not type.name.endswith("blob"):
        return _return_unchanged
    if kind in ("enum", "set") or (kind == "text" and not type.name.endswith("text")):
        if kind != "text" and type.elements is None:
            raise InvalidValue(f"the members of the {kind} are unknown", column=column.name)
        collation = _require_collation(column)
        key = make_hash_key(collation)
        if key is None:
            reason = f"KEY partitioning under collation {collation} is not supported"
            raise InvalidValue(reason, column=column.name)
        return key
    raise InvalidValue(f"KEY partitioning by a {type.name} is not supported", column=column.name)
