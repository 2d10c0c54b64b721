"""The recycle bin: dropped and truncated tables, which RECOVER and FLASHBACK bring back.

The bin keeps schemas and the order of drops, never rows.  Whoever keeps the rows finds them by the
same order: the first table under a name is the one dropped last.
"""

from collections import defaultdict

from msgspec import Struct

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name

# A table's database and name, both folded as TiDB compares names.
_Name = tuple[str, str]


class DroppedTable(Struct, frozen=True):
    """A dropped or truncated table; `drops_ago` is 1 for the last one under its name."""

    schema: TableSchema
    drops_ago: int


class RecycleBinState(Struct, frozen=True):
    """The content of a recycle bin, ready to be serialized."""

    tables: list[tuple[_Name, list[TableSchema]]] = []
    databases: list[tuple[str, list[tuple[_Name, int]]]] = []
    retired_names: list[tuple[_Name, int]] = []
    retired_databases: list[tuple[str, int]] = []


class RecycleBin:
    """Dropped and truncated tables by name, in the order of their drops."""

    def __init__(self) -> None:
        self._tables: dict[_Name, list[TableSchema]] = defaultdict(list)
        # The tables dropped together with a database: each name, and how many drops it had by then.
        self._databases: dict[str, list[tuple[_Name, int]]] = {}
        # The commit ts at which a name last lost its table, or a database was last dropped.
        self._retired: dict[_Name | str, int] = {}

    def state(self) -> RecycleBinState:
        """Return the whole content, for `restore`."""
        retired = list(self._retired.items())
        return RecycleBinState(
            [(name, list(schemas)) for name, schemas in self._tables.items()],
            [(database, list(names)) for database, names in self._databases.items()],
            [(name, ts) for name, ts in retired if isinstance(name, tuple)],
            [(name, ts) for name, ts in retired if isinstance(name, str)],
        )

    def restore(self, state: RecycleBinState) -> None:
        """Fill an empty bin with the content of another one."""
        for name, schemas in state.tables:
            self._tables[name] = list(schemas)
        self._databases = {database: list(names) for database, names in state.databases}
        self._retired = {**dict(state.retired_names), **dict(state.retired_databases)}

    def add(self, name: _Name, schema: TableSchema) -> None:
        """Keep a table as it was when it was dropped or truncated."""
        self._tables[name].append(schema)

    def add_database(self, database: str, names: list[_Name], ts: int) -> None:
        """Record that these tables, already in the bin, were dropped with their database."""
        self._retired[fold_name(database)] = ts
        self._databases[fold_name(database)] = [(name, len(self._tables[name])) for name in names]

    def find(self, name: _Name, table_id: int | None = None) -> DroppedTable | None:
        """Find the table with this TiDB table id, or else the last one dropped under the name."""
        schemas = reversed(self._tables.get(name, ()))
        dropped = [DroppedTable(schema, ago) for ago, schema in enumerate(schemas, 1)]
        same = (t for t in dropped if table_id is not None and t.schema.table_id == table_id)
        return next(same, dropped[0] if dropped else None)

    def has_several(self, name: _Name) -> bool:
        """Whether more than one table was dropped or truncated under a name."""
        return len(self._tables.get(name, ())) > 1

    def find_database(self, database: str) -> list[DroppedTable]:
        """Find the tables that were dropped when the database was last dropped."""
        return [
            DroppedTable(self._tables[name][count - 1], len(self._tables[name]) - count + 1)
            for name, count in self._databases.get(fold_name(database), ())
        ]

    def retire_name(self, name: _Name, ts: int) -> None:
        """Record the commit ts at which a name lost its table, by a drop or a rename."""
        self._retired[name] = ts

    def is_outdated(self, name: _Name, version: int | None) -> bool:
        """Whether a schema version is older than the last drop or rename of the name."""
        retired = max(self._retired.get(name, 0), self._retired.get(name[0], 0))
        return version is not None and version < retired
