"""Column definitions in DDL: a name, a type and options in any order.

A column's type may depend on the charset of its table or database.  So `read_column` reads the
declaration, and `resolve_column` builds the `Column` once the charset is known.
"""

from msgspec.structs import replace

from ticdc_assets.events import Charset, Column, Index
from ticdc_assets.schema.ddl.column_type import (
    get_charset,
    has_charset,
    read_collation,
    read_typed_column,
    resolve_type,
)
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.default import convert_default, read_default
from ticdc_assets.schema.ddl.indexes import skip_check, skip_reference
from ticdc_assets.schema.ddl.statement import DeclaredColumn

_PRIMARY_KEY_WORDS = ("CLUSTERED", "NONCLUSTERED", "GLOBAL", "LOCAL")


def resolve_column(declared: DeclaredColumn, charset: Charset | None) -> Column:
    """Return the column of a table with this charset, None if that is unknown."""
    binary_collation = declared.binary_collation
    type = resolve_type(declared.type, charset, binary_collation=binary_collation)
    default, is_expression = convert_default(declared.default, type)
    return Column(
        name=declared.name,
        type=type,
        nullable=declared.nullable and not declared.primary,
        default=default,
        default_is_expression=is_expression,
        generated=declared.generated,
        comment=declared.comment,
    )


def list_indexes(column: DeclaredColumn) -> tuple[Index, ...]:
    """List the indexes that a column's options declare; a unique one has no name yet."""
    indexes: list[Index] = []
    if column.primary:
        indexes.append(Index("PRIMARY", (column.name,), unique=True, primary=True))
    if column.unique:
        indexes.append(Index("", (column.name,), unique=True))
    return tuple(indexes)


def read_column(cursor: Cursor) -> DeclaredColumn:
    """Read a column's name, type and options."""
    column = read_typed_column(cursor.read_column_name(), cursor)
    while _accept_option(column, cursor):
        pass
    return column


def _accept_option(column: DeclaredColumn, cursor: Cursor) -> bool:
    """Read one option, if one comes next."""
    if cursor.accept("NOT", "NULL"):
        column.nullable = False
    elif cursor.accept("NULL"):
        column.nullable = True
    elif cursor.accept("DEFAULT"):
        column.default = read_default(cursor)
    elif cursor.accept("ON", "UPDATE"):
        # The row events carry the value that ON UPDATE gives.
        read_default(cursor)
    elif cursor.accept("AUTO_INCREMENT"):
        column.nullable = False
    elif cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        column.nullable = False
        column.unique = True
    elif cursor.accept("COMMENT"):
        column.comment = cursor.read_string()
    elif cursor.accept("COLLATE"):
        _set_collation(column, read_collation(cursor))
    elif cursor.accept("GENERATED", "ALWAYS", "AS") or cursor.accept("AS"):
        cursor.read_group()
        is_stored = cursor.accept_any("VIRTUAL", "STORED") == "STORED"
        column.generated = "stored" if is_stored else "virtual"
    else:
        return _accept_key(column, cursor) or _skip_ignored_option(cursor)
    return True


def _accept_key(column: DeclaredColumn, cursor: Cursor) -> bool:
    if cursor.accept("PRIMARY", "KEY") or cursor.accept("KEY"):
        column.primary = True
    elif cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        column.unique = True
    else:
        return False
    while cursor.accept_any(*_PRIMARY_KEY_WORDS):
        pass
    return True


def _skip_ignored_option(cursor: Cursor) -> bool:
    """Skip an option that affects neither rows nor the column's type, if one comes next."""
    if cursor.accept_any("AUTO_RANDOM"):
        if cursor.next_is("("):
            cursor.read_group()
    elif cursor.accept_any("COLUMN_FORMAT", "STORAGE"):
        if not cursor.accept_any("DEFAULT", "FIXED", "DYNAMIC", "DISK", "MEMORY"):
            raise cursor.unexpected("a storage format")
    elif cursor.accept_any("SECONDARY_ENGINE_ATTRIBUTE", "ENGINE_ATTRIBUTE"):
        cursor.accept("=")
        cursor.read_string()
    elif cursor.next_is_any("CHECK", "CONSTRAINT"):
        skip_check(cursor)
    elif cursor.next_is("REFERENCES"):
        skip_reference(cursor)
    else:
        return bool(cursor.accept_any("VISIBLE"))
    return True


def _set_collation(column: DeclaredColumn, collation: str) -> None:
    type = column.type
    if has_charset(type):
        charset = type.charset or get_charset(collation)
        column.type = replace(type, charset=charset, collation=collation)
