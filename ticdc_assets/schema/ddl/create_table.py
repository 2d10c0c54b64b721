"""CREATE TABLE, and the list of columns and indexes that it shares with ALTER TABLE … ADD (…)."""

from ticdc_assets.events import Index
from ticdc_assets.schema.ddl.columns import list_indexes, read_column
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.indexes import name_indexes, next_is_index, read_index
from ticdc_assets.schema.ddl.options import TableOptions, accept_option
from ticdc_assets.schema.ddl.partitions import read_partitioning
from ticdc_assets.schema.ddl.statement import (
    CreateTable,
    CreateTableLike,
    DeclaredColumn,
    Name,
)
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS

# The words that start a query after the columns: CREATE TABLE … AS SELECT.
_QUERY_STARTS = ("AS", "SELECT", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES", "(")

Element = DeclaredColumn | Index


def read_create_table(cursor: Cursor) -> CreateTable | CreateTableLike:
    """Read CREATE [TEMPORARY] TABLE after these words."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.read_table_name()
    if cursor.accept("LIKE"):
        return _read_like(cursor, name, if_not_exists)
    if cursor.next_is("(", "LIKE"):
        inside = cursor.read_group()
        inside.expect("LIKE")
        statement = _read_like(inside, name, if_not_exists)
        inside.expect_end()
        return statement
    if not cursor.next_is("("):
        raise cursor.unexpected("columns")
    elements = read_elements(cursor)
    options = TableOptions()
    partitioning = None
    while not cursor.at_end():
        if cursor.accept("PARTITION", "BY"):
            partitioning = read_partitioning(cursor)
        elif cursor.next_is_any(*_QUERY_STARTS):
            raise cursor.error(
                "CREATE TABLE … AS SELECT is not supported: its rows are not in the statement"
            )
        elif cursor.accept("ON", "COMMIT"):
            _skip_on_commit(cursor)
        elif not cursor.accept(",") and not accept_option(cursor, options, any_name=True):
            raise cursor.unexpected("a table option")
    columns = [e for e in elements if isinstance(e, DeclaredColumn)]
    if len(columns) > MAX_COLUMNS:
        raise cursor.error(TOO_MANY_COLUMNS)
    indexes = _indexes(elements, columns)
    return CreateTable(
        name=name,
        columns=_columns(columns, indexes),
        indexes=indexes,
        partitioning=partitioning,
        charset=options.charset,
        comment=options.comment or "",
        if_not_exists=if_not_exists,
    )


def read_elements(cursor: Cursor) -> list[Element]:
    """Read columns and indexes in parentheses; skip foreign keys and checks."""
    elements: list[Element] = []
    for item in cursor.read_group().split_at_commas():
        if next_is_index(item):
            index, _ = read_index(item)
            if index is not None:
                elements.append(index)
        else:
            elements.append(read_column(item))
        item.expect_end()
    return elements


def _read_like(cursor: Cursor, name: Name, if_not_exists: bool) -> CreateTableLike:
    statement = CreateTableLike(name, cursor.read_table_name(), if_not_exists)
    if cursor.accept("ON", "COMMIT"):
        _skip_on_commit(cursor)
    return statement


def _skip_on_commit(cursor: Cursor) -> None:
    if not cursor.accept_any("DELETE", "PRESERVE"):
        raise cursor.unexpected("DELETE or PRESERVE")
    cursor.expect("ROWS")


def _indexes(elements: list[Element], columns: list[DeclaredColumn]) -> tuple[Index, ...]:
    """List all indexes in TiDB's order: the table's own, then those declared by columns."""
    own = [e for e in elements if isinstance(e, Index)]
    return name_indexes([*own, *(index for column in columns for index in list_indexes(column))])


def _columns(
    declared: list[DeclaredColumn], indexes: tuple[Index, ...]
) -> tuple[DeclaredColumn, ...]:
    key = {n.casefold() for index in indexes if index.primary for n in index.columns}
    for column in declared:
        if column.name.casefold() in key:
            column.nullable = False
    return tuple(declared)
