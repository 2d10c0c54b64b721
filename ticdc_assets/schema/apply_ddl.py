"""Applying DDL: a statement changes the catalog and returns its effects on names and rows.

Rules:
- A schema that the protocol states is adopted; the statement adds what the message leaves out
  (column order, generated columns, partitions).  Without a stated schema the statement alone
  builds it.
- A statement that cannot be read or applied pauses the tables it affects, with the reason.
- This module changes no rows: the caller executes the effects in the order returned.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ticdc_assets.errors import CONTENT_ERRORS, ContradictingDdl, UnreadableDdl, UnsupportedDdl
from ticdc_assets.errors import describe_content_error as describe
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.added_value import note_added_values, require_same_added_values
from ticdc_assets.schema.alteration import apply_action
from ticdc_assets.schema.catalog import SchemaCatalog, key_of, table_key
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.effect import (
    AllTablesPaused,
    ColumnChange,
    Effect,
    PartitionExchanged,
    PartitionsEmptied,
    TableAltered,
    TableCreated,
    TableDropped,
    TablePaused,
    TableRecovered,
    TableRenamed,
    TableTruncated,
)
from ticdc_assets.schema.lost_key import KEY_LOST, KEYS_LOST_UNSEEN, lacks_key, lost_keys_unseen
from ticdc_assets.schema.name_resolution import affected_tables, resolve_name, stated_tables
from ticdc_assets.schema.partition.named import (
    drop_partitions,
    find_partitions,
    get_partitioning,
    truncate_partitions,
)
from ticdc_assets.schema.reconciliation import (
    adopt_stated_types,
    join_stated,
    set_time_zone,
    with_key_columns,
)
from ticdc_assets.schema.types.mysql_type import require_known_types


def apply_ddl(change: SchemaChange, catalog: SchemaCatalog) -> list[Effect]:
    """Apply one DDL to the catalog; return its effects on names and rows, in order."""
    application = _Application(change, catalog)
    try:
        statements = read_ddl(change.sql)
    except UnreadableDdl as error:
        unread = UnsupportedDdl(f"cannot read the DDL: {error.reason}")
        return application.pause(stated_tables(change), unread)
    effects: list[Effect] = []
    for statement in statements:
        try:
            effects += application.apply(statement)
        except CONTENT_ERRORS as error:
            effects += application.pause(affected_tables(statement, change), error)
    return effects


class _Application:
    """One DDL and the catalog it is applied to."""

    def __init__(self, change: SchemaChange, catalog: SchemaCatalog) -> None:
        self._change = change
        self._catalog = catalog

    def apply(self, statement: ddl.Statement) -> list[Effect]:
        """Apply one statement; raise `UnsupportedDdl` if the catalog does not allow it."""
        catalog = self._catalog
        match statement:
            case ddl.CreateDatabase(name, charset):
                catalog.set_charset(name, charset)
            case ddl.AlterDatabase(name, charset) if charset is not None:
                catalog.set_charset(name or self._change.database, charset)
            case ddl.CreateTable():
                return [self._create(self._build_schema(statement))]
            case ddl.CreateTableLike():
                return [self._create(self._copy_schema(statement))]
            case ddl.DropTables(names):
                keys = (table_key(*self._qualify(name)) for name in names)
                return _drop_effects(catalog.drop(key, self._change.commit_ts) for key in keys)
            case ddl.DropDatabase(name):
                return _drop_effects(catalog.drop_database(name, self._change.commit_ts))
            case ddl.TruncateTable(name):
                return self._truncate(name)
            case ddl.RenameTables(pairs):
                return [effect for old, new in pairs for effect in self._rename(old, new)]
            case ddl.AlterTable():
                return self._alter(statement)
            case ddl.RecoverTable():
                return [self._recover(statement)]
            case ddl.RecoverDatabase(name, new_name):
                return self._recover_database(name, new_name or name)
            case ddl.CreateView(name):
                catalog.add_view(*self._qualify(name))
            case ddl.DropViews(names):
                for name in names:
                    catalog.drop_view(*self._qualify(name))
        return []

    def pause(self, tables: list[tuple[str, str]], error: Exception) -> list[Effect]:
        """Pause tables, or all tables if a name is missing.

        An unknown table is added to the catalog, so that later renames of it can be followed.
        """
        reason = f"{describe(error)}: {self._change.sql}"
        contradicts = isinstance(error, ContradictingDdl)
        if not tables or not all(database and table for database, table in tables):
            for schema in list(self._catalog):
                self._catalog.mark_uncertain(schema)
            return [AllTablesPaused(reason)]
        effects: list[Effect] = []
        for database, table in dict.fromkeys(tables):
            if not self._catalog.is_view(database, table):
                unknown = TableSchema(database, table, (), origin="inferred")
                schema = self._catalog.mark_uncertain(self._catalog.get(database, table) or unknown)
                effects.append(TablePaused(schema.database, schema.table, reason, contradicts))
        return effects

    # CREATE

    def _create(self, schema: TableSchema) -> TableCreated:
        return TableCreated(self._catalog.create(self._reconcile(schema)))

    def _build_schema(self, statement: ddl.CreateTable) -> TableSchema:
        database, table = self._qualify(statement.name)
        charset = statement.charset or self._catalog.charset_of(database)
        schema = TableSchema(
            database=database,
            table=table,
            columns=tuple(resolve_column(c, charset) for c in statement.columns),
            indexes=statement.indexes,
            partitioning=statement.partitioning,
            origin="replayed",
            charset=charset,
            comment=statement.comment,
        )
        return with_key_columns(schema)

    def _copy_schema(self, statement: ddl.CreateTableLike) -> TableSchema:
        database, table = self._qualify(statement.name)
        source = statement.source.table
        sources = resolve_name(statement.source, statement.name, self._change, self._catalog)
        copies = [s.copied_to(database, table) for s in sources]
        if self._change.schema is not None:
            return copies[0] if len(copies) == 1 else self._change.schema
        if not copies:
            raise UnsupportedDdl(f"cannot copy {source!r}: its columns are unknown")
        if any(copy != copies[0] for copy in copies):
            raise UnsupportedDdl(f"cannot copy {source!r}: it may be {_format_or(sources)}")
        if any(map(self._catalog.is_uncertain, sources)):
            raise UnsupportedDdl(f"cannot copy {_format_or(sources)}: the table is paused")
        return copies[0]

    # TRUNCATE, RECOVER and FLASHBACK

    def _truncate(self, name: ddl.Name) -> list[Effect]:
        schema = self._catalog.get(*self._qualify(name))
        if schema is None:
            stated = self._register_stated()
            return [TableTruncated(e.schema) for e in stated if isinstance(e, TableAltered)]
        self._catalog.recycle_bin.add(key_of(schema), schema)
        truncated = self._reconcile(schema)
        is_replicated = self._catalog.force_replicate or not truncated.lost_key
        put = self._catalog.create if truncated.origin == "stated" else self._catalog.replace
        truncated = put(truncated)
        is_certain = not self._catalog.is_uncertain(truncated)
        return [TableTruncated(truncated, ends_pause=is_replicated and is_certain)]

    def _recover(self, statement: ddl.RecoverTable) -> Effect:
        name = statement.name or ddl.Name(self._change.table, self._change.database or None)
        old = self._qualify(name)
        new = self._qualify(statement.new_name) if statement.new_name else old
        stated = self._change.schema
        bin, key = self._catalog.recycle_bin, table_key(*old)
        dropped = bin.find(key, stated.table_id if stated is not None else None)
        if dropped is None:
            if stated is None:
                raise UnsupportedDdl(f"cannot recover {old[1]!r}: no drop of it was observed")
            return TableRecovered(*old, self._catalog.register(require_known_types(stated)))
        if statement.name is None and dropped.schema.table_id is None and bin.has_several(key):
            raise UnsupportedDdl(f"cannot recover {old[1]!r}: several tables of it were dropped")
        recovered = self._reconcile(dropped.schema.with_name(*new), dropped.schema)
        return TableRecovered(*old, self._catalog.replace(recovered), dropped.drops_ago)

    def _recover_database(self, name: str, new_name: str) -> list[Effect]:
        self._catalog.set_charset(new_name, self._catalog.charset_of(name))
        return [
            TableRecovered(
                dropped.schema.database,
                dropped.schema.table,
                self._catalog.replace(replace(dropped.schema, database=new_name)),
                dropped.drops_ago,
            )
            for dropped in self._catalog.recycle_bin.find_database(name)
        ]

    # RENAME

    def _rename(self, old: ddl.Name, new: ddl.Name) -> list[Effect]:
        new_name = self._qualify(new)
        if self._is_view(old):
            self._catalog.drop_view(*self._qualify(old))
            self._catalog.add_view(*new_name)
            return []
        sources = resolve_name(old, new, self._change, self._catalog)
        if not sources:
            return self._rename_unknown(old, new)
        if len(sources) > 1:
            tables = [(source.database, source.table) for source in sources]
            reason = f"cannot rename {old.table!r}: it may be {_format_or(sources)}"
            return self.pause([*tables, new_name], UnsupportedDdl(reason))
        (source,) = sources
        renamed = self._reconcile(source.with_name(*new_name), source)
        schema = self._catalog.rename(source, renamed, self._change.commit_ts)
        return [TableRenamed(source.database, source.table, schema)]

    def _rename_unknown(self, old: ddl.Name, new: ddl.Name) -> list[Effect]:
        """Register a table that has another name now; one that had this name has ended."""
        known, stated = self._catalog.get(*self._qualify(new)), self._change.schema
        if known is None or stated is None or known.table_id in (None, stated.table_id):
            return self._register_stated()
        renamed = self._catalog.create(require_known_types(stated))
        return [TableRenamed(*self._qualify(old), renamed)]

    # ALTER

    def _alter(self, statement: ddl.AlterTable) -> list[Effect]:
        match statement.actions:
            case ():
                return []
            case (ddl.RenameTo(new),):
                return self._rename(statement.name, new)
            case (ddl.ExchangePartition() as exchange,):
                return self._exchange_partition(statement.name, exchange)
        before = self._catalog.get(*self._qualify(statement.name))
        if before is None:
            return [] if self._is_view(statement.name) else self._register_stated(statement)
        emptied: list[PartitionsEmptied] = []
        changes: list[ColumnChange] = []
        schema = before
        for action in statement.actions:
            match action:
                case ddl.DropPartitions(names):
                    names, partitioning = find_partitions(schema, names), get_partitioning(schema)
                    schema = drop_partitions(schema, names)
                    emptied.append(PartitionsEmptied(schema, partitioning, names))
                case ddl.TruncatePartitions(selected):
                    emptied.append(truncate_partitions(schema, selected))
                case _:
                    schema, column_changes = apply_action(action, schema)
                    changes += column_changes
        replayed, schema = schema, self._reconcile(schema, before)
        if not self._catalog.force_replicate and lost_keys_unseen(before, replayed, schema):
            raise UnsupportedDdl(KEYS_LOST_UNSEEN)
        zone, is_stated = self._catalog.context.time_zone, self._change.schema is not None
        changes = [
            set_time_zone(change, zone, is_stated=is_stated)
            for change in adopt_stated_types(changes, schema)
        ]
        schema = note_added_values(schema, changes, self._change.commit_ts)
        lost_key = lacks_key(before, schema)
        schema = self._catalog.replace(replace(schema, lost_key=lost_key))
        if lost_key and not before.lost_key and not self._catalog.force_replicate:
            reason = f"{KEY_LOST}: {self._change.sql}"
            return [TablePaused(schema.database, schema.table, reason)]
        if emptied:
            context = self._catalog.context
            return [replace(effect, schema=schema, context=context) for effect in emptied]
        if not changes and schema == before:
            return []
        return [TableAltered(schema, tuple(changes))]

    def _exchange_partition(self, name: ddl.Name, action: ddl.ExchangePartition) -> list[Effect]:
        schema = self._catalog.get(*self._qualify(name))
        others = resolve_name(action.table, name, self._change, self._catalog)
        if schema is None:
            if others:
                raise UnsupportedDdl(
                    f"cannot exchange a partition of {name.table!r}: unknown table"
                )
            return self._register_stated()
        (partition,) = find_partitions(schema, (action.partition,))
        if len(others) != 1 and self._change.pre_schema is not None:
            others = [self._catalog.register(require_known_types(self._change.pre_schema))]
        if len(others) != 1:
            other = action.table.table
            raise UnsupportedDdl(f"cannot exchange a partition with {other!r}: unknown table")
        if key_of(others[0]) == key_of(schema):
            raise UnsupportedDdl("cannot exchange a partition of a table with the table itself")
        require_same_added_values(schema, others[0])
        schema = self._catalog.replace(self._reconcile(schema, schema))
        partitioning, context = get_partitioning(schema), self._catalog.context
        return [PartitionExchanged(schema, partitioning, partition, others[0], context)]

    # Names and stated schemas

    def _qualify(self, name: ddl.Name) -> tuple[str, str]:
        """Return a table's database and name; the message states the default database."""
        database = name.database or self._change.database
        if not database and self._change.schema is not None:
            database = self._change.schema.database
        if not database:
            raise UnsupportedDdl(f"the database of {name.table!r} is not stated")
        return database, name.table

    def _is_view(self, name: ddl.Name) -> bool:
        return self._catalog.is_view(name.database or self._change.database, name.table)

    def _register_stated(self, statement: ddl.AlterTable | None = None) -> list[Effect]:
        """Register a table that no earlier event mentioned, if the message states its schema.

        A schema file states no index but the primary key; the statement may add another one.
        """
        schema = self._change.schema
        if schema is None or schema.table == "":
            return []
        known = {fold_name(index.name) for index in schema.indexes}
        for action in statement.actions if statement is not None else ():
            if isinstance(action, ddl.AddIndex) and fold_name(action.index.name) not in known:
                schema, _ = apply_action(action, schema)
        return [TableAltered(self._catalog.register(require_known_types(schema)))]

    def _reconcile(self, replayed: TableSchema, before: TableSchema | None = None) -> TableSchema:
        """Join the statement's schema with the one stated; `before` is that of rows, if any."""
        is_certain = before is not None and not self._catalog.is_uncertain(before)
        return join_stated(replayed, self._change.schema, before if is_certain else None)


def _drop_effects(dropped: Iterable[TableSchema | None]) -> list[Effect]:
    return [TableDropped(schema.database, schema.table) for schema in dropped if schema is not None]


def _format_or(tables: Iterable[TableSchema]) -> str:
    return " or ".join(f"{table.database}.{table.table}" for table in tables)
