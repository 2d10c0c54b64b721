"""All tables of a changefeed at one moment, and how DDL moves them to the next.

`Catalog.change` reads a statement, moves the catalog on and returns the effects that an engine has
to carry out on rows.  Where a protocol states schemas they are taken as they are, and the statement
adds what they leave out (order of columns, generated columns, partitions); where it does not, the
statement alone builds the schema.  What cannot be read or honoured pauses tables, with the reason.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from ticdc_assets.errors import UnhonourableDdl, UnreadableDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.schema.alteration import (
    alter,
    partition_names,
    partitioning_of,
    without_partitions,
)
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl as _read_ddl
from ticdc_assets.schema.effect import (
    Effect,
    EverythingPaused,
    PartitionExchanged,
    PartitionsEmptied,
    Step,
    TableAltered,
    TableCreated,
    TableDropped,
    TablePaused,
    TableRecovered,
    TableRenamed,
    TableTruncated,
)
from ticdc_assets.schema.stated import reconcile

# A statement is read for every table that it is sent for, and for every look ahead.
read_ddl = lru_cache(maxsize=256)(_read_ddl)

# A table's identity: TiDB compares names without regard to case.
TableKey = tuple[str, str]


def table_key(database: str, table: str) -> TableKey:
    """The identity of a table's name."""
    return database.casefold(), table.casefold()


class Catalog:
    """Tables by name, in any case of letters."""

    def __init__(self, declared_keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._tables: dict[TableKey, TableSchema] = {}
        self._dropped: dict[TableKey, TableSchema] = {}
        self._views: set[TableKey] = set()
        self._declared = {name.casefold(): key for name, key in (declared_keys or {}).items()}

    def get(self, database: str, table: str) -> TableSchema | None:
        return self._tables.get(table_key(database, table))

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._tables.values())

    def put(self, schema: TableSchema) -> TableSchema:
        """Know a table, as a bootstrap or its rows describe it; return it with its declared key."""
        declared = self._declared.get(f"{schema.database}.{schema.table}".casefold())
        if declared is not None and not schema.key:
            schema = replace(schema, declared_key=declared)
        self._tables[table_key(schema.database, schema.table)] = schema
        return schema

    def is_view(self, database: str, table: str) -> bool:
        return table_key(database, table) in self._views

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
            for old, new in _renames(statement):
                sources = self._renamed_from(old, new, change)
                target = self._tables.get(table_key(new.database or change.database, new.table))
                if not sources or (target is not None and target not in sources):
                    return True
        return False

    def change(self, change: SchemaChange) -> list[Effect]:
        """Carry out one DDL: move the catalog on, say what happens to names and rows."""
        try:
            statements = read_ddl(change.sql)
        except UnreadableDdl as error:
            reason = f"cannot read: {error.reason}: {change.sql}"
            return self._paused([(change.database, change.table)], reason)
        effects: list[Effect] = []
        for statement in statements:
            try:
                effects += self._carry_out(statement, change)
            except UnhonourableDdl as error:
                concerned = self._concerned(statement, change)
                effects += self._paused(concerned, f"{error.reason}: {change.sql}")
        return effects

    def _paused(self, tables: list[tuple[str, str]], reason: str) -> list[Effect]:
        if tables and all(database and table for database, table in tables):
            return [TablePaused(database, table, reason) for database, table in tables]
        return [EverythingPaused(reason)]

    def _concerned(self, statement: ddl.Statement, change: SchemaChange) -> list[tuple[str, str]]:
        """The tables that are not to be trusted any more if a statement cannot be carried out."""
        names = [ddl.Name(change.table, change.database)]
        if isinstance(statement, ddl.AlterTable):
            names = [statement.name]
            names += [a.table for a in statement.actions if isinstance(a, ddl.ExchangePartition)]
        return [(name.database or change.database, name.table) for name in names]

    def _carry_out(self, statement: ddl.Statement, change: SchemaChange) -> list[Effect]:
        match statement:
            case ddl.CreateTable():
                return [self._created(self._built(statement, change), change)]
            case ddl.CreateTableLike():
                return [self._created(self._copied(statement, change), change)]
            case ddl.DropTables(names):
                drops = (self._drop(*self._qualified(name, change)) for name in names)
                return [effect for effect in drops if effect is not None]
            case ddl.DropDatabase(name):
                return self._drop_database(name)
            case ddl.TruncateTable(name):
                return self._truncate(name, change)
            case ddl.RenameTables(pairs):
                return [e for old, new in pairs for e in self._rename(old, new, change)]
            case ddl.AlterTable():
                return self._alter(statement, change)
            case ddl.RecoverTable():
                return [self._recover(statement, change)]
            case ddl.RecoverDatabase(name, new_name):
                return self._recover_database(name, new_name or name)
            case ddl.CreateView(name):
                self._views.add(table_key(*self._qualified(name, change)))
            case ddl.DropViews(names):
                self._views -= {table_key(*self._qualified(name, change)) for name in names}
        return []

    # Creating

    def _created(self, schema: TableSchema, change: SchemaChange) -> TableCreated:
        return TableCreated(self.put(self._reconciled(schema, change)))

    def _built(self, statement: ddl.CreateTable, change: SchemaChange) -> TableSchema:
        database, table = self._qualified(statement.name, change)
        return TableSchema(
            database=database,
            table=table,
            columns=statement.columns,
            indexes=statement.indexes,
            partitioning=statement.partitioning,
            origin="replayed",
        )

    def _copied(self, statement: ddl.CreateTableLike, change: SchemaChange) -> TableSchema:
        database, table = self._qualified(statement.name, change)
        source = self._find(statement.source, change)
        if source is not None:
            return replace(source, database=database, table=table, declared_key=None)
        if change.schema is not None:
            return change.schema
        raise UnhonourableDdl(f"table {statement.source.table!r}, to be copied, is not known", "")

    # Dropping and bringing back

    def _truncate(self, name: ddl.Name, change: SchemaChange) -> list[Effect]:
        known = self.get(*self._qualified(name, change))
        if known is None:
            return self._first_seen(change)
        self._dropped[table_key(known.database, known.table)] = known
        return [TableTruncated(self.put(self._reconciled(known, change)))]

    def _drop(self, database: str, table: str) -> TableDropped | None:
        key = table_key(database, table)
        schema = self._tables.pop(key, None)
        if schema is None:
            return None
        self._dropped[key] = schema
        return TableDropped(schema.database, schema.table)

    def _drop_database(self, name: str) -> list[Effect]:
        inside = [s for s in self._tables.values() if s.database.casefold() == name.casefold()]
        self._views = {view for view in self._views if view[0] != name.casefold()}
        return [e for s in inside if (e := self._drop(s.database, s.table)) is not None]

    def _recover(self, statement: ddl.RecoverTable, change: SchemaChange) -> Effect:
        named = statement.name or ddl.Name(change.table, change.database or None)
        old = self._qualified(named, change)
        new = self._qualified(statement.new_name, change) if statement.new_name else old
        schema = self._dropped.get(table_key(*old)) or change.schema
        if schema is None:
            raise UnhonourableDdl(f"table {old[1]!r} was dropped before this changefeed began", "")
        back = self._reconciled(schema.renamed(*new), change)
        return TableRecovered(*old, self.put(back))

    def _recover_database(self, name: str, new_name: str) -> list[Effect]:
        inside = [s for s in self._dropped.values() if s.database.casefold() == name.casefold()]
        recovered: list[Effect] = []
        for schema in inside:
            back = self.put(replace(schema, database=new_name))
            recovered.append(TableRecovered(schema.database, schema.table, back))
        return recovered

    # Renaming

    def _rename(self, old: ddl.Name, new: ddl.Name, change: SchemaChange) -> list[Effect]:
        sources = self._renamed_from(old, new, change)
        if not sources:
            return self._first_seen(change)
        if len(sources) > 1:
            which = ", ".join(f"{s.database}.{s.table}" for s in sources)
            reason = f"the statement does not say which of {which} is renamed: {change.sql}"
            return [TablePaused(s.database, s.table, reason) for s in sources]
        (source,) = sources
        del self._tables[table_key(source.database, source.table)]
        renamed = replace(source.renamed(*self._qualified(new, change)), declared_key=None)
        renamed = self._reconciled(renamed, change)
        if not renamed.key:
            renamed = replace(renamed, declared_key=source.declared_key)
        return [TableRenamed(source.database, source.table, self.put(renamed))]

    def _renamed_from(
        self, old: ddl.Name, new: ddl.Name, change: SchemaChange
    ) -> list[TableSchema]:
        """The tables that a rename may start from; none where it is not known yet.

        An unqualified old name is looked up in the session's database, which the message does not
        tell when the table moves to another one: then every table of that name may be meant.
        """
        if old.database is not None:
            sure = self.get(old.database, old.table)
        elif change.pre_schema is not None:
            sure = self.get(change.pre_schema.database, change.pre_schema.table)
        elif new.database is None:
            sure = self.get(change.database, old.table)
        else:
            return [s for s in self if s.table.casefold() == old.table.casefold()]
        return [sure] if sure is not None else []

    # Altering

    def _alter(self, statement: ddl.AlterTable, change: SchemaChange) -> list[Effect]:
        effects: list[Effect] = []
        steps: list[Step] = []
        for action in statement.actions:
            if isinstance(action, ddl.RenameTo):
                return self._rename(statement.name, action.name, change)
        if not statement.actions or self._is_view(statement.name, change):
            return effects
        known = self.get(*self._qualified(statement.name, change))
        if known is None:
            return self._first_seen(change)
        schema = known
        for action in statement.actions:
            match action:
                case ddl.DropPartitions(names):
                    gone = partition_names(schema, names)
                    cut = partitioning_of(schema)
                    schema = without_partitions(schema, gone)
                    effects.append(PartitionsEmptied(schema, cut, gone))
                case ddl.TruncatePartitions(names):
                    gone = partition_names(schema, names)
                    effects.append(PartitionsEmptied(schema, partitioning_of(schema), gone))
                case ddl.ExchangePartition(partition, other):
                    return [self._exchange(schema, partition, other, change)]
                case _:
                    schema, more = alter(action, schema)
                    steps += more
        schema = self.put(self._reconciled(schema, change))
        if effects:
            effects = [
                replace(e, schema=schema) if isinstance(e, PartitionsEmptied) else e
                for e in effects
            ]
        elif steps or schema != known:
            effects.append(TableAltered(schema, tuple(steps)))
        return effects

    def _exchange(
        self, schema: TableSchema, partition: str, other: ddl.Name, change: SchemaChange
    ) -> PartitionExchanged:
        (name,) = partition_names(schema, (partition,))
        with_table = self._find(other, change)
        if with_table is None and change.pre_schema is not None:
            with_table = self.put(change.pre_schema)
        if with_table is None:
            raise UnhonourableDdl(f"table {other.table!r}, to be exchanged, is not known", "")
        return PartitionExchanged(schema, partitioning_of(schema), name, with_table)

    # Finding tables

    def _qualified(self, name: ddl.Name, change: SchemaChange) -> tuple[str, str]:
        database = name.database or change.database
        if not database and change.schema is not None:
            database = change.schema.database
        if not database:
            raise UnhonourableDdl(f"the database of {name.table!r} is not stated", "")
        return database, name.table

    def _is_view(self, name: ddl.Name, change: SchemaChange) -> bool:
        return self.is_view(*self._qualified(name, change))

    def _find(self, name: ddl.Name, change: SchemaChange) -> TableSchema | None:
        """A table by the name a statement uses; an unqualified one may be of another database."""
        schema = self.get(*self._qualified(name, change))
        if schema is None and name.database is None:
            found = [
                s for s in self._tables.values() if s.table.casefold() == name.table.casefold()
            ]
            return found[0] if len(found) == 1 else None
        return schema

    def _first_seen(self, change: SchemaChange) -> list[Effect]:
        """A table of which this statement is the first word: as it is stated, or unknown still."""
        if change.schema is None or change.schema.table == "":
            return []
        return [TableAltered(self.put(change.schema))]

    def _reconciled(self, replayed: TableSchema, change: SchemaChange) -> TableSchema:
        return reconcile(replayed, change.schema) if change.schema is not None else replayed


def _renames(statement: ddl.Statement) -> list[tuple[ddl.Name, ddl.Name]]:
    match statement:
        case ddl.RenameTables(pairs):
            return list(pairs)
        case ddl.AlterTable(name, actions):
            return [(name, a.name) for a in actions if isinstance(a, ddl.RenameTo)]
    return []
