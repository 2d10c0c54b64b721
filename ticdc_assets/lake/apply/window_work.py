"""Do the work of a window on its tables: with tasks, whose files this process commits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.lake.apply.spark_commits import SparkCommits
from ticdc_assets.lake.apply.table_commits import commit_table, takes_spark
from ticdc_assets.lake.apply.table_features import is_rewritten
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.lake.apply.table_tasks import (
    TableDone,
    TableTask,
    Way,
    unpack_counts,
    unpack_quarantined,
)
from ticdc_assets.lake.apply.task_runs import do_tasks
from ticdc_assets.lake.apply.time_spans import SpanFiles, cut_span, find_span
from ticdc_assets.lake.apply.window import PreparedWindow, has_files
from ticdc_assets.plan.steps import Alter, ApplyRows, TableWork, group_by_exchange
from ticdc_assets.rows.column_moves import takes_new_files
from ticdc_assets.rows.merged_steps import changes_table, merge_steps
from ticdc_assets.rows.merging import can_be_merged
from ticdc_assets.rows.parts import can_be_split
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.stored_rows import FilesGone
from ticdc_assets.store.writer import is_writable

# What a task holds of events, and of these and the rows of its tables together.
EVENTS_PER_PART = 500_000
_MOST_ROWS = 2_000_000
# Of Parquet of its tables, which is several times as much in memory.  An array of Arrow holds 2 GiB
# of texts.
_MOST_BYTES = 128 << 20
# Commits mostly wait for storage.
_COMMITS_AT_ONCE = 8


@dataclass(frozen=True)
class _Prepared:
    """A task, the weight of its rows, and those of its tables that exist, as they are now."""

    task: TableTask
    weight: int
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
        left = self._run([*group_by_exchange(self.window.plan.work, ids)], outcomes)
        if left:
            self._run([[id] for id in left], outcomes, may_append=False)
        return outcomes

    def _run(
        self,
        groups: Sequence[Sequence[str]],
        outcomes: dict[str, TableOutcome],
        *,
        may_append: bool = True,
    ) -> list[str]:
        """Do the work of groups of tables; return those that do not only get more rows."""
        prepared = []
        for group in groups:
            each = self._prepare(group, may_append=may_append)
            gone = self._restore(each)
            outcomes |= gone
            if not gone:
                prepared.append(each)
        return self._do_tasks(prepared, outcomes)

    def _work(self, id: str) -> TableWork:
        return self.window.plan.work[id]

    # Tasks

    def _prepare(self, ids: Sequence[str], *, may_append: bool) -> _Prepared:
        """Prepare the task of tables."""
        versions = self.window.start.versions
        known = {id: versions[id] for id in ids if id in versions}
        work = {id: self._work(id) for id in ids}
        reader = LakeReader(self.lake.location)
        found = {id: reader.find(f"current/{id}") for id in ids}
        tables = {id: table for id, table in found.items() if table is not None}
        counts = {id: work[id].event_count for id in ids}
        events, read, size = sum(counts.values()), 0, 0
        way: Way = "whole"
        for id in known.keys() & tables.keys():
            is_kept = not work[id].is_laid_out_anew and len(ids) == 1
            if may_append and is_kept and self._appends(work[id]):
                way = "append"
                continue
            files = reader.list_files(tables[id])
            by_spark = not is_writable(tables[id])
            rewritten = is_rewritten(files.size, files.rows, counts[id], by_spark=by_spark)
            may_merge = can_be_merged(work[id]) and not self._would_leave_iceberg(work[id])
            if is_kept and not rewritten and may_merge:
                way = "merge"
                continue
            read += files.rows
            size += files.size
        task = TableTask(work, known, way)
        weight = self.window.weights.weigh(task.names, events)
        parts = max(
            *(-(-weight // EVENTS_PER_PART), -(-(weight + read) // _MOST_ROWS)),
            *(-(-size // _MOST_BYTES), 1),
        )
        task = replace(task, parts=parts)
        if may_append and parts > 1:
            task = replace(task, spans=self._cut(task, events))
        if task.parts > 1 and not task.spans and (len(ids) > 1 or not can_be_split(work[ids[0]])):
            task = replace(task, parts=1)
        return _Prepared(task, weight + read, tables)

    def _cut(self, task: TableTask, events: int) -> tuple[SpanFiles, ...]:
        """Return the spans of time that may be the parts of a task: one that only adds rows.

        Equal rows of a table without a key have the commit ts of the last: they stay together.
        """
        if len(task.work) > 1 or (task.versions and task.way != "append"):
            return ()
        (work,) = task.work.values()
        span = find_span(work)
        if span is None or not work.after.key or not self._appends(work):
            return ()
        return cut_span(self.window.engine.pending, span, task.names, events, task.parts)

    def _would_leave_iceberg(self, work: TableWork) -> bool:
        """Whether a merge would make of an Iceberg table what Iceberg does not have."""
        is_iceberg = match_table(self.lake.feed.iceberg, work.after.database, work.after.table)
        alters = (step for step in work.steps if isinstance(step, Alter))
        return is_iceberg and any(takes_new_files(step.steps) for step in alters)

    def _appends(self, work: TableWork) -> bool:
        """Whether the work on an existing table only adds rows."""
        if work.layout_before.archived and work.before.key:
            # A row may take the place of a kept one.
            return False
        steps = merge_steps(work.before, work.steps)
        return all(isinstance(s, ApplyRows) and self._only_inserts(s) for s in steps)

    def _only_inserts(self, step: ApplyRows) -> bool:
        if not step.inserts_only:
            return False
        if not step.schema.key:
            return True
        # Where a change is missing, a key may be in the table already.
        return step.is_ordered_by_commit_ts and not self.window.may_lack_changes

    def _restore(self, prepared: _Prepared) -> dict[str, TableOutcome]:
        """Undo what a killed run wrote; pause tables of which maintenance has removed files."""
        task = prepared.task
        start = self.window.start
        reader = LakeReader(self.lake.location)
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
            ts = self.window.find_start_ts(id)
            restore(reader.location, f"current/{id}", newest.version(), version, write_ts(ts))
            with reader.explained(newest.table_uri):
                newest.update_incremental()
        return {}

    def _do_tasks(
        self, prepared: Sequence[_Prepared], outcomes: dict[str, TableOutcome]
    ) -> list[str]:
        """Do tasks and commit their tables; return those whose work was undone."""
        tables = {id: table for each in prepared for id, table in each.tables.items()}
        tasks = [(each.task, each.weight) for each in prepared]
        undone, left = [], []

        def finish(done: TableDone) -> tuple[TableDone, TableOutcome | None]:
            return done, self._finish(done, tables.get(done.id))

        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as commits:
            done_tables = do_tasks(self.lake, self.window.engine, tasks)
            for done, outcome in commits.map(finish, done_tables):
                if done.is_undone:
                    undone.append(done.id)
                elif outcome is None:
                    left.append(done)
                else:
                    outcomes[done.id] = outcome
                    self.report()
        self._commit_with_spark(left, outcomes)
        return undone

    def _finish(self, done: TableDone, existing: DeltaTable | None) -> TableOutcome | None:
        """Commit a table unless that takes Spark; return what became of it then."""
        version = self.window.start.versions.get(done.id)
        if done.stopped is not None:
            return TableOutcome(version, pause_reason=done.stopped)
        if done.is_undone:
            return None
        if self._changes(done):
            schema, ts = self._work(done.id).after, self.window.find_ts(done.id)
            if takes_spark(done, existing, schema):
                return None
            version = commit_table(self.lake.location, done, existing, schema, ts)
        return _make_outcome(done, version)

    def _commit_with_spark(
        self, left: Sequence[TableDone], outcomes: dict[str, TableOutcome]
    ) -> None:
        window = self.window
        commits = SparkCommits(window)
        for done, committed in commits.write(left):
            if isinstance(committed, str):
                before = window.start.versions.get(done.id)
                outcomes[done.id] = TableOutcome(before, pause_reason=committed)
            else:
                outcomes[done.id] = _make_outcome(done, committed)
            self.report()

    def _changes(self, done: TableDone) -> bool:
        """Whether the Delta table changes: many a DDL leaves it as it is."""
        is_new = done.id not in self.window.start.versions
        return is_new or changes_table(self._work(done.id))


def _make_outcome(done: TableDone, version: int | None) -> TableOutcome:
    return TableOutcome(
        version,
        unpack_counts(done),
        quarantined=unpack_quarantined(done),
        rows_in_wrong_partitions=done.has_misplaced_rows,
    )
