"""One history to update: what has to be done, and whether a merge suffices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.merged_steps import merge_steps
from ticdc_assets.lake.apply.typed_rows import spell_key
from ticdc_assets.lake.apply.versions import keeps_versions
from ticdc_assets.lake.apply.window import PreparedWindow
from ticdc_assets.lake.columns.types import list_delta_columns
from ticdc_assets.lake.history.columns import HistoryColumn, fit_columns
from ticdc_assets.lake.history.history_table import HistoryMark, HistoryTable
from ticdc_assets.lake.history.rows import Moment
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.reader import MANY_ROWS
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.steps import Alter, ApplyRows, TableWork


@dataclass(frozen=True)
class TableUpdate:
    """One history to update: from which snapshot, and through which window."""

    table: Incarnation
    history: HistoryTable
    goal: HistoryMark
    base: Snapshot
    # None if nothing happened since the snapshot.
    window: PreparedWindow | None

    @property
    def before(self) -> Incarnation | None:
        """The table at the snapshot."""
        return self.base.state.incarnations.get(self.table.id)

    @property
    def start(self) -> Moment:
        return Moment(self.base.ts, None if self.before is None else self.before.dropped_ts)

    @property
    def work(self) -> TableWork:
        planned = {} if self.window is None else self.window.plan.work
        return planned.get(self.table.id) or TableWork(self.table.id, self.schema, False, ())

    @property
    def schema(self) -> TableSchema:
        """The schema at the snapshot."""
        return self.table.schema if self.before is None else self.before.schema

    @property
    def is_live(self) -> bool:
        """Whether no DROP ends versions, and none came back."""
        known = self.history.mark
        return known is not None and known.dropped_ts is None and self.goal.dropped_ts is None

    @property
    def is_small(self) -> bool:
        """Whether the update takes little work."""
        has_few = self.window is None or self.window.rows < MANY_ROWS
        return has_few and not self.history.is_large

    @property
    def changes_nothing(self) -> bool:
        known = self.history.mark
        is_further = known is not None and known.ts <= self.base.ts
        return is_further and self.is_live and not self.work.steps

    @property
    def appends(self) -> bool:
        """Whether only new rows come."""
        rows = [step for step in self.work.steps if isinstance(step, ApplyRows)]
        are_new = all(step.inserts_only and step.is_ordered_by_commit_ts for step in rows)
        return are_new and self.window is not None and not self.window.may_lack_changes

    @property
    def is_mergeable(self) -> bool:
        """Whether only versions of rows with events begin or end, in a large history."""
        known, window, work = self.history.mark, self.window, self.work
        if known is None or window is None or not self.is_live:
            return False
        if known.ts > self.base.ts or not self.history.is_large:
            return False
        steps = merge_steps(work.before, work.steps)
        if not work.before.key and len(steps) > 1:
            return False
        schemas = [work.before, *(step.schema for step in steps)]
        if len({_get_key(schema) for schema in schemas}) > 1:
            return False
        before = window.frames.empty(work.before)
        schema = work.before
        for step in steps:
            if isinstance(step, Alter) and not keeps_versions(before, schema, step):
                return False
            if not isinstance(step, Alter | ApplyRows):
                return False
            schema = step.schema
        return _only_adds(self.history.columns, schemas)


def _get_key(schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Return the key columns of a table."""
    key = spell_key(schema)
    return tuple((c.name, c.type) for c in list_delta_columns(schema) if c.column in key)


def _only_adds(columns: list[HistoryColumn], schemas: Sequence[TableSchema]) -> bool:
    """Whether a history needs nothing but new columns for rows of some schemas."""
    fitted = {column.name: column for column in reduce(fit_columns, schemas, columns)}
    return all(
        column.name in fitted
        and (fitted[column.name].type, fitted[column.name].sources) == (column.type, column.sources)
        for column in columns
    )
