"""Stated columns of the Simple protocol, from JSON or Avro, as columns of a `TableSchema`.

The encodings differ, the meaning does not: both decoders pass their fields to the functions here.
"""

from base64 import b64encode
from typing import Annotated

from msgspec import Meta, Struct

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS, find_excess

_BINARY = frozenset({"binary", "varbinary"})
_NUMBERS = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"}
)
_TIMES = frozenset({"date", "datetime", "timestamp", "time"})
# Types that have no literal defaults: a stated default is an expression.
_EXPRESSIONS_ONLY = frozenset(
    {"json", "vector", "tinytext", "text", "mediumtext", "longtext"}
    | {"tinyblob", "blob", "mediumblob", "longblob"}
)
# The types that can have length 0.
_SIZED = frozenset({"char", "varchar", "binary", "varbinary"})
# Avro states fractional digits only by the length of the longest text, JSON also as `decimal`.
_WHOLE_SECONDS = {"datetime": 19, "timestamp": 19, "time": 10}
_ATTRIBUTES = frozenset({"unsigned", "zerofill"})
_LITERAL_STARTS = frozenset("0123456789+-.")
_FRACTION_MAX = 6

I64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class DataType(Struct, frozen=True, rename="camel", gc=False):
    """The type of a column as a message states it; -1 is a length that TiDB leaves open."""

    mysql_type: str
    charset: str = ""
    collate: str = ""
    length: I64 = 0
    decimal: I64 | None = None
    elements: tuple[str, ...] | None = None
    unsigned: bool | None = None
    zerofill: bool | None = None


def column_type(stated: DataType) -> ColumnType:
    """Convert a stated type."""
    name, words = _split_type(stated.mysql_type)
    length = stated.length
    # TiDB flags both as unsigned, and YEAR as zerofill; neither is part of the type.
    plain = name in ("bit", "year")
    type = ColumnType(
        name=name,
        unsigned=(bool(stated.unsigned) or "unsigned" in words) and not plain,
        zerofill=(bool(stated.zerofill) or "zerofill" in words) and not plain,
        length=length if length > 0 or (length == 0 and name in _SIZED) else None,
        decimals=_decimals(name, length, stated.decimal),
        elements=stated.elements or None,
        charset=stated.charset or None,
        collation=stated.collate or None,
    )
    if excess := find_excess(type):
        raise MalformedMessage(excess)
    return type


def check_columns(schema: TableSchema) -> TableSchema:
    """Return the schema of a bootstrap; raise `MalformedMessage` unless a table can have it."""
    if not 0 < len(schema.columns) <= MAX_COLUMNS:
        raise MalformedMessage(TOO_MANY_COLUMNS if schema.columns else "a table without columns")
    return schema


def check_ddl_columns(schema: TableSchema | None) -> TableSchema | None:
    """Return the schema of a DDL, None if it has no columns: then only its statement counts."""
    return check_columns(schema) if schema is not None and schema.columns else None


def _split_type(mysql_type: str) -> tuple[str, list[str]]:
    """Split a type into its name and its attributes.

    TiCDC states attributes apart.  Its document shows them in the type, and BOOL as a type.
    """
    name, *words = mysql_type.lower().split() or [""]
    if not _ATTRIBUTES.issuperset(words):
        return mysql_type.lower(), []
    return ("tinyint" if name in ("bool", "boolean") else name), words


def _decimals(name: str, length: int, stated: int | None) -> int | None:
    if stated:
        return stated if stated > 0 else None
    if name == "decimal":
        return 0
    whole = _WHOLE_SECONDS.get(name)
    if whole is None or length < 0:
        return None
    # The length of datetime(3) is 23: whole seconds, the dot and three digits.
    return min(length - whole - 1, _FRACTION_MAX) if length > whole + 1 else 0


def column(name: str, type: ColumnType, *, nullable: bool, default: int | str | None) -> Column:
    """Build a column from its stated parts."""
    text, is_expression = _default(default, type)
    return Column(
        name=name,
        type=type,
        nullable=nullable,
        default=text,
        default_is_expression=is_expression,
    )


def _default(stated: int | str | None, type: ColumnType) -> tuple[str | None, bool]:
    """Return the default in the row-image convention, and whether it is an expression.

    The protocol does not mark expressions: `uuid()` as the default of a VARCHAR may be a text.  It
    is taken as text, which is right wherever existing rows get the default: TiDB does not allow
    adding a column with such an expression.
    """
    if stated is None:
        return None, False
    if type.name == "bit":
        return _bit(stated), False
    if isinstance(stated, int):
        raise MalformedMessage(f"the default of a {type.name} column is the number {stated}")
    if type.name in _BINARY:
        # TiDB keeps such defaults as text and has lost bytes that are not UTF-8: rows get U+FFFD,
        # whatever the statement says.
        return b64encode(stated.encode("utf-8", "surrogateescape")).decode("ascii"), False
    try:
        stated.encode()
    except UnicodeEncodeError:
        raise MalformedMessage(f"the default of a {type.name} column is not UTF-8") from None
    if type.name in _NUMBERS or type.name in _TIMES:
        return stated, stated[:1] not in _LITERAL_STARTS
    return stated, bool(stated) and type.name in _EXPRESSIONS_ONLY


def _bit(stated: int | str) -> str:
    """Read the default of a BIT: a number in JSON, its raw bytes in Avro."""
    if isinstance(stated, int):
        number = stated
    else:
        number = int.from_bytes(stated.encode("utf-8", "surrogateescape"), "big")
    if not 0 <= number < 1 << 64:
        raise MalformedMessage("the default of a bit column has more than 64 bits")
    return str(number)
