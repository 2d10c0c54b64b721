"""Where DDLs, loads and definitions cut the rows of a table: no row group spans one of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ticdc_assets.events import SchemaChange
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.plan.load import Load
from ticdc_assets.schema.catalog import TableKey, key_of
from ticdc_assets.schema.name_resolution import touched_tables


class DdlCuts(Struct, frozen=True):
    """The ts of DDLs and loads, sorted: of those on each table, and of those on any table."""

    by_table: Mapping[TableKey, tuple[int, ...]] = {}
    everywhere: tuple[int, ...] = ()

    def of(self, table: TableKey) -> tuple[int, ...]:
        """Return the commit ts of all DDLs that may concern a table."""
        return tuple(sorted({*self.everywhere, *self.by_table.get(table, ())}))


def find_cuts(
    ddls: Iterable[SchemaChange], after_ts: int, others: Iterable[Load | Definition] = ()
) -> DdlCuts:
    """Find where DDLs, loads and definitions after a ts cut the rows of their tables."""
    by_table: dict[TableKey, set[int]] = defaultdict(set)
    everywhere: set[int] = set()
    for change in ddls:
        if change.commit_ts > after_ts:
            tables = touched_tables(change)
            if tables is None:
                everywhere.add(change.commit_ts)
            for table in tables or ():
                by_table[table].add(change.commit_ts)
    for other in others:
        by_table[key_of(other.schema)].add(other.ts)
    return DdlCuts(
        {table: tuple(sorted(times)) for table, times in by_table.items()},
        tuple(sorted(everywhere)),
    )
