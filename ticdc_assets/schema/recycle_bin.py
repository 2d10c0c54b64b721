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


class RecycleBin:
    """Dropped and truncated tables by name, the last one last."""

    def __init__(self) -> None:
        self._thrown: dict[_Name, list[TableSchema]] = defaultdict(list)
        self._databases: dict[str, list[tuple[_Name, int]]] = {}
        self._left: dict[_Name | str, int] = {}

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
