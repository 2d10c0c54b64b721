"""Column defaults in schema files, converted to the row-image convention.

TiDB stores every default as a string: numbers as digits, ENUM and SET by name, TIMESTAMP in UTC,
BIT and binary types as raw bytes; it does not mark expressions.  Its metadata replaces bytes that
are not UTF-8 by U+FFFD.  In binary columns TiDB fills in that replaced default, unlike the
statement's; for BIT the file no longer has the value.
"""

import re
from base64 import b64encode
from typing import NamedTuple

from ticdc_assets.events import ColumnType

_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_NUMERIC = frozenset(
    "tinyint smallint mediumint int bigint float double decimal year".split()  # noqa: SIM905
)
_TIME = frozenset({"date", "datetime", "timestamp", "time"})

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TIME_START = re.compile(r"-?[0-9]")
# The functions that TiDB allows as the default of a text or binary column.
_CALL = re.compile(
    r"(?:uuid|uuid_to_bin|rand|date_format|replace|upper|substring_index|str_to_date|nextval"
    r"|json_object|json_array|json_quote|vec_from_text|current_date|user|current_user)\s*\(.*\)",
    re.IGNORECASE | re.DOTALL,
)

# A default in a schema file is a JSON scalar.
Stated = str | int | float | bool | None


class ColumnDefault(NamedTuple):
    text: str | None = None
    is_expression: bool = False


def read_default(stated: Stated, column_type: ColumnType) -> ColumnDefault:
    """Convert a stated default to the row-image convention of its column's type."""
    if stated is None:
        return ColumnDefault()
    if not isinstance(stated, str):
        return ColumnDefault(str(int(stated)) if isinstance(stated, bool) else str(stated))
    name = column_type.name
    if name == "bit":
        return _read_bit(stated)
    if name in ("enum", "set"):
        return ColumnDefault(stated)
    if name in _NUMERIC:
        return ColumnDefault(stated, is_expression=_NUMBER.fullmatch(stated) is None)
    if name in _TIME:
        return ColumnDefault(stated, is_expression=_TIME_START.match(stated) is None)
    if _CALL.fullmatch(stated) is not None:
        return ColumnDefault(stated, is_expression=True)
    if name in _BINARY:
        return ColumnDefault(b64encode(stated.encode()).decode())
    return ColumnDefault(stated)


def _read_bit(stated: str) -> ColumnDefault:
    if "\N{REPLACEMENT CHARACTER}" in stated:
        # TiDB lost bytes of this value; only the statement has them.
        return ColumnDefault()
    return ColumnDefault(str(int.from_bytes(stated.encode(), "big")))
