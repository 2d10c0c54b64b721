"""Tables that have left their names, and that TiDB can bring back: RECOVER and FLASHBACK.

Only schemas and the order of drops are kept here; whoever has the rows counts the same way back.
"""

from collections import defaultdict

from msgspec import Struct

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import folded

# A table's name in the form in which names are compared.
_Name = tuple[str, str]


class Thrown(Struct, frozen=True):
    """A dropped or truncated table; `ago` is 1 for the last one of its name."""

    schema: TableSchema
    ago: int


class BinContent(Struct, frozen=True):
    """A recycle bin as it can be written down."""

    thrown: list[tuple[_Name, list[TableSchema]]] = []
    databases: list[tuple[str, list[tuple[_Name, int]]]] = []
    left_names: list[tuple[_Name, int]] = []
    left_databases: list[tuple[str, int]] = []


class RecycleBin:
    """Dropped and truncated tables by name, the last one last."""

    def __init__(self) -> None:
        self._thrown: dict[_Name, list[TableSchema]] = defaultdict(list)
        self._databases: dict[str, list[tuple[_Name, int]]] = {}
        self._left: dict[_Name | str, int] = {}

    def content(self) -> BinContent:
        """All that is in it."""
        left = list(self._left.items())
        return BinContent(
            [(name, list(schemas)) for name, schemas in self._thrown.items()],
            [(name, list(went)) for name, went in self._databases.items()],
            [(name, ts) for name, ts in left if isinstance(name, tuple)],
            [(name, ts) for name, ts in left if isinstance(name, str)],
        )

    def refill(self, content: BinContent) -> None:
        """Hold what another one held."""
        for name, schemas in content.thrown:
            self._thrown[name] = list(schemas)
        self._databases = {name: list(went) for name, went in content.databases}
        self._left = {**dict(content.left_names), **dict(content.left_databases)}

    def throw(self, name: _Name, schema: TableSchema) -> None:
        """Keep a table as it was when it was dropped or truncated."""
        self._thrown[name].append(schema)

    def throw_database(self, database: str, names: list[_Name], ts: int) -> None:
        """Remember which of the tables thrown in just now went with their database."""
        self._left[folded(database)] = ts
        self._databases[folded(database)] = [(name, len(self._thrown[name])) for name in names]

    def find(self, name: _Name, table_id: int | None = None) -> Thrown | None:
        """The table of TiDB's id, where it is stated and known; else the last one of this name."""
        thrown = [Thrown(s, ago) for ago, s in enumerate(reversed(self._thrown.get(name, ())), 1)]
        same = (t for t in thrown if table_id is not None and t.schema.table_id == table_id)
        return next(same, thrown[0] if thrown else None)

    def several(self, name: _Name) -> bool:
        """Whether more than one table was thrown in under a name."""
        return len(self._thrown.get(name, ())) > 1

    def with_database(self, database: str) -> list[Thrown]:
        """The tables that went with a database when it was last dropped."""
        went = self._databases.get(folded(database), ())
        return [
            Thrown(self._thrown[name][count - 1], len(self._thrown[name]) - count + 1)
            for name, count in went
        ]

    def leave(self, name: _Name, ts: int) -> None:
        """Note that a name has lost its table, dropped or renamed, at this ts."""
        self._left[name] = ts

    def is_past(self, name: _Name, version: int | None) -> bool:
        """Whether a schema of this version is that of a table that has left its name since."""
        left = max(self._left.get(name, 0), self._left.get(name[0], 0))
        return version is not None and version < left
