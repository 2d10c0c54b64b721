"""Column definitions in DDL: a name, a type and options in any order.

A column's type may depend on the table's charset, which follows the columns.  So `read_column`
reads the declaration, and `DeclaredColumn.resolve` builds the `Column` once the charset is known.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from ticdc_assets.events import Column, Index
from ticdc_assets.schema.ddl.column_type import (
    DeclaredType,
    get_charset,
    has_charset,
    read_collation,
    read_type,
)
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.default import Default, convert_default, read_default
from ticdc_assets.schema.ddl.indexes import skip_check, skip_reference

_PRIMARY_KEY_WORDS = ("CLUSTERED", "NONCLUSTERED", "GLOBAL", "LOCAL")


@dataclass(slots=True)
class DeclaredColumn:
    """A column as declared, with the indexes that its options declare."""

    name: str
    declaration: DeclaredType
    nullable: bool = True
    default: Default = field(default_factory=Default)
    generated: str | None = None
    comment: str = ""
    primary: bool = False
    unique: bool = False

    def resolve(self, charset: str, collation: str | None = None) -> Column:
        """Return the column of a table with this default charset and collation."""
        type = self.declaration.resolve(charset, collation)
        default, is_expression = convert_default(self.default, type)
        column = Column(
            name=self.name,
            type=type,
            nullable=self.nullable and not self.primary,
            default=default,
            default_is_expression=is_expression,
            comment=self.comment,
        )
        if self.generated is None:
            return column
        return replace(column, generated="stored" if self.generated == "STORED" else "virtual")

    @property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes that the column's options declare; a unique one has no name yet."""
        indexes: list[Index] = []
        if self.primary:
            indexes.append(Index("PRIMARY", (self.name,), unique=True, primary=True))
        if self.unique:
            indexes.append(Index("", (self.name,), unique=True))
        return tuple(indexes)


def read_column(cursor: Cursor) -> DeclaredColumn:
    """Read a column's name, type and options."""
    column = DeclaredColumn(cursor.read_column_name(), read_type(cursor))
    if column.declaration.serial:
        _make_serial(column)
    while _accept_option(column, cursor):
        pass
    return column


def _make_serial(column: DeclaredColumn) -> None:
    column.nullable = False
    column.unique = True


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
        _make_serial(column)
    elif cursor.accept("COMMENT"):
        column.comment = cursor.read_string()
    elif cursor.accept("COLLATE"):
        _set_collation(column, read_collation(cursor))
    elif cursor.accept("GENERATED", "ALWAYS", "AS") or cursor.accept("AS"):
        cursor.read_group()
        column.generated = cursor.accept_any("VIRTUAL", "STORED") or "VIRTUAL"
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
    type = column.declaration.type
    if not has_charset(type):
        return
    charset = type.charset or get_charset(collation)
    column.declaration.type = replace(type, charset=charset, collation=collation)
