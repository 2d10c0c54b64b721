"""All tables of the model, and how the effects of DDL move them and their rows."""

from collections import defaultdict
from collections.abc import Iterator

from ticdc_assets.errors import TicdcError, UnsupportedDdl
from ticdc_assets.events import TableSchema
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.effect import (
    AllTablesPaused,
    ColumnAdded,
    ColumnChange,
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
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.stream.problem import (
    ROWS_IN_WRONG_PARTITIONS,
    TIME_OF_DDL,
    UNKNOWN_MEMBERS,
    Problem,
)


class ModelTables:
    """Tables by name; dropped ones are kept, since TiDB can bring them back."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._tables: dict[TableKey, ModelTable] = {}
        self._dropped: dict[TableKey, list[ModelTable]] = defaultdict(list)
        # Why no table that was there before can be trusted.
        self._doubt: str | None = None
        # ENUM and SET columns of which it has been said that their members are not known.
        self._unnamed: set[tuple[str, str, str]] = set()

    def __iter__(self) -> Iterator[ModelTable]:
        return iter(self._tables.values())

    def get(self, database: str, table: str) -> ModelTable | None:
        """Find a table, in any case of letters."""
        return self._tables.get(table_key(database, table))

    def of(self, schema: TableSchema) -> ModelTable:
        """The table of a schema's name; one met only now if it was not known."""
        known = self._tables.get(_key(schema))
        if known is None:
            known = self._tables[_key(schema)] = ModelTable(schema)
            known.paused = self._doubt
        return known

    def pause(self, database: str, table: str, reason: str, ts: int) -> None:
        """Change nothing of a table any more, and say why; an unknown one is known from now on."""
        known = self.of(TableSchema(database, table, (), origin="inferred"))
        if known.paused is None:
            self._problems.append(Problem("paused", reason, database, table, ts))
            known.paused = reason

    def alter(self, schema: TableSchema, steps: tuple[ColumnChange, ...], ts: int) -> None:
        """Take on what a row shows of its table's columns; pause a table that cannot follow."""
        table = self.of(schema)
        try:
            table.alter(schema, steps, ts)
        except TicdcError as error:
            reason = f"rows show other types than statements gave: {error}"
            self.pause(schema.database, schema.table, reason, ts)

    def carry_out(self, effect: Effect, ts: int, sql: str) -> None:
        """Do to names and rows what a DDL does; pause the tables with which that cannot be done."""
        try:
            self._carry_out(effect, ts)
        except TicdcError as error:
            for schema in _concerned(effect):
                self.pause(schema.database, schema.table, f"{error}: {sql}", ts)

    def _carry_out(self, effect: Effect, ts: int) -> None:
        match effect:
            case TableCreated(schema):
                self._tables[_key(schema)] = ModelTable(schema)
            case TableDropped(database, name):
                self._drop(table_key(database, name))
            case TableTruncated(schema):
                paused = self.of(schema).paused
                self._drop(_key(schema))
                # Without rows a table is right again, if its columns are sure.
                self.of(schema).paused = None if schema.origin == "stated" else paused
            case TableRenamed(database, name, schema):
                table = self._tables.pop(table_key(database, name), None)
                self._take_on(table, schema, ts)
            case TableAltered(schema, steps):
                table = self.of(schema)
                table.alter(schema, steps, ts)
                self._say_time_of_ddl(effect, table, ts)
            case PartitionsEmptied():
                self._empty(effect, ts)
            case PartitionExchanged():
                self._exchange(effect, ts)
            case TableRecovered(database, name, schema, ago):
                dropped = self._dropped[table_key(database, name)]
                self._take_on(dropped[-ago] if ago <= len(dropped) else None, schema, ts)
            case TablePaused(database, name, reason):
                self.pause(database, name, reason, ts)
            case AllTablesPaused(reason):
                self._problems.append(Problem("paused", reason, commit_ts=ts))
                self._doubt = self._doubt or reason
                for table in self:
                    table.paused = table.paused or reason

    def _take_on(self, table: ModelTable | None, schema: TableSchema, ts: int) -> None:
        """Put a table, or an empty one, under the name that its schema has now."""
        if table is None:
            table = ModelTable(schema)
            table.paused = self._doubt
        self._tables[_key(schema)] = table
        table.alter(schema, (), ts)

    def _drop(self, key: TableKey) -> None:
        table = self._tables.pop(key, None)
        if table is not None:
            self._dropped[key].append(table)

    def _empty(self, effect: PartitionsEmptied, ts: int) -> None:
        table = self.of(effect.schema)
        if table.strayed:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, "")
        locate = make_locator(effect.partitioning, table.schema)
        table.take(lambda row: locate(row) in effect.names)
        table.alter(effect.schema, (), ts)

    def _exchange(self, effect: PartitionExchanged, ts: int) -> None:
        one, two = self.of(effect.schema), self.of(effect.other)
        for table in (one, two):
            if table.paused is not None:
                raise UnsupportedDdl(f"rows change places with a paused table: {table.paused}", "")
        if one.strayed:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, "")
        locate = make_locator(effect.partitioning, one.schema)
        strayed = any(locate(one.spelt(row)) != effect.partition for row in two)
        out = one.take(lambda row: locate(row) == effect.partition)
        into = two.take(lambda row: True)
        one.alter(effect.schema, (), ts)
        one.fill(into)
        two.fill(out)
        one.strayed = strayed

    def say_members_unknown(self, schema: TableSchema) -> None:
        """Say it if members of an ENUM or SET cannot be named."""
        for column in schema.columns:
            kind, members = column.type.name, column.type.elements
            doubt = (*_key(schema), column.name)
            if kind in ("enum", "set") and members is None and doubt not in self._unnamed:
                self._unnamed.add(doubt)
                reason = UNKNOWN_MEMBERS.format(kind.upper(), column.name)
                self._problems.append(Problem("approximate", reason, schema.database, schema.table))

    def _say_time_of_ddl(self, effect: TableAltered, table: ModelTable, ts: int) -> None:
        added = [s.column for s in effect.column_changes if isinstance(s, ColumnAdded)]
        now = [column.name for column in added if column.default_is_expression]
        if now and len(table) and table.paused is None:
            schema, reason = effect.schema, TIME_OF_DDL + ", ".join(now)
            self._problems.append(Problem("approximate", reason, schema.database, schema.table, ts))


def _key(schema: TableSchema) -> TableKey:
    return table_key(schema.database, schema.table)


def _concerned(effect: Effect) -> list[TableSchema]:
    """The tables whose rows an effect moves or changes."""
    match effect:
        case PartitionExchanged(schema=schema, other=other):
            return [schema, other]
        case TableDropped() | TablePaused() | AllTablesPaused():
            return []
    return [effect.schema]
