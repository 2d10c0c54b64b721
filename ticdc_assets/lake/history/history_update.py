"""Update a history: write its rows as a whole, or only the versions that begin or end."""

from dataclasses import replace
from functools import cached_property

from ticdc_assets.lake.history.columns import (
    HistoryColumn,
    fit_all,
    make_history_name,
    only_adds,
)
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.table_update import TableUpdate, Way
from ticdc_assets.lake.history.version_tasks import VersionsDone, VersionsTask
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.rows.keyed import find_key


class HistoryUpdate(TableUpdate[HistoryTable]):
    """One history to update."""

    @property
    def is_live(self) -> bool:
        """Whether no DROP ends versions, and none came back."""
        known = self.stored.mark
        return known is not None and known.dropped_ts is None and self.goal.dropped_ts is None

    @cached_property
    def columns(self) -> list[HistoryColumn]:
        """The columns of the history once it has the rows of the window."""
        return fit_all([] if self.begins else self.stored.columns, self.list_schemas())

    @cached_property
    def way(self) -> Way:
        if not self.is_live or not self.goes_on:
            return "replace"
        if not self.work.steps:
            return "advance"
        is_kept = self.stored.is_large and self.is_by_row
        if not is_kept or not only_adds(self.stored.columns, self.columns):
            return "replace"
        return "append" if self.appends else "merge"

    def make_task(self) -> VersionsTask:
        table, way = self.make_table_task(), self.way
        task = VersionsTask("history", self.table.id, table, tuple(self.columns), self.moment)
        if self.begins:
            return replace(task, start=self.loaded, dropped_ts=self.goal.dropped_ts)
        if way == "append":
            return task
        task = replace(self.add_stored(task), start="history")
        if way == "merge":
            return replace(task, concerned_only=True, ends_gone=True)
        return replace(task, keeps=True, dropped_ts=self.goal.dropped_ts)

    def commit(self, done: VersionsDone) -> None:
        columns, mark = self.columns, self.goal
        match self.way:
            case "replace":
                self.stored.replace(done.files, columns, mark)
            case "append":
                self.stored.append(done.files, columns, mark)
            case _:
                schema = self.schema
                keys = [c for c in list_delta_columns(schema) if c.column in find_key(schema)]
                names = [*map(make_history_name, keys)] or [column.name for column in columns]
                self.stored.merge(done, columns, names, mark)
