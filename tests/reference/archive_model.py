"""The reference model with archived tables: what each event and DDL deletes, one at a time."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events import TableSchema
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_typing import RowTyper, TypedChange
from ticdc_assets.reference.table import ModelRow, ModelTable, _change_row
from ticdc_assets.reference.tables import ModelTables
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    Effect,
    PartitionsEmptied,
    TableAltered,
    TableTruncated,
)
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.rules import StreamRules

# A row that was deleted, with its values then, and the ts of its delete.
Kept = tuple[ModelRow, int]


class ArchivedTables(ModelTables):
    """The tables, and the kept rows of each."""

    def __init__(self, problems: list[Problem], rules: StreamRules) -> None:
        super().__init__(problems)
        self._rules = rules
        self.kept: dict[ModelTable, list[Kept]] = defaultdict(list)

    def keeps(self, schema: TableSchema, deletes: str) -> bool:
        return deletes in self._rules.list_kept_deletes(schema)

    def leave_out_returned(self, table: ModelTable) -> None:
        """Leave out kept rows whose keys are there, and all but the last of each key."""
        if table.key and self.kept[table]:
            there = {table.identity(row) for row in table}
            kept = sorted(self.kept[table], key=lambda pair: pair[1])
            last = {table.identity(row): (row, ts) for row, ts in kept}
            self.kept[table] = [pair for name, pair in last.items() if name not in there]

    def _apply_effect(self, effect: Effect, ts: int) -> None:
        schema = getattr(effect, "schema", None)
        table = None if schema is None else self.get(schema.database, schema.table)
        before = [] if table is None else list(table)
        super()._apply_effect(effect, ts)
        match effect:
            case TableTruncated(schema) if table is not None:
                begun = self.find_or_add(schema)
                self.kept[begun] = [*self.kept[table]]
                if self.keeps(schema, "truncate"):
                    self.kept[begun] += [(row, ts) for row in before]
            case PartitionsEmptied(schema) if table is not None:
                if self.keeps(schema, "drop-partition"):
                    left = [repr(row) for row in table]
                    self.kept[table] += [(row, ts) for row in before if repr(row) not in left]
            case TableAltered(schema, steps) if table is not None:
                self.kept[table] = [(alter(row, steps, ts), at) for row, at in self.kept[table]]
        for each in list(self.kept):
            self.kept[each] = [(each.rename_columns(row), at) for row, at in self.kept[each]]
            self.leave_out_returned(each)


def alter(row: ModelRow, steps: Sequence[ColumnChange], ts: int) -> ModelRow:
    """Take a kept row through column changes; a value that cannot be converted is NULL."""
    for step in steps:
        try:
            row = _change_row(row, step, ts)
        except CONTENT_ERRORS:
            if isinstance(step, ColumnAdded | ColumnConverted):
                name = step.name if isinstance(step, ColumnConverted) else step.column.name
                row = {**row, name: None}
    return row


class ArchiveModel(Model):
    """The model; it compares a table before and after each transaction."""

    tables: ArchivedTables

    def _begin(self) -> None:
        super()._begin()
        self.tables = ArchivedTables(self.problems, self._rules)
        self._typer = RowTyper(self._buffer, self._catalog, self.tables, self._rules.redecode)

    def _apply_together(self, table: ModelTable, changes: list[TypedChange]) -> None:
        before = {table.identity(row): row for row in table}
        super()._apply_together(table, changes)
        if table.key:
            self._keep_gone(table, before, changes)
        else:
            gone = [typed.old for typed in changes if typed.new is None and typed.old is not None]
            there = [row for row in gone if table.identity(row) in before]
            self._keep(table, there, changes)

    def _keep_gone(
        self, table: ModelTable, before: dict[Any, ModelRow], changes: list[TypedChange]
    ) -> None:
        put = {table.identity(t.new) for t in changes if t.new is not None}
        kept = self.tables.kept[table]
        self.tables.kept[table] = [pair for pair in kept if table.identity(pair[0]) not in put]
        after = {table.identity(row) for row in table} | table.incomplete.keys()
        gone = [row for name, row in before.items() if name not in after]
        self._keep(table, gone, changes)

    def _apply_to_multiset(
        self, table: ModelTable, changes_by_pass: list[tuple[TypedChange, int]]
    ) -> None:
        there = Counter(table.identity(row) for row in table)
        in_pass: dict[int, Counter[Any]] = defaultdict(Counter)
        deleted: dict[Any, ModelRow] = {}
        for typed, number in changes_by_pass:
            if typed.new is None and typed.old is not None:
                content = table.identity(typed.old)
                in_pass[number][content] += 1
                deleted[content] = typed.old
        super()._apply_to_multiset(table, changes_by_pass)
        for content, row in deleted.items():
            copies = max(counted[content] for counted in in_pass.values())
            changes = [typed for typed, _ in changes_by_pass]
            self._keep(table, [row] * min(copies, there[content]), changes)

    def _keep(self, table: ModelTable, gone: list[ModelRow], changes: list[TypedChange]) -> None:
        if self.tables.keeps(table.schema, "rows"):
            with suppress(IndexError):
                ts = changes[0].change.commit_ts
                self.tables.kept[table] += [(row, ts) for row in gone]
