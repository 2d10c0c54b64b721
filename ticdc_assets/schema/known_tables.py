"""The tables and views that are known at one moment, by name, and those that have gone.

What is remembered of names lives here: declared keys, collations of databases, which tables have
columns that are not sure.  What a statement does to them is decided in `catalog`.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.schema.reconciliation import mark_hidden_columns
from ticdc_assets.schema.recycle_bin import BinContent, RecycleBin

# A table's identity: TiDB compares names without regard to case.
TableKey = tuple[str, str]


def table_key(database: str, table: str) -> TableKey:
    """The identity of a table's name."""
    return folded(database), folded(table)


class KnownTablesState(Struct, frozen=True):
    """All that is known at one moment, as it can be written down."""

    tables: list[TableSchema] = []
    views: list[TableKey] = []
    unsure: list[TableKey] = []
    collations: dict[str, str] = {}
    bin: BinContent = BinContent()


class KnownTables:
    """Tables by name, in any case of letters."""

    def __init__(self, declared_keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._tables: dict[TableKey, TableSchema] = {}
        self._views: set[TableKey] = set()
        self._unsure: set[TableKey] = set()
        self._bin = RecycleBin()
        self._collations: dict[str, str] = {}
        self._declared = {folded(name): key for name, key in (declared_keys or {}).items()}

    def known(self) -> KnownTablesState:
        """What is known, to be taken up again by `take_up`."""
        return KnownTablesState(
            list(self._tables.values()),
            sorted(self._views),
            sorted(self._unsure),
            dict(self._collations),
            self._bin.content(),
        )

    def take_up(self, known: KnownTablesState) -> None:
        """Know what was known before; keys declared since are minded."""
        for schema in known.tables:
            self.put(schema)
        self._views = set(known.views)
        self._unsure = set(known.unsure)
        self._collations = dict(known.collations)
        self._bin.refill(known.bin)

    def get(self, database: str, table: str) -> TableSchema | None:
        return self._tables.get(table_key(database, table))

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._tables.values())

    def put(self, schema: TableSchema) -> TableSchema:
        """Know a table as it is now; return it with its declared key."""
        if schema.declared_key is not None or not schema.key:
            schema = self._with_declared_key(schema)
        self._tables[table_key(schema.database, schema.table)] = schema
        return schema

    def meet(self, schema: TableSchema) -> TableSchema:
        """Know a table that no statement has told of."""
        return self.put(mark_hidden_columns(schema) if schema.origin == "stated" else schema)

    def _with_declared_key(self, schema: TableSchema) -> TableSchema:
        """A key that the table itself has comes before any that is declared for it."""
        own = replace(schema, declared_key=None)
        name = folded(f"{schema.database}.{schema.table}")
        declared = self._declared.get(name, schema.declared_key)
        if own.key or declared is None:
            return own
        known = (schema.column(column) for column in declared)
        spelt = tuple(c.name if c else n for c, n in zip(known, declared, strict=True))
        return replace(own, declared_key=spelt)

    def is_view(self, database: str, table: str) -> bool:
        return table_key(database, table) in self._views

    def is_past(self, schema: TableSchema) -> bool:
        """Whether a stated schema is that of a table which was dropped or renamed since."""
        return self._bin.is_past(table_key(schema.database, schema.table), schema.version)

    # Names that come and go, at a commit ts

    def _create(self, schema: TableSchema) -> TableSchema:
        """Know a table whose columns are sure."""
        self._unsure.discard(table_key(schema.database, schema.table))
        return self.put(schema)

    def _drop(self, key: TableKey, ts: int) -> TableSchema | None:
        """Forget a table; return it as it was."""
        self._bin.leave(key, ts)
        self._unsure.discard(key)
        schema = self._tables.pop(key, None)
        if schema is not None:
            self._bin.throw(key, schema)
        return schema

    def _drop_database(self, name: str, ts: int) -> list[TableSchema]:
        """Forget all tables of a database; return them as they were."""
        name = folded(name)
        self._views = {view for view in self._views if view[0] != name}
        self._collations.pop(name, None)
        inside = [key for key in self._tables if key[0] == name]
        dropped = [self._drop(key, ts) for key in inside]
        self._bin.throw_database(name, inside, ts)
        return [schema for schema in dropped if schema is not None]

    def _move(self, source: TableSchema, renamed: TableSchema, ts: int) -> TableSchema:
        """Know a table by another name."""
        key = table_key(source.database, source.table)
        del self._tables[key]
        self._bin.leave(key, ts)
        unsure = key in self._unsure
        self._unsure.discard(key)
        return self._doubt(renamed) if unsure else self._create(renamed)

    def _doubt(self, schema: TableSchema) -> TableSchema:
        """Know a table whose columns are not sure, since a statement could not be carried out."""
        self._unsure.add(table_key(schema.database, schema.table))
        return self.put(schema)

    def _is_unsure(self, schema: TableSchema) -> bool:
        return table_key(schema.database, schema.table) in self._unsure

    def _collate(self, database: str, collation: str | None) -> None:
        """Keep the collation that tables of this database have if they state none."""
        if collation is not None:
            self._collations[folded(database)] = collation

    def _with_collation(self, schema: TableSchema) -> TableSchema:
        """Give text columns without a collation that of the database."""
        collation = self._collations.get(folded(schema.database))
        if collation is None:
            return schema
        columns = tuple(
            replace(c, type=replace(c.type, collation=collation))
            if c.type.collation is None and collation.startswith(f"{c.type.charset}_")
            else c
            for c in schema.columns
        )
        return replace(schema, columns=columns)
