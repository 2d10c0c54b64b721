"""All tables of the model, and how the effects of DDLs change them and their rows."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial

from ticdc_assets.errors import (
    CONTENT_ERRORS,
    TicdcError,
    UnsupportedDdl,
    describe_content_error,
)
from ticdc_assets.events import Partitioning, TableSchema
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.effect import (
    AllTablesPaused,
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
from ticdc_assets.schema.partition.locate import make_locator, make_strict_locator
from ticdc_assets.schema.partition.method import Locate
from ticdc_assets.stream.problem import (
    CREATE_NOT_SENT,
    ROWS_IN_WRONG_PARTITIONS,
    ROWS_OF_PARTIAL_TABLE,
    UNKNOWN_MEMBERS,
    Problem,
    list_approximations,
)


class ModelTables:
    """Tables by name; dropped tables are kept, since TiDB can recover them."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._tables: dict[TableKey, ModelTable] = {}
        self._dropped: dict[TableKey, list[ModelTable]] = defaultdict(list)
        # What became of names that tables had: "dropped" or "renamed to …", and when.
        self.former_names: dict[TableKey, tuple[str, int]] = {}
        # Names with rows of which nothing states the columns.
        self._unknown: set[TableKey] = set()
        # Why all tables that existed before are paused.
        self._pause_reason: str | None = None
        # ENUM and SET columns whose unknown members have been reported.
        self._reported_columns: set[tuple[str, str, str]] = set()

    def __iter__(self) -> Iterator[ModelTable]:
        return iter(self._tables.values())

    def get(self, database: str, table: str) -> ModelTable | None:
        """Return a table by its name in any case."""
        return self._tables.get(table_key(database, table))

    def find_or_add(self, schema: TableSchema) -> ModelTable:
        """Return the table with the name of a schema; add it if it is unknown."""
        known = self._tables.get(_key(schema))
        if known is None:
            known = self._tables[_key(schema)] = self._make_older_table(schema)
        return known

    def _make_older_table(self, schema: TableSchema) -> ModelTable:
        """Make a table that was there before, with rows that nobody has seen."""
        table = ModelTable(schema)
        table.pause_reason = self._pause_reason
        table.partial_reason = CREATE_NOT_SENT
        return table

    def pause(self, database: str, table: str, reason: str, ts: int) -> None:
        """Pause a table and report why; an unknown table is added first."""
        known = self.find_or_add(TableSchema(database, table, (), origin="inferred"))
        if known.pause_reason is None:
            self._problems.append(Problem("paused", reason, database, table, ts))
            known.pause_reason = reason

    def wait(self, key: TableKey) -> None:
        """Let a table wait for the schema of its rows."""
        if key in self._tables:
            self._tables[key].is_waiting = True
        else:
            self._unknown.add(key)

    def is_waiting(self, key: TableKey) -> bool:
        """Return whether the table of a name waits, be it known or not."""
        table = self._tables.get(key)
        return key in self._unknown if table is None else table.is_waiting

    def waiting_names(self) -> set[TableKey]:
        """Return the names of all tables that wait."""
        return {key for key in self._tables.keys() | self._unknown if self.is_waiting(key)}

    def apply_effect(
        self, effect: Effect, ts: int, sql: str, names: Collection[TableKey] = ()
    ) -> None:
        """Apply an effect of a DDL to names and rows; pause the tables for which that fails.

        A table that the effect is the first to mention waits if one of `names` is unknown and has
        rows that wait: they may be its own.
        """
        first = _key(effect.schema) if isinstance(effect, TableAltered) else None
        if first in self._tables or self._unknown.isdisjoint(names):
            first = None
        try:
            self._apply_effect(effect, ts)
            if first is not None:
                self._tables[first].is_waiting = True
        except CONTENT_ERRORS as error:
            affected = _affected_tables(effect)
            if not affected:
                raise
            for schema in affected:
                reason = f"{describe_content_error(error)}: {sql}"
                self.pause(schema.database, schema.table, reason, ts)

    def _apply_effect(self, effect: Effect, ts: int) -> None:
        match effect:
            case TableCreated(schema):
                self._tables[_key(schema)] = ModelTable(schema)
            case TableDropped(database, name):
                self._drop(table_key(database, name))
                self.former_names[table_key(database, name)] = "dropped", ts
            case TableTruncated(schema, ends_pause):
                known = self._tables.get(_key(schema))
                self._drop(_key(schema))
                self._tables[_key(schema)] = ModelTable(schema)
                if known is not None and not ends_pause:
                    self._tables[_key(schema)].pause_reason = known.pause_reason
                    self._tables[_key(schema)].is_waiting = known.is_waiting
            case TableRenamed(database, name, schema):
                table = self._tables.pop(table_key(database, name), None)
                renamed = f"renamed to {schema.database}.{schema.table}"
                self.former_names[table_key(database, name)] = renamed, ts
                self._put_table(table, schema, ts)
            case TableAltered(schema, steps):
                table = self.find_or_add(schema)
                table.alter(schema, steps, ts)
                self._report_approximations(effect, table, ts)
            case PartitionsEmptied():
                self._empty(effect, ts)
            case PartitionExchanged():
                self._exchange(effect, ts)
            case TableRecovered(database, name, schema, ago):
                dropped = self._dropped[table_key(database, name)]
                self._put_table(dropped[-ago] if ago <= len(dropped) else None, schema, ts)
            case TablePaused(database, name, reason):
                self.pause(database, name, reason, ts)
            case AllTablesPaused(reason):
                self._problems.append(Problem("paused", reason, commit_ts=ts))
                self._pause_reason = self._pause_reason or reason
                for table in self:
                    table.pause_reason = table.pause_reason or reason

    def _put_table(self, table: ModelTable | None, schema: TableSchema, ts: int) -> None:
        """Put a table, or a new one, under the name in its schema."""
        if table is None:
            table = self._make_older_table(schema)
        self._tables[_key(schema)] = table
        table.rename(schema)
        table.alter(schema, (), ts)

    def _drop(self, key: TableKey) -> None:
        table = self._tables.pop(key, None)
        if table is not None:
            self._dropped[key].append(table)

    def _empty(self, effect: PartitionsEmptied, ts: int) -> None:
        table = self.find_or_add(effect.schema)
        if table.has_misplaced_rows:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS)
        locate = _locate_lazily(make_strict_locator, effect, table)
        table.take_rows(lambda row: locate(row) in effect.names)
        table.alter(effect.schema, (), ts)

    def _exchange(self, effect: PartitionExchanged, ts: int) -> None:
        waits = self.is_waiting(_key(effect.schema)) or self.is_waiting(_key(effect.other))
        partitioned, other = self.find_or_add(effect.schema), self.find_or_add(effect.other)
        for table in (partitioned, other):
            if table.pause_reason is not None:
                raise UnsupportedDdl(
                    f"EXCHANGE PARTITION with a paused table: {table.pause_reason}"
                )
        if waits:
            partitioned.is_waiting = other.is_waiting = True
            return
        if partitioned.has_misplaced_rows:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS)
        locate = _locate_lazily(make_strict_locator, effect, partitioned)
        locate_received = _locate_lazily(make_locator, effect, partitioned)

        def may_be_misplaced(row: ModelRow) -> bool:
            try:
                return locate_received(partitioned.rename_columns(row)) != effect.partition
            except TicdcError:
                return True

        has_misplaced_rows = any(may_be_misplaced(row) for row in other)
        from_partition = partitioned.take_rows(lambda row: locate(row) == effect.partition)
        from_other = other.take_rows(lambda row: True)
        partitioned.alter(effect.schema, (), ts)
        partitioned.put_rows(from_other)
        other.put_rows(from_partition)
        partitioned.has_misplaced_rows = has_misplaced_rows
        _exchange_partial(partitioned, other)

    def report_unknown_members(self, schema: TableSchema) -> None:
        """Report every ENUM and SET column whose members are unknown, once."""
        for column in schema.columns:
            kind, members = column.type.name, column.type.elements
            name = (*_key(schema), column.name)
            if kind in ("enum", "set") and members is None and name not in self._reported_columns:
                self._reported_columns.add(name)
                reason = UNKNOWN_MEMBERS.format(kind.upper(), column.name)
                self._problems.append(Problem("approximate", reason, schema.database, schema.table))

    def _report_approximations(self, effect: TableAltered, table: ModelTable, ts: int) -> None:
        if not len(table) or table.pause_reason is not None:
            return
        name = effect.schema.database, effect.schema.table
        for reason in list_approximations(effect.column_changes):
            self._problems.append(Problem("approximate", reason, *name, ts))


def _exchange_partial(partitioned: ModelTable, other: ModelTable) -> None:
    """Take along that rows are missing: the other table's are all of the partitioned one."""
    was_partial = partitioned.partial_reason is not None
    if other.partial_reason is not None and not was_partial:
        partitioned.partial_reason = _describe_partial(other)
    other.partial_reason = _describe_partial(partitioned) if was_partial else None


def _describe_partial(source: ModelTable) -> str:
    return ROWS_OF_PARTIAL_TABLE.format(source.schema.database, source.schema.table)


def _key(schema: TableSchema) -> TableKey:
    return table_key(schema.database, schema.table)


def _locate_lazily(
    make: Callable[[Partitioning, TableSchema, DdlContext], Locate],
    effect: PartitionsEmptied | PartitionExchanged,
    table: ModelTable,
) -> Locate:
    """Return a locator that is made for its first row: without rows, nothing is uncertain."""
    locator = cache(partial(make, effect.partitioning, table.schema, effect.context))
    return lambda row: locator()(row)


def _affected_tables(effect: Effect) -> list[TableSchema]:
    """Return the tables whose rows an effect moves or changes."""
    match effect:
        case PartitionExchanged(schema=schema, other=other):
            return [schema, other]
        case TableDropped() | TablePaused() | AllTablesPaused():
            return []
    return [effect.schema]
