"""All tables of the model, and how the effects of DDL move them and their rows."""

from collections.abc import Iterator

from ticdc_assets.events import TableSchema
from ticdc_assets.reference.problem import Problem
from ticdc_assets.reference.table import Table
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.effect import (
    Effect,
    EverythingPaused,
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
from ticdc_assets.schema.partition.locate import locator


class Tables:
    """Tables by name; dropped ones are kept, since TiDB can bring them back."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._tables: dict[TableKey, Table] = {}
        self._dropped: dict[TableKey, Table] = {}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def get(self, database: str, table: str) -> Table | None:
        """Find a table, in any case of letters."""
        return self._tables.get(table_key(database, table))

    def of(self, schema: TableSchema) -> Table:
        """The table of a schema's name; an empty one if it was not known."""
        return self._tables.setdefault(_key(schema), Table(schema))

    def pause(self, database: str, table: str, reason: str, ts: int) -> None:
        """Change nothing of a table any more, and say why."""
        known = self.get(database, table)
        if known is None or known.paused is None:
            self._problems.append(Problem("paused", reason, database, table, ts))
        if known is not None and known.paused is None:
            known.paused = reason

    def carry_out(self, effect: Effect, ts: int) -> None:
        """Do to names and rows what a DDL does."""
        match effect:
            case TableCreated(schema):
                self._tables[_key(schema)] = Table(schema)
            case TableDropped(database, name):
                self._drop(table_key(database, name))
            case TableTruncated(schema):
                paused = self.of(schema).paused
                self._drop(_key(schema))
                # Without rows a table is right again, if its columns are sure.
                self.of(schema).paused = None if schema.origin == "stated" else paused
            case TableRenamed(database, name, schema):
                table = self._tables.pop(table_key(database, name), None) or Table(schema)
                table.alter(schema, (), ts)
                self._tables[_key(schema)] = table
            case TableAltered(schema, steps):
                self.of(schema).alter(schema, steps, ts)
            case PartitionsEmptied(schema, partitioning, names):
                table = self.of(schema)
                locate = locator(partitioning, table.schema)
                table.take(lambda row: locate(row) in names)
                table.alter(schema, (), ts)
            case PartitionExchanged(schema, partitioning, partition, other):
                one, two = self.of(schema), self.of(other)
                locate = locator(partitioning, schema)
                out, into = one.take(lambda row: locate(row) == partition), two.take_all()
                one.fill(into)
                two.fill(out)
            case TableRecovered(database, name, schema):
                table = self._dropped.get(table_key(database, name)) or Table(schema)
                table.alter(schema, (), ts)
                self._tables[_key(schema)] = table
            case TablePaused(database, name, reason):
                self.pause(database, name, reason, ts)
            case EverythingPaused(reason):
                self._problems.append(Problem("paused", reason, commit_ts=ts))
                for table in self:
                    table.paused = table.paused or reason

    def _drop(self, key: TableKey) -> None:
        table = self._tables.pop(key, None)
        if table is not None:
            self._dropped[key] = table


def _key(schema: TableSchema) -> TableKey:
    return table_key(schema.database, schema.table)
