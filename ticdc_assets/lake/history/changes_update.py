"""Update changes: append those of the window; a replay first removes what it computes again."""

from dataclasses import replace
from functools import cached_property

from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.columns import HistoryColumn, fit_all, only_adds
from ticdc_assets.lake.history.table_update import TableUpdate, Way
from ticdc_assets.lake.history.version_tasks import VersionsDone, VersionsTask


class ChangesUpdate(TableUpdate[ChangesTable]):
    """The changes of one table to update."""

    @cached_property
    def columns(self) -> list[HistoryColumn]:
        """The columns of the images once the table has the changes of the window."""
        columns = fit_all([] if self.begins else self.stored.columns, self.list_schemas())
        if self.begins or not only_adds(self.stored.columns, columns):
            return columns
        # Delta adds new columns behind the others.
        places = {column.name: place for place, column in enumerate(self.stored.columns)}
        return sorted(columns, key=lambda column: places.get(column.name, len(places)))

    @cached_property
    def way(self) -> Way:
        if self.goes_on and not self.work.steps:
            return "advance"
        if self.begins or not only_adds(self.stored.columns, self.columns):
            return "replace"
        is_plain = self.goes_on and len(self.columns) == len(self.stored.columns)
        return "append" if is_plain or self.stored.is_large else "replace"

    def make_task(self) -> VersionsTask:
        table = self.make_table_task()
        task = VersionsTask("changes", self.table.id, table, tuple(self.columns), self.moment)
        if self.begins:
            return replace(task, start=self.loaded)
        if self.way == "replace":
            task = replace(self.add_stored(task), keeps=True)
        if self.has_start and not (self.is_by_row and self.appends):
            chooses = self.is_by_row and self.stored.is_large
            return replace(task, start="current", concerned_only=chooses)
        return task

    def commit(self, done: VersionsDone) -> None:
        columns, mark = self.columns, self.goal
        if self.way == "replace":
            self.stored.replace(done.files, columns, mark)
            return
        # Of the snapshots of one ts a replay starts from the last, which has all DDLs of that ts.
        void = None if self.goes_on else f"commit_ts > {self.base.ts}"
        self.stored.append(done.files, columns, mark, replaced=void)
