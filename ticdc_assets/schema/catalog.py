"""The schema catalog: every table and view of a changefeed at one commit ts, by name.

The catalog stores schemas and what TiDB remembers of names: declared keys, the charsets of
databases, dropped tables.  `apply_ddl` decides what a statement does to it.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import Charset, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.reconciliation import mark_hidden_columns
from ticdc_assets.schema.recycle_bin import RecycleBin, RecycleBinState

# The identity of a table: its database and its name, folded, because TiDB ignores their case.
TableKey = tuple[str, str]


def table_key(database: str, table: str) -> TableKey:
    """Return the identity of a table."""
    return fold_name(database), fold_name(table)


def key_of(schema: TableSchema) -> TableKey:
    """Return the identity of the table that a schema describes."""
    return table_key(schema.database, schema.table)


class CatalogState(Struct, frozen=True):
    """The content of a catalog, ready to be serialized."""

    tables: list[TableSchema] = []
    views: list[TableKey] = []
    uncertain: list[TableKey] = []
    charsets: dict[str, Charset] = {}
    recycle_bin: RecycleBinState = RecycleBinState()


class SchemaCatalog:
    """Table schemas and views by name; lookups ignore case."""

    def __init__(
        self,
        declared_keys: Mapping[str, tuple[str, ...]] | None = None,
        *,
        force_replicate: bool = False,
        context: DdlContext = DdlContext(),  # noqa: B008 - it is frozen
    ) -> None:
        self.context = context
        self.recycle_bin = RecycleBin()
        # Whether TiCDC replicates tables without a key.
        self.force_replicate = force_replicate
        self._tables: dict[TableKey, TableSchema] = {}
        self._views: set[TableKey] = set()
        # Tables whose columns are uncertain, because a DDL on them could not be applied.
        self._uncertain: set[TableKey] = set()
        # Those of dropped databases, too: FLASHBACK may bring them back.
        self._charsets: dict[str, Charset] = {}
        self._declared_keys = {fold_name(name): key for name, key in (declared_keys or {}).items()}

    def state(self) -> CatalogState:
        """Return the whole content, for `restore`."""
        return CatalogState(
            list(self._tables.values()),
            sorted(self._views),
            sorted(self._uncertain),
            dict(self._charsets),
            self.recycle_bin.state(),
        )

    def restore(self, state: CatalogState) -> None:
        """Fill an empty catalog with the content of another one.

        Keys that were declared since then apply to the restored tables.
        """
        for schema in state.tables:
            self.replace(schema)
        self._views = set(state.views)
        self._uncertain = set(state.uncertain)
        self._charsets = dict(state.charsets)
        self.recycle_bin.restore(state.recycle_bin)

    # Tables

    def get(self, database: str, table: str) -> TableSchema | None:
        """Find a table's schema by name."""
        return self._tables.get(table_key(database, table))

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._tables.values())

    def register(self, schema: TableSchema) -> TableSchema:
        """Add a table that no observed DDL created; return it with its declared key."""
        return self.replace(mark_hidden_columns(schema) if schema.origin == "stated" else schema)

    def replace(self, schema: TableSchema) -> TableSchema:
        """Store a table's schema in place of the previous one; return it with its declared key."""
        if schema.declared_key is not None or not schema.key:
            schema = self._add_declared_key(schema)
        self._tables[key_of(schema)] = schema
        return schema

    def _add_declared_key(self, schema: TableSchema) -> TableSchema:
        """Add the declared key, unless the table has a key of its own."""
        undeclared = replace(schema, declared_key=None)
        name = fold_name(f"{schema.database}.{schema.table}")
        declared = self._declared_keys.get(name, schema.declared_key)
        if undeclared.key or declared is None:
            return undeclared
        columns = (schema.column(name) for name in declared)
        key = tuple(c.name if c else n for c, n in zip(columns, declared, strict=True))
        return replace(undeclared, declared_key=key)

    def create(self, schema: TableSchema) -> TableSchema:
        """Add a table whose columns are certain."""
        self._uncertain.discard(key_of(schema))
        return self.replace(schema)

    def drop(self, key: TableKey, ts: int) -> TableSchema | None:
        """Move a table to the recycle bin; return its last schema."""
        self.recycle_bin.retire_name(key, ts)
        self._uncertain.discard(key)
        schema = self._tables.pop(key, None)
        if schema is not None:
            self.recycle_bin.add(key, schema)
        return schema

    def drop_database(self, name: str, ts: int) -> list[TableSchema]:
        """Move all tables of a database to the recycle bin; return their last schemas."""
        name = fold_name(name)
        self._views = {view for view in self._views if view[0] != name}
        keys = [key for key in self._tables if key[0] == name]
        dropped = [self.drop(key, ts) for key in keys]
        self.recycle_bin.add_database(name, keys, ts)
        return [schema for schema in dropped if schema is not None]

    def rename(self, source: TableSchema, renamed: TableSchema, ts: int) -> TableSchema:
        """Store a table under its new name."""
        key = key_of(source)
        is_uncertain = key in self._uncertain
        del self._tables[key]
        self._uncertain.discard(key)
        self.recycle_bin.retire_name(key, ts)
        return self.mark_uncertain(renamed) if is_uncertain else self.create(renamed)

    def is_outdated(self, schema: TableSchema) -> bool:
        """Whether a stated schema describes a table that was dropped or renamed since."""
        return self.recycle_bin.is_outdated(key_of(schema), schema.version)

    def mark_uncertain(self, schema: TableSchema) -> TableSchema:
        """Store a table whose columns are uncertain, because a DDL on it could not be applied."""
        self._uncertain.add(key_of(schema))
        return self.replace(schema)

    def is_uncertain(self, schema: TableSchema) -> bool:
        """Whether a DDL on this table could not be applied."""
        return key_of(schema) in self._uncertain

    # Views

    def is_view(self, database: str, table: str) -> bool:
        """Whether the name is a view's."""
        return table_key(database, table) in self._views

    def add_view(self, database: str, view: str) -> None:
        """Record that a name is a view's."""
        self._views.add(table_key(database, view))

    def drop_view(self, database: str, view: str) -> None:
        """Remove a view, if there is one of this name."""
        self._views.discard(table_key(database, view))

    # Charsets of databases

    def charset_of(self, database: str) -> Charset | None:
        """Return the charset of a database, None if no DDL has stated it."""
        return self._charsets.get(fold_name(database))

    def set_charset(self, database: str, charset: Charset | None) -> None:
        """Record the charset of a database."""
        if charset is None:
            self._charsets.pop(fold_name(database), None)
        else:
            self._charsets[fold_name(database)] = charset
