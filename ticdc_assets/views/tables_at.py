"""The tables of a lake at one ts, whatever reads their rows."""

from collections.abc import Iterable
from dataclasses import dataclass

from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.state import Incarnation, State


@dataclass(frozen=True)
class TablesAt:
    """All tables at one ts."""

    ts: int
    state: State

    def tables(self) -> list[Incarnation]:
        """Return the tables that existed at the ts, by name."""
        tables = [self.state.incarnations[id] for _, id in self.state.names]
        return sorted(tables, key=lambda table: (table.schema.database, table.schema.table))

    def find(self, name: str) -> list[Incarnation]:
        """Find tables by `db.table`; two can match if their names contain dots."""
        return select_named(self.tables(), name)


def select_named(tables: Iterable[Incarnation], name: str) -> list[Incarnation]:
    """Select the tables that `db.table` may name."""
    wanted = fold_name(name)
    return [
        table
        for table in tables
        if fold_name(f"{table.schema.database}.{table.schema.table}") == wanted
    ]
