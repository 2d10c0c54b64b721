"""One table in a window that is only read: what a task needs for it, how large it is, its start."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from ticdc_assets.lake.apply.table_tasks import TableTask, read_blocks
from ticdc_assets.lake.apply.window import PreparedWindow, has_files
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.steps import TableWork, group_by_exchange
from ticdc_assets.rows.kept import split_kept
from ticdc_assets.rows.merging import Concerned
from ticdc_assets.rows.parts import can_be_split, list_identifying
from ticdc_assets.rows.table_rows import concat_rows, make_no_rows
from ticdc_assets.rows.version_chains import MARK, OpenVersions
from ticdc_assets.rows.versions import begin_versions
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import FilesGone, StoredRows

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
    planned, versions = {**window.plan.work, work.incarnation: work}, window.start.versions
    (group,) = group_by_exchange(planned, [work.incarnation])
    return TableTask(
        {id: planned[id] for id in group}, {id: versions[id] for id in group if id in versions}
    )


def require_files(lake: LakeSession, start: Snapshot, ids: Iterable[str]) -> None:
    """Fail if maintenance has removed files of current tables that are read."""
    for id in ids:
        if not has_files(lake, start, id):
            raise FilesGone(id, start.versions[id])


def count_events(task: TableTask) -> int:
    """Count the events of the tables of a task."""
    return sum(work.event_count for work in task.work.values())


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
    read = (split_kept(rows).there for rows in read_blocks(stored, schema, None))
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
