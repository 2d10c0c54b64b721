"""Resolving the names in a DDL: which tables it affects, and which table a name refers to.

An unqualified name belongs to the session's database, which no message states.  That database is
known if another unqualified name in the statement is the message's own table.  Otherwise every
table of that name is a candidate, and only the schemas that the message states narrow them down.
"""

from collections.abc import Iterable

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.catalog import SchemaCatalog, TableKey, table_key
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import Name

# DDL types that affect two tables although their message names one: renames, as protocols spell
# them or as the TiDB job type 14, and EXCHANGE PARTITION (job type 42).
_TWO_TABLE_TYPES = frozenset({"RENAME", "14", "42"})


def affected_names(change: SchemaChange) -> list[TableKey]:
    """List the tables that a DDL affects, as far as the message and its statement name them."""
    try:
        statements = read_ddl(change.sql)
    except UnreadableDdl:
        return [table_key(*name) for name in stated_tables(change)]
    names = [name for statement in statements for name in affected_tables(statement, change)]
    return [table_key(*name) for name in [*names, *stated_tables(change)]]


def touched_tables(change: SchemaChange) -> set[TableKey] | None:
    """Return every table whose rows or name a DDL may change; None if that may be any table."""
    try:
        statements = read_ddl(change.sql)
    except UnreadableDdl:
        statements = ()
    names = [Name(table, database) for database, table in stated_tables(change)]
    if not statements and not names:
        return None
    for statement in statements:
        named = _named_tables(statement)
        is_resolved = isinstance(statement, ddl.AlterTable | ddl.RenameTables)
        if named is None or (is_resolved and len({name.database is None for name in named}) > 1):
            # `resolve_name` may find an unqualified name beside a qualified one in any database.
            return None
        names += named
    if not all(name.database or change.database for name in names if name.table):
        return None
    keys = {table_key(name.database or change.database, name.table) for name in names}
    schemas = (schema for schema in (change.schema, change.pre_schema) if schema is not None)
    return keys | {table_key(schema.database, schema.table) for schema in schemas}


def _named_tables(statement: ddl.Statement) -> list[Name] | None:
    """List the tables that a statement names and may change; None if it names databases."""
    match statement:
        case ddl.DropDatabase() | ddl.RecoverDatabase():
            return None
        case ddl.CreateTable(name) | ddl.CreateTableLike(name) | ddl.TruncateTable(name):
            return [name]
        case ddl.DropTables(names):
            return list(names)
        case ddl.RecoverTable(name, new_name):
            return [n for n in (name, new_name) if n is not None]
    return _list_altered(statement)


def is_blocked(change: SchemaChange, catalog: SchemaCatalog) -> bool:
    """Whether a rename must wait for another DDL of the same commit ts.

    The messages of one RENAME TABLE may arrive through different topics.  They apply in an order in
    which every source exists and every target is free.
    """
    try:
        statements = read_ddl(change.sql)
    except UnreadableDdl:
        return False
    for statement in statements:
        for old, new in list_renames(statement):
            if catalog.is_view(old.database or change.database, old.table):
                continue
            sources = resolve_name(old, new, change, catalog)
            target = catalog.get(new.database or change.database, new.table)
            if not sources or (target is not None and target not in sources):
                return True
    return False


def resolve_name(
    name: Name, own_name: Name, change: SchemaChange, tables: Iterable[TableSchema]
) -> list[TableSchema]:
    """Find the tables that a name may refer to; `own_name` names the message's own table."""
    candidates = [table for table in tables if fold_name(table.table) == fold_name(name.table)]
    database = name.database or (change.database if own_name.database is None else None)
    if database:
        return [table for table in candidates if fold_name(table.database) == fold_name(database)]
    candidates = [table for table in candidates if not _has_other_id(table, change)]
    for matches in (_has_stated_id, _has_stated_database, _has_stated_columns):
        if len(candidates) > 1:
            candidates = [table for table in candidates if matches(table, change)] or candidates
    return candidates


def list_renames(statement: ddl.Statement) -> list[tuple[Name, Name]]:
    """List the (old, new) names of the tables that a statement renames."""
    match statement:
        case ddl.RenameTables(pairs):
            return list(pairs)
        case ddl.AlterTable(name, actions):
            return [(name, a.name) for a in actions if isinstance(a, ddl.RenameTo)]
    return []


def affected_tables(statement: ddl.Statement, change: SchemaChange) -> list[tuple[str, str]]:
    """List the tables to pause if a statement cannot be applied."""
    names = _list_altered(statement) or [Name(change.table, change.database)]
    return [(name.database or change.database, name.table) for name in names]


def _list_altered(statement: ddl.Statement) -> list[Name]:
    """List the tables that a statement renames, alters, or exchanges rows with."""
    names = [name for pair in list_renames(statement) for name in pair]
    if isinstance(statement, ddl.AlterTable):
        names.append(statement.name)
        names += [a.table for a in statement.actions if isinstance(a, ddl.ExchangePartition)]
    return names


def stated_tables(change: SchemaChange) -> list[tuple[str, str]]:
    """List the tables that the message itself names; empty if it may affect an unnamed one."""
    if change.pre_schema is not None:
        before = change.pre_schema
        return [(change.database, change.table), (before.database, before.table)]
    return [] if change.ddl_type in _TWO_TABLE_TYPES else [(change.database, change.table)]


def _has_other_id(table: TableSchema, change: SchemaChange) -> bool:
    """Whether the message states a table id before the change that is not this table's."""
    before = change.pre_schema
    return (
        before is not None
        and None not in (before.table_id, table.table_id)
        and before.table_id != table.table_id
    )


def _has_stated_id(table: TableSchema, change: SchemaChange) -> bool:
    after = change.schema
    return after is not None and after.table_id is not None and after.table_id == table.table_id


def _has_stated_database(table: TableSchema, change: SchemaChange) -> bool:
    before = change.pre_schema
    return before is not None and fold_name(before.database) == fold_name(table.database)


def _has_stated_columns(table: TableSchema, change: SchemaChange) -> bool:
    """Whether the message states this table's columns: a rename or a copy changes none."""
    after = change.schema
    return after is not None and _columns(after) == _columns(table)


def _columns(schema: TableSchema) -> set[tuple[str, str]]:
    return {(fold_name(c.name), c.type.name) for c in schema.columns}
