"""Column types in DDL: a type's declaration to a `ColumnType`.

A missing length gets its default here.  Charsets matter because `CHARACTER SET binary` turns a text
type into a binary one.
"""

from msgspec.structs import replace

from ticdc_assets.events import Charset, ColumnType
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.statement import DeclaredColumn
from ticdc_assets.schema.ddl.tokens import Kind
from ticdc_assets.schema.types.limits import find_excess
from ticdc_assets.schema.types.mysql_type import BINARY_TWINS, SYNONYMS, TYPES

# The most bytes per character, which decides what TEXT(n) is.  TiDB supports no other charsets.
_CHARSET_WIDTHS = {
    "utf8mb4": 4,
    "gb18030": 4,
    "utf32": 4,
    "utf16": 4,
    "utf8": 3,
    "gbk": 2,
    "ucs2": 2,
    "latin1": 1,
    "ascii": 1,
    "binary": 1,
}
_UNKNOWN = Charset("utf8mb4")
_CHARACTER = frozenset({*BINARY_TWINS, "enum", "set"})
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_NUMERIC = _INTEGERS | {"float", "double", "decimal"}
_TIMED = frozenset({"datetime", "timestamp", "time"})
# Types with an optional length in parentheses, and those that require one.
_LENGTH_ALLOWED = _INTEGERS | {
    "bit",
    "char",
    "varchar",
    "binary",
    "varbinary",
    "text",
    "blob",
    "vector",
}
_LENGTH_REQUIRED = frozenset({"varchar", "varbinary"})

# The family of large objects that holds what does not fit the type.
_FAMILIES = {"text": "text", "varchar": "text", "blob": "blob", "varbinary": "blob"}
_MAX_VARCHAR_BYTES = 65_535

_DECIMAL_PRECISION = 10
_FLOAT_DIGITS = 24
_MAX_TYPE_NAME_WORDS = 3


def resolve_type(t: ColumnType, charset: Charset | None, *, binary_collation: bool) -> ColumnType:
    """Return a declared type in a table with this charset; an unknown one is taken for utf8mb4.

    TiDB takes charset and collation together from the column, or else together from its table.
    """
    if t.name not in _CHARACTER:
        return _fit_family(t, 1)
    if t.charset is None:
        inherited = charset or _UNKNOWN
        t = replace(t, charset=inherited.name, collation=inherited.collation)
    if t.charset == "binary" and t.name in BINARY_TWINS:
        return _fit_family(replace(t, name=BINARY_TWINS[t.name], charset=None, collation=None), 1)
    if binary_collation:
        t = replace(t, collation=f"{t.charset}_bin")
    return _fit_family(t, _CHARSET_WIDTHS.get(t.charset or "", 4))


def _fit_family(t: ColumnType, width: int) -> ColumnType:
    """Replace TEXT(n) or BLOB(n) by the smallest type of the family that holds n characters.

    TiDB makes one of a VARCHAR or VARBINARY that is too long, if `sql_mode` is not strict.
    """
    family = _FAMILIES.get(t.name)
    if family is None or t.length is None:
        return t
    size = t.length * width
    if t.name != family and size <= _MAX_VARCHAR_BYTES:
        return t
    names = (prefix + family for prefix in ("tiny", "", "medium", "long"))
    fitting = (name for name in names if size <= (TYPES[name].width or 0))
    return replace(t, name=next(fitting, f"long{family}"), length=None)


def has_charset(t: ColumnType) -> bool:
    """Whether the values of a type are text with a charset."""
    return t.name in _CHARACTER


def read_charset(cursor: Cursor) -> str:
    """Read a charset's name; TiDB calls utf8mb3 utf8."""
    name = cursor.read_word_or_string().lower()
    return "utf8" if name == "utf8mb3" else name


def read_collation(cursor: Cursor) -> str:
    """Read a collation's name."""
    return cursor.read_word_or_string().lower()


def get_charset(collation: str) -> str:
    """Return a collation's charset, the first word of its name."""
    name = collation.partition("_")[0]
    return "utf8" if name == "utf8mb3" else name


def accept_charset(cursor: Cursor) -> bool:
    """Consume CHARACTER SET, CHARSET or CHAR SET if it comes next."""
    return (
        cursor.accept("CHARACTER", "SET")
        or cursor.accept("CHARSET")
        or cursor.accept("CHAR", "SET")
    )


def read_typed_column(name: str, cursor: Cursor) -> DeclaredColumn:
    """Read a column's type with its attributes."""
    spelled = _read_type_name(cursor)
    if spelled == "serial":
        # SERIAL is a type, NOT NULL and a unique key.
        return DeclaredColumn(
            name, ColumnType("bigint", unsigned=True), nullable=False, unique=True
        )
    if spelled in ("bool", "boolean"):
        return DeclaredColumn(name, ColumnType("tinyint", length=1))
    column = DeclaredColumn(name, _read_size(SYNONYMS.get(spelled, spelled), cursor))
    if excess := find_excess(column.type):
        raise cursor.error(excess)
    while _accept_attribute(column, cursor):
        pass
    return column


def _read_type_name(cursor: Cursor) -> str:
    """Read the longest type name that the next words make."""
    words: list[str] = []
    best = 0
    while len(words) < _MAX_TYPE_NAME_WORDS:
        token = cursor.peek(len(words))
        if token.kind is not Kind.WORD:
            break
        words.append(token.text.lower())
        if " ".join(words) in SYNONYMS or " ".join(words) in TYPES:
            best = len(words)
    if not best:
        raise cursor.unexpected("a type")
    cursor.position += best
    return " ".join(words[:best])


def _read_size(name: str, cursor: Cursor) -> ColumnType:
    """Read the length, precision or members after a type's name; fill in the defaults."""
    if name in ("enum", "set"):
        return ColumnType(name, elements=_read_members(cursor.read_group()))
    if name == "vector" and cursor.accept("<"):
        # FLOAT is the only element type that TiDB supports.
        cursor.expect("FLOAT", ">")
    if not cursor.next_is("("):
        if name in _LENGTH_REQUIRED:
            raise cursor.unexpected("a length")
        if name == "decimal":
            return ColumnType(name, length=_DECIMAL_PRECISION, decimals=0)
        return ColumnType(name, length=TYPES[name].length, decimals=0 if name in _TIMED else None)
    first, second = _read_sizes(cursor.read_group())
    if second is None and name in _TIMED:
        return ColumnType(name, decimals=first)
    if second is None and name in _LENGTH_ALLOWED:
        return ColumnType(name, length=first)
    if second is None and name == "year":
        return ColumnType(name, length=TYPES[name].length)
    if second is None and name == "float":
        # FLOAT(p) selects FLOAT or DOUBLE and has no other meaning.
        return ColumnType(name if first <= _FLOAT_DIGITS else "double")
    if name == "decimal":
        return ColumnType(name, length=first or _DECIMAL_PRECISION, decimals=second or 0)
    if name in ("float", "double"):
        return ColumnType(name, length=first, decimals=second)
    raise cursor.error(f"{name} takes no such length")


def _read_sizes(inside: Cursor) -> tuple[int, int | None]:
    first = inside.read_integer()
    second = inside.read_integer() if inside.accept(",") else None
    inside.expect_end()
    return first, second


def _read_members(inside: Cursor) -> tuple[str, ...]:
    """Read the members of an ENUM or SET; MySQL removes their trailing spaces."""
    members: list[str] = []
    while True:
        inside.accept_introducer()
        if inside.token.kind in (Kind.HEX, Kind.BIT):
            members.append(inside.advance().data.decode("utf-8", "surrogateescape"))
        else:
            members.append(inside.read_string())
        if not inside.accept(","):
            break
    inside.expect_end()
    return tuple(member.rstrip(" ") for member in members)


def _accept_attribute(column: DeclaredColumn, cursor: Cursor) -> bool:
    t = column.type
    if t.name in _NUMERIC:
        if cursor.accept("UNSIGNED"):
            column.type = replace(t, unsigned=True)
        elif cursor.accept("ZEROFILL"):
            column.type = replace(t, unsigned=True, zerofill=True)
        else:
            return cursor.accept("SIGNED")
    elif t.name in _CHARACTER:
        if accept_charset(cursor):
            column.type = replace(t, charset=read_charset(cursor))
        elif cursor.accept("ASCII"):
            column.type = replace(t, charset="latin1")
        elif cursor.accept("UNICODE"):
            column.type = replace(t, charset="ucs2")
        elif cursor.accept("BYTE"):
            column.type = replace(t, charset="binary")
        elif cursor.accept("BINARY"):
            column.binary_collation = True
        else:
            return False
    else:
        return False
    return True
