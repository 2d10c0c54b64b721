"""One table of versions to update: from which snapshot, through which window, and how."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, TypeVar

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.table_tasks import TableTask
from ticdc_assets.lake.apply.window import PreparedWindow
from ticdc_assets.lake.history.marks import UpdateMark
from ticdc_assets.lake.history.rows import Moment
from ticdc_assets.lake.history.table_window import (
    WorkSize,
    count_events,
    count_rows,
    describe_work,
    require_files,
)
from ticdc_assets.lake.history.version_tasks import VersionsDone, VersionsTask
from ticdc_assets.lake.history.versions_table import VersionsTable
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.rows.versions import is_by_row, list_schemas
from ticdc_assets.store.reader import MANY_ROWS

# How a table gets its new rows; `advance` writes a mark alone.
Way = Literal["advance", "append", "merge", "replace"]

_Stored = TypeVar("_Stored", bound=VersionsTable)


@dataclass(frozen=True)
class Sized:
    """A task, and how many rows it concerns."""

    task: VersionsTask
    rows: int


@dataclass(frozen=True)
class TableUpdate(ABC, Generic[_Stored]):
    """One table of versions to update."""

    table: Incarnation
    stored: _Stored
    goal: UpdateMark
    base: Snapshot
    # None if nothing happened since the snapshot.
    window: PreparedWindow | None

    @property
    @abstractmethod
    def way(self) -> Way:
        """How the table gets its new rows."""

    @abstractmethod
    def make_task(self) -> VersionsTask:
        """Return the task that computes the rows, which is not done in parts yet."""

    @abstractmethod
    def commit(self, done: VersionsDone) -> None:
        """Commit what the tasks wrote."""

    def advance(self) -> None:
        """Commit that nothing changes."""
        self.stored.advance(self.goal)

    @property
    def before(self) -> Incarnation | None:
        """The table at the snapshot."""
        return self.base.state.incarnations.get(self.table.id)

    @property
    def schema(self) -> TableSchema:
        """The schema at the snapshot."""
        return self.table.schema if self.before is None else self.before.schema

    @property
    def work(self) -> TableWork:
        planned = {} if self.window is None else self.window.plan.work
        return planned.get(self.table.id) or TableWork(self.table.id, self.schema, False, ())

    @property
    def is_small(self) -> bool:
        """Whether the update takes little work."""
        has_few = self.window is None or self.window.row_count < MANY_ROWS
        return has_few and not self.stored.is_large

    @property
    def goes_on(self) -> bool:
        """Whether what the table has up to the snapshot stays as it is."""
        known = self.stored.mark
        return known is not None and known.ts <= self.base.ts

    @property
    def begins(self) -> bool:
        """Whether the table is written from nothing."""
        return self.stored.version is None or self.before is None

    @property
    def appends(self) -> bool:
        """Whether only new rows come."""
        rows = [step for step in self.work.steps if isinstance(step, ApplyRows)]
        are_new = all(step.inserts_only and step.is_ordered_by_commit_ts for step in rows)
        return are_new and self.window is not None and not self.window.may_lack_changes

    @cached_property
    def is_by_row(self) -> bool:
        """Whether only versions of rows with events begin or end."""
        return self.window is not None and is_by_row(self.work)

    @property
    def moment(self) -> Moment:
        """The snapshot, and the DROP that has ended the stored versions, if one has."""
        mark = self.stored.mark
        return Moment(self.base.ts, None if mark is None else mark.dropped_ts)

    @property
    def has_start(self) -> bool:
        """Whether the window starts from rows of the current table."""
        return self.window is not None and self.table.id in self.window.start.versions

    @property
    def loaded(self) -> Literal["load"] | None:
        """How a table starts whose history, or changes, begin: with its load, or with nothing.

        Behind a fold it starts with the rows that it had there, as with those of a load.
        """
        return "load" if self.has_start else None

    def list_schemas(self) -> list[TableSchema]:
        """List the schemas of the versions in the window."""
        return list_schemas(self.work)

    def add_stored(self, task: VersionsTask) -> VersionsTask:
        """Return a task that reads the stored table."""
        columns = tuple(self.stored.columns)
        return replace(task, version=self.stored.version, stored_columns=columns)

    def size_task(self) -> Sized:
        """Return the task with the number of its parts; raise if it cannot be done."""
        task = self.make_task()
        self._require_plan(task)
        read = [id for id in task.table.versions if id != self.table.id or task.reads_current]
        if self.window is not None:
            require_files(self.stored.lake, self.window.start, read)
        size = WorkSize(count_events(task.table), self._count_rows(task, read))
        table = replace(task.table, parts=size.count_parts(self.work))
        return Sized(replace(task, table=table), size.total)

    def make_table_task(self) -> TableTask:
        """Return what the task reads."""
        if self.window is None:
            return TableTask({self.table.id: self.work}, {})
        return describe_work(self.window, self.work)

    def _require_plan(self, task: VersionsTask) -> None:
        """Fail if the plan does not say what becomes of the table."""
        if self.window is not None:
            planned = self.window.plan.state.incarnations.get(self.table.id)
            if planned is None or planned.is_stopped:
                reason = "the events do not make this table" if planned is None else planned.reason
                raise TableCannotContinue(f"its {self.stored.folder} cannot be computed: {reason}")
        elif task.start is None:
            raise TableCannotContinue("nothing is known of the rows of this table")

    def _count_rows(self, task: VersionsTask, read: Collection[str]) -> int:
        """Count the rows that a task holds: events tell how many of those that they concern."""
        if task.concerned_only:
            return 0
        reader = self.stored.reader
        count = count_rows(reader.location, task.table, read)
        if task.version is not None:
            count += reader.list_files(reader.open(task.name, task.version)).rows
        return count
