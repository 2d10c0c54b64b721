"""Column definitions in DDL: a name, a type and options in any order.

A column is read in two steps, because the charset that its type may depend on stands behind the
columns: `read_column` takes the words, `DeclaredColumn.resolved` makes the `Column`.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from ticdc_assets.events import Column, Index
from ticdc_assets.schema.ddl.column_type import (
    Declaration,
    charset_of,
    collation_name,
    has_charset,
    read_type,
)
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.default import Default, read_default, typed
from ticdc_assets.schema.ddl.indexes import skip_check, skip_reference

_PRIMARY_KEY_WORDS = ("CLUSTERED", "NONCLUSTERED", "GLOBAL", "LOCAL")


@dataclass(slots=True)
class DeclaredColumn:
    """A column as declared, with the indexes its options ask for."""

    name: str
    declaration: Declaration
    nullable: bool = True
    default: Default = field(default_factory=Default)
    generated: str | None = None
    comment: str = ""
    primary: bool = False
    unique: bool = False

    def resolved(self, charset: str, collation: str | None = None) -> Column:
        """Give the column of a table with this default charset and collation."""
        type = self.declaration.resolved(charset, collation)
        default, is_expression = typed(self.default, type)
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
        """The indexes that the column's own options make; the unique one has no name yet."""
        made: list[Index] = []
        if self.primary:
            made.append(Index("PRIMARY", (self.name,), unique=True, primary=True))
        if self.unique:
            made.append(Index("", (self.name,), unique=True))
        return tuple(made)


def read_column(cursor: Cursor) -> DeclaredColumn:
    """Take a column's name, type and options."""
    column = DeclaredColumn(cursor.column(), read_type(cursor))
    if column.declaration.serial:
        _make_serial(column)
    while _take_option(column, cursor):
        pass
    return column


def _make_serial(column: DeclaredColumn) -> None:
    column.nullable = False
    column.unique = True


def _take_option(column: DeclaredColumn, cursor: Cursor) -> bool:
    """Take one option, if one is next."""
    if cursor.take("NOT", "NULL"):
        column.nullable = False
    elif cursor.take("NULL"):
        column.nullable = True
    elif cursor.take("DEFAULT"):
        column.default = read_default(cursor)
    elif cursor.take("ON", "UPDATE"):
        # What rows get on update is in the rows.
        read_default(cursor)
    elif cursor.take("AUTO_INCREMENT"):
        column.nullable = False
    elif cursor.take("SERIAL", "DEFAULT", "VALUE"):
        _make_serial(column)
    elif cursor.take("COMMENT"):
        column.comment = cursor.string()
    elif cursor.take("COLLATE"):
        _collate(column, collation_name(cursor))
    elif cursor.take("GENERATED", "ALWAYS", "AS") or cursor.take("AS"):
        cursor.inside()
        column.generated = cursor.take_any("VIRTUAL", "STORED") or "VIRTUAL"
    else:
        return _take_key(column, cursor) or _take_idle_option(cursor)
    return True


def _take_key(column: DeclaredColumn, cursor: Cursor) -> bool:
    if cursor.take("PRIMARY", "KEY") or cursor.take("KEY"):
        column.primary = True
    elif cursor.take("UNIQUE"):
        cursor.take("KEY")
        column.unique = True
    else:
        return False
    while cursor.take_any(*_PRIMARY_KEY_WORDS):
        pass
    return True


def _take_idle_option(cursor: Cursor) -> bool:
    """Step over an option that says nothing about rows or the column's shape."""
    if cursor.take_any("AUTO_RANDOM"):
        if cursor.sees("("):
            cursor.inside()
    elif cursor.take_any("COLUMN_FORMAT", "STORAGE"):
        if not cursor.take_any("DEFAULT", "FIXED", "DYNAMIC", "DISK", "MEMORY"):
            raise cursor.unexpected("a storage format")
    elif cursor.take_any("SECONDARY_ENGINE_ATTRIBUTE", "ENGINE_ATTRIBUTE"):
        cursor.take("=")
        cursor.string()
    elif cursor.sees_any("CHECK", "CONSTRAINT"):
        skip_check(cursor)
    elif cursor.sees("REFERENCES"):
        skip_reference(cursor)
    else:
        return bool(cursor.take_any("VISIBLE"))
    return True


def _collate(column: DeclaredColumn, collation: str) -> None:
    type = column.declaration.type
    if not has_charset(type):
        return
    charset = type.charset or charset_of(collation)
    column.declaration.type = replace(type, charset=charset, collation=collation)
