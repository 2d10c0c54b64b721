"""Column values as partitioning compares and hashes them.

The `columns` forms compare a row's values with bounds that were converted to the column's type; KEY
partitioning hashes the text of a value under its collation.  Partitions are not known here.
"""

from collections.abc import Callable
from typing import Any

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.schema.conversion.convert import convert_value
from ticdc_assets.schema.partition.calendar import read_clock
from ticdc_assets.schema.partition.collation import collation_of, hash_key, sort_key
from ticdc_assets.schema.partition.function import Constant
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_writer import make_writer

# Makes of a value, which is not NULL, something that compares as TiDB compares the values.
Compare = Callable[[Any], Any]


def comparison(column: Column) -> Compare:
    """Make the function that gives the comparison key of a column's values."""
    type = column.type
    kind = _comparable_kind(column)
    if kind == "text":
        return sort_key(collation_of(type))
    return {"datetime": _datetime_key, "time": _time_key}.get(kind, _as_it_is)


def convert_bound(bound: Constant, column: Column) -> Value:
    """Convert a bound or a list value to the column's type, as TiDB does when it is declared."""
    kind = _comparable_kind(column)
    if bound is None or (kind == "integer" and isinstance(bound, int)):
        return bound
    if not isinstance(bound, _ACCEPTED[kind]):
        raise InvalidValue(f"{bound!r} is no {column.type.name}", column=column.name)
    return convert_value(bound, _LITERALS[type(bound)], column.type)


def hashing(column: Column) -> Callable[[Value], bytes]:
    """Make the function that gives what KEY partitioning hashes of a column's values."""
    hash_value = _hash_not_null(column)

    def hash_or_null(value: Value) -> bytes:
        return b"\0" if value is None else hash_value(value)

    return hash_or_null


def _comparable_kind(column: Column) -> Kind:
    name = column.type.name
    kind = describe(column.type).kind
    if kind not in _ACCEPTED or name.endswith(("text", "blob")) or name == "timestamp":
        raise InvalidValue(f"a {name} cannot be partitioned by", column=column.name)
    return kind


# What may stand for a bound of a column.
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


def _as_it_is(value: Any) -> Any:
    return value


def _datetime_key(text: str) -> str:
    """Give all texts as many fractional digits, so that they compare as texts."""
    return f"{text}.000000" if len(text) == 19 else text.ljust(26, "0")


def _time_key(text: str) -> int:
    return read_clock(text).microseconds


# --- hashing -----------------------------------------------------------------


def _hash_not_null(column: Column) -> Callable[[Any], bytes]:
    type = column.type
    kind = describe(type).kind
    if type.name == "timestamp":
        # TiDB hashes the text in the zone of the session that writes the row.
        raise InvalidValue("KEY partitioning by a timestamp", column=column.name)
    if kind in ("integer", "year"):
        return lambda value: str(value).encode()
    if kind in ("float", "decimal", "date", "datetime", "time"):
        write = make_writer(type)
        return lambda value: (write(value) or "").encode()
    if kind == "bit":
        size = ((type.length or 1) + 7) // 8
        # The raw bytes, as a text: trailing blanks do not count.
        return lambda value: int(value).to_bytes(size).rstrip(b" ")
    if kind == "binary" and not type.name.endswith("blob"):
        return _as_it_is
    if kind in ("enum", "set") or (kind == "text" and not type.name.endswith("text")):
        if kind != "text" and type.elements is None:
            raise InvalidValue(f"the members of the {kind} are not known", column=column.name)
        key = hash_key(collation_of(type))
        if key is None:
            reason = f"KEY partitioning under collation {collation_of(type)}"
            raise InvalidValue(reason, column=column.name)
        return key
    raise InvalidValue(f"KEY partitioning by a {type.name}", column=column.name)
