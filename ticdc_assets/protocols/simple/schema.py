"""What Simple's JSON and Avro say alike of tables: stated columns and indexes to `TableSchema`.

The wire shapes differ, the meaning does not: both decoders hand their plain fields to the functions
here.  Nothing is looked up and no DDL is read.
"""

from base64 import b64encode

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, ColumnType

_BINARY = frozenset({"binary", "varbinary"})
_NUMBERS = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"}
)
_TIMES = frozenset({"date", "datetime", "timestamp", "time"})
# Types whose literals cannot be defaults: what looks like one is an expression.
_EXPRESSIONS_ONLY = frozenset(
    {"json", "vector", "tinytext", "text", "mediumtext", "longtext"}
    | {"tinyblob", "blob", "mediumblob", "longblob"}
)
# The length 0 means something for these only.
_SIZED = frozenset({"char", "varchar", "binary", "varbinary"})
# Fractional digits are stated as `decimal` or, in Avro, only by the length of the longest text.
_WHOLE_SECONDS = {"datetime": 19, "timestamp": 19, "time": 10}
_LITERAL_STARTS = frozenset("0123456789+-.")
_FRACTION_MAX = 6


def column_type(
    name: str,
    *,
    length: int,
    decimals: int | None,
    elements: tuple[str, ...] | None,
    unsigned: bool,
    zerofill: bool,
    charset: str,
    collation: str,
) -> ColumnType:
    """Put a stated type together; lengths of -1 are those TiDB leaves open."""
    name = name.lower()
    # TiDB flags both as unsigned, YEAR as zerofill too; neither is part of the type.
    plain = name in ("bit", "year")
    return ColumnType(
        name=name,
        unsigned=unsigned and not plain,
        zerofill=zerofill and not plain,
        length=length if length > 0 or (length == 0 and name in _SIZED) else None,
        decimals=_decimals(name, length, decimals),
        elements=elements or None,
        charset=charset or None,
        collation=collation or None,
    )


def _decimals(name: str, length: int, stated: int | None) -> int | None:
    if stated:
        return stated if stated > 0 else None
    if name == "decimal":
        return 0
    whole = _WHOLE_SECONDS.get(name)
    if whole is None or length < 0:
        return None
    # Datetime(3) is 23 long: the seconds, the dot and three digits.
    return min(length - whole - 1, _FRACTION_MAX) if length > whole + 1 else 0


def column(name: str, type: ColumnType, *, nullable: bool, default: int | str | None) -> Column:
    """Put a stated column together."""
    text, is_expression = _default(default, type)
    return Column(
        name=name,
        type=type,
        nullable=nullable,
        default=text,
        default_is_expression=is_expression,
    )


def _default(stated: int | str | None, type: ColumnType) -> tuple[str | None, bool]:
    """The default in the row-image convention, and whether it is an expression.

    Nothing marks expressions.  `uuid()` as the default of a VARCHAR cannot be told from that text;
    it is taken as text, which is right wherever existing rows get it: TiDB refuses to add a column
    with such a default.
    """
    if stated is None:
        return None, False
    if type.name == "bit":
        return _bit(stated), False
    if isinstance(stated, int):
        raise MalformedMessage(f"the default of a {type.name} column is the number {stated}")
    if type.name in _BINARY:
        # TiDB itself keeps such defaults as text and has lost bytes that are not UTF-8: rows get
        # U+FFFD, whatever the statement said.
        return b64encode(stated.encode("utf-8", "surrogateescape")).decode("ascii"), False
    try:
        stated.encode()
    except UnicodeEncodeError:
        raise MalformedMessage(f"the default of a {type.name} column is not UTF-8") from None
    if type.name in _NUMBERS or type.name in _TIMES:
        return stated, stated[:1] not in _LITERAL_STARTS
    return stated, bool(stated) and type.name in _EXPRESSIONS_ONLY


def _bit(stated: int | str) -> str:
    """JSON states a number, Avro the bytes of one."""
    if isinstance(stated, int):
        number = stated
    else:
        number = int.from_bytes(stated.encode("utf-8", "surrogateescape"), "big")
    if not 0 <= number < 1 << 64:
        raise MalformedMessage("the default of a bit column has more than 64 bits")
    return str(number)
