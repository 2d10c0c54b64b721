"""Column types of the simulated upstream: written as in SQL, stated as TiCDC states them.

A type text such as `decimal(10,2)` becomes a `ColumnType` with the lengths that TiDB fills in, so
that every writer finds in it what its protocol states.
"""

import re

from ticdc_assets.events import Column, ColumnType

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"date", "datetime", "timestamp", "time"})
BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
LOBS = {"tiny": 255, "": 65535, "medium": 16777215, "long": 4294967295}

# Display widths that TiDB gives integers: signed, unsigned.
_WIDTHS = {
    "tinyint": (4, 3),
    "smallint": (6, 5),
    "mediumint": (9, 8),
    "int": (11, 10),
    "bigint": (20, 20),
}
_FIXED = {"float": 12, "double": 22, "year": 4, "json": 4294967295, "bit": 1, "char": 1}
_FIXED |= {f"{size}{kind}": length for size, length in LOBS.items() for kind in ("text", "blob")}
_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?((?: unsigned| zerofill)*)")
_MEMBER = re.compile(r"'((?:[^']|'')*)'")


def column_type(text: str) -> ColumnType:
    """Parse a type in lower-case SQL: `int unsigned`, `enum('a','b')`."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"no type of the simulated upstream: {text!r}")
    name, parameters, attributes = match[1], match[2], match[3]
    unsigned = "unsigned" in attributes
    charset, collation = ("binary", "binary")
    if name in TEXTS or name in ("enum", "set"):
        charset, collation = "utf8mb4", "utf8mb4_bin"
    elements = None
    length = decimals = None
    if name in ("enum", "set"):
        elements = tuple(m.replace("''", "'") for m in _MEMBER.findall(parameters or ""))
    elif name in TIMES:
        decimals = int(parameters) if parameters else None
    else:
        numbers = [int(number) for number in parameters.split(",")] if parameters else []
        length = numbers[0] if numbers else _FIXED.get(name)
        if name in _WIDTHS and not numbers:
            length = _WIDTHS[name][unsigned]
        decimals = numbers[1] if len(numbers) > 1 else None
        if name == "decimal":
            length, decimals = length or 10, decimals or 0
    return ColumnType(
        name=name,
        unsigned=unsigned,
        zerofill="zerofill" in attributes,
        length=length,
        decimals=decimals,
        elements=elements,
        charset=charset,
        collation=collation,
    )


def column(
    name: str, type_text: str, *, nullable: bool = True, default: str | None = None
) -> Column:
    """Make a column; the default is the text that TiDB stores."""
    return Column(name, column_type(type_text), nullable=nullable, default=default)


def stated_length(kind: ColumnType) -> int | None:
    """Return the length that schema messages state; TiDB computes it for times, ENUM and SET."""
    fraction = kind.decimals + 1 if kind.decimals else 0
    match kind.name:
        case "date":
            return 10
        case "datetime" | "timestamp":
            return 19 + fraction
        case "time":
            return 10 + fraction
        case "enum":
            return max((len(member.encode()) for member in kind.elements or ()), default=0)
        case "set":
            return len(",".join(kind.elements or ()).encode())
        case _:
            return kind.length


def is_unsigned(kind: ColumnType) -> bool:
    """Return whether TiDB flags the column unsigned, as it does every BIT and YEAR."""
    return kind.unsigned or kind.name in ("bit", "year")


def bit_default(text: str) -> bytes:
    """Return the default of a BIT as TiDB stores it: the fewest raw bytes."""
    number = int(text)
    return number.to_bytes(max((number.bit_length() + 7) // 8, 1), "big")


def type_sql(kind: ColumnType) -> str:
    """Format a type as TiCDC prints it in a DDL."""
    name = kind.name.upper()
    if kind.elements is not None:
        members = ",".join("'" + member.replace("'", "''") + "'" for member in kind.elements)
        name += f"({members})"
    elif kind.name in TIMES:
        name += f"({kind.decimals})" if kind.decimals else ""
    elif kind.name == "decimal":
        name += f"({kind.length},{kind.decimals})"
    elif kind.name in ("char", "varchar", "binary", "varbinary", "bit"):
        name += f"({kind.length})"
    elif kind == column_type(f"tinyint(1){' unsigned' * kind.unsigned}"):
        name += "(1)"
    if kind.name in INTEGERS | FLOATS | {"decimal"}:
        name += " UNSIGNED" * kind.unsigned + " ZEROFILL" * kind.zerofill
    return name


def column_sql(column: Column) -> str:
    """Format the definition of a column as TiCDC prints it."""
    parts = [identifier(column.name), type_sql(column.type)]
    if not column.nullable:
        parts.append("NOT NULL")
    elif column.type.name == "timestamp" and column.default is None:
        parts.append("NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {_default_sql(column)}")
    return " ".join(parts)


def _default_sql(column: Column) -> str:
    text = column.default or ""
    if column.type.name in INTEGERS | FLOATS | {"decimal"}:
        return text
    return "_UTF8MB4'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quote a name with back quotes."""
    return "`" + name.replace("`", "``") + "`"
