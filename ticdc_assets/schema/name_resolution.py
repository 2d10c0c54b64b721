"""Which tables a statement is about, and which one a name in it means.

An unqualified name means one in the session's database, which no message states.  It is known where
another unqualified name is of the table that the message is about; otherwise every table of that
name may be meant, and only what the message states besides tells them apart.
"""

from collections.abc import Iterable

from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.statement import Name

# DDL types whose message names one table and which concern another one too.
_OF_TWO_TABLES = frozenset({"RENAME", "14", "42"})


def meant(
    name: Name, beside: Name, change: SchemaChange, tables: Iterable[TableSchema]
) -> list[TableSchema]:
    """Find the tables that a name may mean; `beside` is the name of the message's own table."""
    found = [table for table in tables if folded(table.table) == folded(name.table)]
    database = name.database or (change.database if beside.database is None else None)
    if database:
        return [table for table in found if folded(table.database) == folded(database)]
    found = [table for table in found if not _is_another(table, change)]
    for fits in (_has_its_id, _has_its_database, _has_its_columns):
        if len(found) > 1:
            found = [table for table in found if fits(table, change)] or found
    return found


def renames(statement: ddl.Statement) -> list[tuple[Name, Name]]:
    """The tables that a statement renames, old and new names."""
    match statement:
        case ddl.RenameTables(pairs):
            return list(pairs)
        case ddl.AlterTable(name, actions):
            return [(name, a.name) for a in actions if isinstance(a, ddl.RenameTo)]
    return []


def concerned(statement: ddl.Statement, change: SchemaChange) -> list[tuple[str, str]]:
    """The tables that are not to be trusted any more if a statement cannot be carried out."""
    names = [name for pair in renames(statement) for name in pair]
    if isinstance(statement, ddl.AlterTable):
        names.append(statement.name)
        names += [a.table for a in statement.actions if isinstance(a, ddl.ExchangePartition)]
    names = names or [Name(change.table, change.database)]
    return [(name.database or change.database, name.table) for name in names]


def stated_names(change: SchemaChange) -> list[tuple[str, str]]:
    """The tables that a message itself names; none if it does not name all of them."""
    if change.pre_schema is not None:
        before = change.pre_schema
        return [(change.database, change.table), (before.database, before.table)]
    return [] if change.ddl_type in _OF_TWO_TABLES else [(change.database, change.table)]


def listed(tables: Iterable[TableSchema]) -> str:
    """Name tables for a person."""
    return ", ".join(f"{table.database}.{table.table}" for table in tables)


def _is_another(table: TableSchema, change: SchemaChange) -> bool:
    """Whether both tables' ids are stated before the change, and differ."""
    told = change.pre_schema
    return (
        told is not None
        and None not in (told.table_id, table.table_id)
        and told.table_id != table.table_id
    )


def _has_its_id(table: TableSchema, change: SchemaChange) -> bool:
    told = change.schema
    return told is not None and told.table_id is not None and told.table_id == table.table_id


def _has_its_database(table: TableSchema, change: SchemaChange) -> bool:
    told = change.pre_schema
    return told is not None and folded(told.database) == folded(table.database)


def _has_its_columns(table: TableSchema, change: SchemaChange) -> bool:
    """Whether the columns are those that the message states: renaming or copying changes none."""
    told = change.schema
    return told is not None and _columns(told) == _columns(table)


def _columns(schema: TableSchema) -> set[tuple[str, str]]:
    return {(folded(c.name), c.type.name) for c in schema.columns}
