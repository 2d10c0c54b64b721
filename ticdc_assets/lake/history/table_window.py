"""One table in a window that is only read: what a task needs for it, how large it is, its start."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from ticdc_assets.lake.apply.table_tasks import TableTask
from ticdc_assets.lake.apply.window import FilesGone, PreparedWindow, has_files
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.plan.steps import ApplyRows, Exchange, TableWork
from ticdc_assets.rows.merging import Concerned
from ticdc_assets.rows.parts import can_be_split, list_identifying
from ticdc_assets.rows.table_rows import concat_rows, make_no_rows, read_table
from ticdc_assets.rows.version_chains import MARK, OpenVersions
from ticdc_assets.rows.versions import begin_versions

# What a task holds of events, and of these and the rows before them together: a version takes more
# memory than a row does in `apply`.
_EVENTS_PER_PART = 250_000
_MOST_ROWS = 1_000_000


class WorkSize(NamedTuple):
    """How many events a task has, and how many rows before them."""

    events: int
    rows: int

    @property
    def total(self) -> int:
        return self.events + self.rows

    def count_parts(self, work: TableWork) -> int:
        """Return in how many parts the work on a table is done."""
        if not can_be_split(work):
            return 1
        return max(-(-self.events // _EVENTS_PER_PART), -(-self.total // _MOST_ROWS), 1)


def describe_work(window: PreparedWindow, work: TableWork) -> TableTask:
    """Describe the work on a table, with the tables that exchange rows with it."""
    planned, versions = window.plan.work, window.start.versions
    found = {work.incarnation: work}
    waiting = [work]
    for each in waiting:
        for step in each.steps:
            if isinstance(step, Exchange) and step.other not in found:
                found[step.other] = planned[step.other]
                waiting.append(planned[step.other])
    return TableTask(found, {id: versions[id] for id in found if id in versions})


def require_files(lake: LakeSession, start: Snapshot, ids: Iterable[str]) -> None:
    """Fail if maintenance has removed files of current tables that are read."""
    for id in ids:
        if not has_files(lake, start, id):
            raise FilesGone(id, start.versions[id])


def count_events(task: TableTask) -> int:
    """Count the events of the tables of a task."""
    steps = (step for work in task.work.values() for step in work.steps)
    groups = {
        typed.group for step in steps if isinstance(step, ApplyRows) for typed in step.row_groups
    }
    return sum(group.rows for group in groups)


def count_rows(location: Lake, task: TableTask, ids: Collection[str]) -> int:
    """Count the rows of some current tables of a task."""
    reader = LakeReader(location)
    tables = (reader.open(f"current/{id}", task.versions[id]) for id in ids)
    return sum(reader.list_files(table).rows for table in tables)


def read_start(
    location: Lake, task: TableTask, id: str, concerned: Concerned | None
) -> OpenVersions:
    """Read the rows of a current table as versions, all or those that events concern."""
    schema = task.work[id].before
    stored = StoredRows(LakeReader(location), f"current/{id}", task.versions[id])
    read = (read_table(pa.table(block), schema) for block in stored.read())
    blocks = (begin_versions(rows, rows.commit_ts, None) for rows in read)
    return choose_versions(blocks, task, id, concerned)


def choose_versions(
    blocks: Iterable[OpenVersions], task: TableTask, id: str, concerned: Concerned | None
) -> OpenVersions:
    """Choose the versions of one part, or all, and of these those that events concern, or all."""
    before = task.work[id].before
    identifying = list_identifying(before)
    parts = [OpenVersions(make_no_rows(before), pa.array([], MARK))]
    for block in blocks:
        if task.part is not None:
            block = block.filter(task.part.has(block.rows, identifying))
        if concerned is not None:
            block = block.filter(concerned.choose(block.rows))
        parts.append(block)
    rows, since = concat_rows([each.rows for each in parts]), [each.since for each in parts]
    return OpenVersions(rows, pa.concat_arrays(since))
