"""Do the work of a window on its tables: with the engine's tasks, or with Spark where those cannot.

Spark does the work of tables that are too large to be written again for a few changes, and of those
with Delta features that only Spark writes (`table_work`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deltalake import DeltaTable

from ticdc_assets.lake.apply.table_commits import commit_table, describe_commit
from ticdc_assets.lake.apply.table_features import (
    COLUMN_MAPPING,
    is_rewritten,
    list_needed_properties,
)
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.lake.apply.table_tasks import (
    TableDone,
    TableTask,
    unpack_counts,
    unpack_quarantined,
)
from ticdc_assets.lake.apply.table_work import apply_table_work
from ticdc_assets.lake.apply.task_runs import do_tasks
from ticdc_assets.lake.apply.window import FilesGone, PreparedWindow, has_files
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.lake.store.writer import LakeWriter, is_writable
from ticdc_assets.plan.steps import ApplyRows, Exchange, TableWork
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.rows.parts import can_be_split

# What a task holds of events, and of these and the rows of its tables together.
EVENTS_PER_PART = 500_000
_MOST_ROWS = 2_000_000
# Commits mostly wait for storage.
_COMMITS_AT_ONCE = 8


@dataclass(frozen=True)
class _Prepared:
    """A task, how many events it has, and those of its tables that exist, as they are now."""

    task: TableTask
    events: int
    tables: Mapping[str, DeltaTable]


@dataclass(frozen=True)
class WindowWork:
    """The work of a window on some of its tables."""

    lake: LakeSession
    window: PreparedWindow
    # Called after each table.
    report: Callable[[], None]

    def run(self, ids: Collection[str]) -> dict[str, TableOutcome]:
        """Do the work; a table that cannot continue has the reason in its outcome."""
        outcomes: dict[str, TableOutcome] = {}
        tasks: list[tuple[TableTask, int]] = []
        left: list[str] = []
        for group in self._group(ids):
            prepared = self._prepare(group)
            if prepared is None:
                left += group
            elif gone := self._restore(prepared):
                outcomes |= gone
            else:
                tasks.append((prepared.task, prepared.events))
        for id, outcome in self._do_tasks(tasks):
            if outcome is None:
                left.append(id)
            else:
                outcomes[id] = outcome
        return outcomes | self._do_with_spark(left)

    def _work(self, id: str) -> TableWork:
        return self.window.plan.work[id]

    def _group(self, ids: Collection[str]) -> Iterator[list[str]]:
        """Put tables together that exchange rows."""
        waiting = dict.fromkeys(ids)
        while waiting:
            group = [next(iter(waiting))]
            for id in group:
                waiting.pop(id, None)
                steps = self._work(id).steps
                others = [step.other for step in steps if isinstance(step, Exchange)]
                group += [other for other in dict.fromkeys(others) if other not in group]
            yield group

    # With the engine

    def _prepare(self, ids: list[str]) -> "_Prepared | None":
        """Prepare the task of tables; None if one of them takes Spark."""
        versions = self.window.start.versions
        known = {id: versions[id] for id in ids if id in versions}
        work = {id: self._work(id) for id in ids}
        appends = len(ids) == 1 and ids[0] in known and self._appends(work[ids[0]])
        tables: dict[str, DeltaTable] = {}
        read = events = 0
        for id in ids:
            count = self._count_events(id)
            if self._needs_mapping(work[id]):
                return None
            existing = LakeWriter(self.lake.location).find(f"current/{id}")
            if existing is not None:
                rows = self._count_rows_to_read(id, existing, count, appends=appends)
                if rows is None:
                    return None
                tables[id], read = existing, read + rows
            events += count
        parts = max(-(-events // EVENTS_PER_PART), -(-(events + read) // _MOST_ROWS), 1)
        if parts > 1 and (len(ids) > 1 or not can_be_split(work[ids[0]])):
            if events + read > _MOST_ROWS:
                return None
            parts = 1
        return _Prepared(TableTask(work, known, appends, parts), events, tables)

    def _needs_mapping(self, work: TableWork) -> bool:
        schemas = (work.before, work.after)
        needed = (list_needed_properties(list_delta_columns(schema)) for schema in schemas)
        return any(COLUMN_MAPPING in properties for properties in needed)

    def _count_rows_to_read(
        self, id: str, existing: DeltaTable, events: int, *, appends: bool
    ) -> int | None:
        """Return how many of its rows a table's task reads; None if the work takes Spark."""
        if not is_writable(existing):
            return None
        if appends or id not in self.window.start.versions:
            return 0
        files = LakeReader(self.lake.location).list_files(existing)
        return files.rows if is_rewritten(files.size, files.rows, events) else None

    def _appends(self, work: TableWork) -> bool:
        """Whether the work on an existing table only adds rows."""
        steps = merge_steps(work.before, work.steps)
        return all(isinstance(s, ApplyRows) and self._only_inserts(s) for s in steps)

    def _only_inserts(self, step: ApplyRows) -> bool:
        if not step.inserts_only:
            return False
        if not step.schema.key:
            return True
        # Where a change is missing, a key may be in the table already.
        return step.is_ordered_by_commit_ts and not self.window.may_lack_changes

    def _count_events(self, id: str) -> int:
        groups = {
            typed.group
            for step in self._work(id).steps
            if isinstance(step, ApplyRows)
            for typed in step.row_groups
        }
        return sum(group.rows for group in groups)

    def _restore(self, prepared: "_Prepared") -> dict[str, TableOutcome]:
        """Undo what a killed run wrote; pause tables of which maintenance has removed files."""
        task = prepared.task
        start = self.window.start
        reader, writer = LakeReader(self.lake.location), LakeWriter(self.lake.location)
        for id, version in task.versions.items():
            newest = prepared.tables.get(id)
            if newest is None:
                # It has to be there: this states what is wrong.
                newest = reader.open(f"current/{id}")
            if newest.version() == version:
                continue
            if not has_files(self.lake, start, id):
                reason = f"{FilesGone(id, version)}: load the table again"
                return {each: TableOutcome(pause_reason=reason) for each in task.work}
            writer.restore(newest, version, describe_commit(start.ts))
        return {}

    def _do_tasks(
        self, tasks: list[tuple[TableTask, int]]
    ) -> Iterator[tuple[str, TableOutcome | None]]:
        """Do tasks and commit their tables; None for one that takes Spark after all."""
        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as commits:
            for done, outcome in commits.map(
                lambda each: (each, self._commit(each)),
                do_tasks(self.lake, self.window.engine, tasks),
            ):
                self.report()
                yield done.id, outcome

    def _commit(self, done: TableDone) -> TableOutcome | None:
        if done.way == "undone":
            return None
        version = self.window.start.versions.get(done.id)
        quarantined = unpack_quarantined(done)
        if done.stopped is not None:
            return TableOutcome(version, pause_reason=done.stopped)
        if self._changes(done):
            schema, ts = self._work(done.id).after, self.window.plan.state.ts
            version = commit_table(self.lake.location, done, schema, ts)
        return TableOutcome(
            version,
            unpack_counts(done),
            quarantined=quarantined,
            rows_in_wrong_partitions=done.has_misplaced_rows,
        )

    def _changes(self, done: TableDone) -> bool:
        """Whether the Delta table changes: many a DDL leaves it as it is."""
        work = self._work(done.id)
        return done.way == "create" or bool(merge_steps(work.before, work.steps))

    # With Spark

    def _do_with_spark(self, ids: list[str]) -> dict[str, TableOutcome]:
        if not ids:
            return {}
        versions = self.window.start.versions

        def apply_one(id: str) -> TableOutcome:
            work, split = self._work(id), self.window.engine.updates_split
            return apply_table_work(self.window, work, versions.get(id), updates_split=split)

        outcomes = {}
        # A table mostly waits for Delta logs and storage: Python's default is not too many.
        with sized_for(self.lake, small=False), ThreadPoolExecutor() as pool:
            for id, outcome in zip(ids, pool.map(apply_one, ids), strict=True):
                outcomes[id] = outcome
                self.report()
        return outcomes
