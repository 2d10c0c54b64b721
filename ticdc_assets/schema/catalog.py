"""All tables of a changefeed at one moment, and how DDL moves them to the next.

`Catalog.change` reads a statement, moves the catalog on and returns the effects that an engine has
to carry out on rows.  Where a protocol states schemas they are taken as they are, and the statement
adds what they leave out (order of columns, generated columns, partitions); where it does not, the
statement alone builds the schema.  What cannot be read or honoured pauses tables, with the reason.
"""

from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from ticdc_assets.errors import UnreadableDdl, UnsupportedDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.schema.alteration import (
    apply_action,
    partition_names,
    partitioning_of,
    with_key_columns,
    without_partitions,
)
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl as _read_ddl
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
from ticdc_assets.schema.known_tables import KnownTables, TableKey, table_key
from ticdc_assets.schema.name_resolution import concerned, listed, meant, renames, stated_names
from ticdc_assets.schema.reconciliation import adopt_stated_types, reconcile

__all__ = ["SchemaCatalog", "TableKey", "read_ddl", "table_key"]

# A statement is read for every table that it is sent for, and for every look ahead.
read_ddl = lru_cache(maxsize=256)(_read_ddl)


class SchemaCatalog(KnownTables):
    """Known tables that follow DDL."""

    def blocked(self, change: SchemaChange) -> bool:
        """Whether a rename has to wait for another DDL of the same commit ts.

        The messages of one RENAME TABLE may come by different topics; the only order that makes
        sense is one in which every source is there and every target is free.
        """
        try:
            statements = read_ddl(change.sql)
        except UnreadableDdl:
            return False
        for statement in statements:
            for old, new in renames(statement):
                if self._names_view(old, change):
                    continue
                sources = meant(old, new, change, self)
                target = self.get(new.database or change.database, new.table)
                if not sources or (target is not None and target not in sources):
                    return True
        return False

    def names(self, change: SchemaChange) -> list[TableKey]:
        """The names of all tables that a DDL is about, as far as it states them."""
        try:
            statements = read_ddl(change.sql)
        except UnreadableDdl:
            return [table_key(*name) for name in stated_names(change)]
        named = [name for statement in statements for name in concerned(statement, change)]
        return [table_key(*name) for name in [*named, *stated_names(change)]]

    def change(self, change: SchemaChange) -> list[Effect]:
        """Carry out one DDL: move the catalog on, say what happens to names and rows."""
        try:
            statements = read_ddl(change.sql)
        except UnreadableDdl as error:
            return self._paused(stated_names(change), f"cannot read: {error.reason}: {change.sql}")
        effects: list[Effect] = []
        for statement in statements:
            try:
                effects += self._carry_out(statement, change)
            except UnsupportedDdl as error:
                reason = f"{error.reason}: {change.sql}"
                effects += self._paused(concerned(statement, change), reason)
        return effects

    def _paused(self, tables: list[tuple[str, str]], reason: str) -> list[Effect]:
        """Pause tables; one that is not known is from now on, so that its name can be followed."""
        if not tables or not all(database and table for database, table in tables):
            for schema in list(self):
                self._doubt(schema)
            return [AllTablesPaused(reason)]
        effects: list[Effect] = []
        for database, table in dict.fromkeys(tables):
            if not self.is_view(database, table):
                unknown = TableSchema(database, table, (), origin="inferred")
                schema = self._doubt(self.get(database, table) or unknown)
                effects.append(TablePaused(schema.database, schema.table, reason))
        return effects

    def _carry_out(self, statement: ddl.Statement, change: SchemaChange) -> list[Effect]:
        match statement:
            case ddl.CreateDatabase(name, _, collation) | ddl.AlterDatabase(name, _, collation):
                self._collate(name or change.database, collation)
            case ddl.CreateTable():
                return [self._created(self._built(statement, change), change)]
            case ddl.CreateTableLike():
                return [self._created(self._copied(statement, change), change)]
            case ddl.DropTables(names):
                keys = (table_key(*self._qualified(name, change)) for name in names)
                return _dropped(self._drop(key, change.commit_ts) for key in keys)
            case ddl.DropDatabase(name):
                return _dropped(self._drop_database(name, change.commit_ts))
            case ddl.TruncateTable(name):
                return self._truncated(name, change)
            case ddl.RenameTables(pairs):
                return [e for old, new in pairs for e in self._renamed(old, new, change)]
            case ddl.AlterTable():
                return self._altered(statement, change)
            case ddl.RecoverTable():
                return [self._recovered(statement, change)]
            case ddl.RecoverDatabase(name, new_name):
                return self._recovered_database(name, new_name or name)
            case ddl.CreateView(name):
                self._views.add(table_key(*self._qualified(name, change)))
            case ddl.DropViews(names):
                self._views -= {table_key(*self._qualified(name, change)) for name in names}
        return []

    # Creating

    def _created(self, schema: TableSchema, change: SchemaChange) -> TableCreated:
        return TableCreated(self._create(_reconciled(schema, change)))

    def _built(self, statement: ddl.CreateTable, change: SchemaChange) -> TableSchema:
        database, table = self._qualified(statement.name, change)
        built = TableSchema(
            database=database,
            table=table,
            columns=statement.columns,
            indexes=statement.indexes,
            partitioning=statement.partitioning,
            origin="replayed",
        )
        if statement.charset is None and statement.collation is None:
            built = self._with_collation(built)
        return with_key_columns(built)

    def _copied(self, statement: ddl.CreateTableLike, change: SchemaChange) -> TableSchema:
        database, table = self._qualified(statement.name, change)
        sources = meant(statement.source, statement.name, change, self)
        copies = [
            replace(s, database=database, table=table, table_id=None, declared_key=None)
            for s in sources
        ]
        if change.schema is not None:
            return copies[0] if len(copies) == 1 else change.schema
        if not copies:
            raise UnsupportedDdl(f"{statement.source.table!r}, to be copied, is not known", "")
        if any(copy != copies[0] for copy in copies):
            which = listed(sources)
            raise UnsupportedDdl(f"the statement does not say which of {which} is copied", "")
        if any(map(self._is_unsure, sources)):
            raise UnsupportedDdl(f"{listed(sources)}, to be copied, is paused", "")
        return copies[0]

    # Dropping and bringing back

    def _truncated(self, name: ddl.Name, change: SchemaChange) -> list[Effect]:
        known = self.get(*self._qualified(name, change))
        if known is None:
            return self._first_seen(change)
        self._bin.throw(table_key(known.database, known.table), known)
        schema = _reconciled(known, change)
        keep = self._create if schema.origin == "stated" else self.put
        return [TableTruncated(keep(schema))]

    def _recovered(self, statement: ddl.RecoverTable, change: SchemaChange) -> Effect:
        named = statement.name or ddl.Name(change.table, change.database or None)
        old = self._qualified(named, change)
        new = self._qualified(statement.new_name, change) if statement.new_name else old
        stated = change.schema
        thrown = self._bin.find(table_key(*old), stated.table_id if stated is not None else None)
        if thrown is None:
            if stated is None:
                raise UnsupportedDdl(f"{old[1]!r} was dropped before this changefeed began", "")
            return TableRecovered(*old, self.meet(stated))
        by_job = statement.name is None and thrown.schema.table_id is None
        if by_job and self._bin.several(table_key(*old)):
            raise UnsupportedDdl(f"the statement does not say which {old[1]!r} it means", "")
        back = _reconciled(thrown.schema.renamed(*new), change)
        return TableRecovered(*old, self.put(back), thrown.ago)

    def _recovered_database(self, name: str, new_name: str) -> list[Effect]:
        return [
            TableRecovered(
                thrown.schema.database,
                thrown.schema.table,
                self.put(replace(thrown.schema, database=new_name)),
                thrown.ago,
            )
            for thrown in self._bin.with_database(name)
        ]

    # Renaming

    def _renamed(self, old: ddl.Name, new: ddl.Name, change: SchemaChange) -> list[Effect]:
        name = self._qualified(new, change)
        if self._names_view(old, change):
            self._views.remove(table_key(*self._qualified(old, change)))
            self._views.add(table_key(*name))
            return []
        sources = meant(old, new, change, self)
        if not sources:
            return self._first_seen(change)
        if len(sources) > 1:
            reason = f"the statement does not say which of {listed(sources)} is renamed"
            tables = [(s.database, s.table) for s in sources]
            return self._paused([*tables, name], f"{reason}: {change.sql}")
        (source,) = sources
        renamed = _reconciled(source.renamed(*name), change)
        schema = self._move(source, renamed, change.commit_ts)
        return [TableRenamed(source.database, source.table, schema)]

    # Altering

    def _altered(self, statement: ddl.AlterTable, change: SchemaChange) -> list[Effect]:
        match statement.actions:
            case ():
                return []
            case (ddl.RenameTo(new),):
                return self._renamed(statement.name, new, change)
            case (ddl.ExchangePartition() as exchange,):
                return self._exchanged(statement.name, exchange, change)
        known = self.get(*self._qualified(statement.name, change))
        if known is None:
            return [] if self._names_view(statement.name, change) else self._first_seen(change)
        emptied: list[PartitionsEmptied] = []
        steps: list[ColumnChange] = []
        schema = known
        for action in statement.actions:
            match action:
                case ddl.DropPartitions(names):
                    gone, cut = partition_names(schema, names), partitioning_of(schema)
                    schema = without_partitions(schema, gone)
                    emptied.append(PartitionsEmptied(schema, cut, gone))
                case ddl.TruncatePartitions(names):
                    gone = partition_names(schema, names)
                    emptied.append(PartitionsEmptied(schema, partitioning_of(schema), gone))
                case _:
                    schema, more = apply_action(action, schema)
                    steps += more
        schema = self.put(_reconciled(schema, change))
        if emptied:
            return [replace(effect, schema=schema) for effect in emptied]
        if not steps and schema == known:
            return []
        return [TableAltered(schema, adopt_stated_types(steps, schema))]

    def _exchanged(
        self, name: ddl.Name, action: ddl.ExchangePartition, change: SchemaChange
    ) -> list[Effect]:
        known = self.get(*self._qualified(name, change))
        others = meant(action.table, name, change, self)
        if known is None:
            if others:
                raise UnsupportedDdl(f"{name.table!r}, to be exchanged, is not known", "")
            return self._first_seen(change)
        (partition,) = partition_names(known, (action.partition,))
        if len(others) != 1 and change.pre_schema is not None:
            others = [self.meet(change.pre_schema)]
        if len(others) != 1:
            raise UnsupportedDdl(f"{action.table.table!r}, to be exchanged, is not known", "")
        schema = self.put(_reconciled(known, change))
        return [PartitionExchanged(schema, partitioning_of(schema), partition, others[0])]

    # Finding tables

    def _qualified(self, name: ddl.Name, change: SchemaChange) -> tuple[str, str]:
        database = name.database or change.database
        if not database and change.schema is not None:
            database = change.schema.database
        if not database:
            raise UnsupportedDdl(f"the database of {name.table!r} is not stated", "")
        return database, name.table

    def _names_view(self, name: ddl.Name, change: SchemaChange) -> bool:
        return self.is_view(name.database or change.database, name.table)

    def _first_seen(self, change: SchemaChange) -> list[Effect]:
        """A table of which this statement is the first word: as it is stated, or unknown still."""
        if change.schema is None or change.schema.table == "":
            return []
        return [TableAltered(self.meet(change.schema))]


def _reconciled(replayed: TableSchema, change: SchemaChange) -> TableSchema:
    """What a statement makes of a table, joined with what is stated of the same table."""
    stated = change.schema
    names = (replayed.database, replayed.table)
    if stated is None or table_key(stated.database, stated.table) != table_key(*names):
        return replayed
    return reconcile(replayed, stated)


def _dropped(schemas: Iterable[TableSchema | None]) -> list[Effect]:
    return [TableDropped(schema.database, schema.table) for schema in schemas if schema is not None]
