"""A task: the versions of one table in a window, done by whichever process gets it.

It reads the events and the rows that it needs by itself, as the tasks of `apply` do, and writes the
new data files of a history or of changes, which the driver commits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.table_tasks import TableTask, open_source
from ticdc_assets.lake.history.change_rows import (
    find_changes,
    store_images,
    take_over_images,
    write_changes,
)
from ticdc_assets.lake.history.columns import HistoryColumn
from ticdc_assets.lake.history.rows import (
    LOAD,
    Block,
    Moment,
    filter_block,
    make_rows,
    read_versions,
    take_over,
)
from ticdc_assets.lake.history.table_window import choose_versions, read_start
from ticdc_assets.rows.merging import Concerned
from ticdc_assets.rows.version_chains import OpenVersions, keep_versions
from ticdc_assets.rows.versions import (
    StepVersions,
    begin_versions,
    end_versions,
    list_versions,
)
from ticdc_assets.store.contracts import IMAGES
from ticdc_assets.store.data_files import WrittenFile, write_data_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

Kind = Literal["history", "changes"]
# What a data file holds.
_ROWS_PER_FILE = 500_000
# Readers of changes want a span of time; images are long.
_MEASURED = {"history": None, "changes": ("commit_ts",)}


@dataclass(frozen=True)
class VersionsTask:
    """The versions of a table in a window.

    `start` says which versions are open before it: those of its history, at a `moment`, or the rows
    of its current table, with `load` as those with which a load began it; without it, none.
    `concerned_only`: the versions that no event concerns are left out.  `keeps`: the files have the
    rows that stay in the stored table, too.  `ends_gone`: others have the open versions that have
    to go.
    """

    kind: Kind
    id: str
    table: TableTask
    columns: tuple[HistoryColumn, ...]
    moment: Moment
    start: Literal["history", "current", "load"] | None = None
    concerned_only: bool = False
    keeps: bool = False
    ends_gone: bool = False
    # The stored table: its Delta version and columns.
    version: int | None = None
    stored_columns: tuple[HistoryColumn, ...] = ()
    dropped_ts: int | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.id}"

    @property
    def pending_names(self) -> set[str]:
        return self.table.pending_names

    @property
    def reads_current(self) -> bool:
        """Whether the rows of the current table are read."""
        return self.start in ("current", "load")


class VersionsDone(msgspec.Struct, frozen=True):
    """What a task wrote, or why that is not possible."""

    name: str
    files: list[WrittenFile] = []
    gone: list[WrittenFile] = []
    stopped: str | None = None


def do_versions(engine: Engine, task: VersionsTask) -> VersionsDone:
    """Do a task, and write data files."""
    try:
        return _Work(engine, task).run()
    except ConfigError:
        # Of the storage, not of the table.
        raise
    except CONTENT_ERRORS as error:
        return VersionsDone(task.name, stopped=describe_content_error(error))


def join_done(parts: Sequence[VersionsDone]) -> VersionsDone:
    """Return a table after the tasks of all of its parts."""
    stopped = [part for part in parts if part.stopped is not None]
    if stopped:
        return stopped[0]
    files, gone = ([f for each in parts for f in getattr(each, name)] for name in ("files", "gone"))
    return VersionsDone(parts[0].name, files, gone)


class _Work:
    """Does one task."""

    def __init__(self, engine: Engine, task: VersionsTask) -> None:
        self._location = engine.location
        self._task = task
        self._source = open_source(engine, task.table)
        self._files = _Files(engine.location, task)
        self._gone = _Files(engine.location, task)

    def run(self) -> VersionsDone:
        task = self._task
        start = self._read_start()
        if task.ends_gone and start is not None:
            self._gone.add(self._write(self._keep(start), is_last=True))
        steps = self._list_steps(start)
        last = next(steps)
        for step in steps:
            self._files.add(self._write(last))
            last = step
        self._files.add(self._write(last, is_last=True))
        return VersionsDone(task.name, self._files.finish(), self._gone.finish())

    def _keep(self, versions: OpenVersions) -> StepVersions:
        schema = self._task.table.work[self._task.id].before
        return StepVersions(schema, schema, keep_versions(versions))

    # Reading

    def _read_start(self) -> OpenVersions | None:
        """Read the versions that are open before the window; the rows that stay are written."""
        task = self._task
        concerned = None
        if task.concerned_only and task.start is not None:
            concerned = Concerned(task.table.work[task.id], self._source)
        if task.start == "history":
            return choose_versions(self._read_history(), task.table, task.id, concerned)
        for number, block in self._read_stored() if task.keeps else ():
            self._keep_rows(number, block)
        if task.start is None:
            return None
        start = read_start(self._location, task.table, task.id, concerned)
        if task.start == "load":
            return begin_versions(start.rows, start.rows.commit_ts, LOAD)
        return start

    def _read_history(self) -> Iterator[OpenVersions]:
        task = self._task
        schema = task.table.work[task.id].before
        for number, block in self._read_stored():
            is_open, has_ended = task.moment.find_open(block)
            if task.keeps:
                self._keep_rows(number, filter_block(block, has_ended))
            yield read_versions(filter_block(block, is_open), task.stored_columns, schema)

    def _read_stored(self) -> Iterator[tuple[int, Block]]:
        return enumerate(self._stored.read())

    @cached_property
    def _stored(self) -> StoredRows:
        assert self._task.version is not None
        return StoredRows(LakeReader(self._location), self._task.name, self._task.version)

    def _keep_rows(self, number: int, block: Block) -> None:
        """Take rows over that stay, unless another part does."""
        part = self._task.table.part
        if part is None or number % part.count == part.number:
            self._files.add(self._take_over(block))

    # Writing

    def _list_steps(self, start: OpenVersions | None) -> Iterator[StepVersions]:
        task = self._task
        steps = list_versions(task.table.work, task.id, self._source, start)
        if task.kind == "history" or task.start != "load":
            return steps
        return _begin_with_load(steps)

    def _write(self, step: StepVersions, *, is_last: bool = False) -> pa.Table:
        task = self._task
        if task.kind == "history":
            versions = step.versions
            if is_last and task.dropped_ts is not None:
                versions = end_versions(versions, task.dropped_ts)
            return make_rows(versions, step.schema, task.columns, is_last=is_last)
        columns = task.columns
        return write_changes(
            find_changes(step),
            lambda rows: store_images(rows, step.before, columns),
            lambda rows: store_images(rows, step.schema, columns),
        )

    def _take_over(self, block: Block) -> pa.Table:
        task = self._task
        if task.kind == "history":
            return take_over(block, task.columns)
        # Of the snapshots of one ts a replay starts from the last, which has all DDLs of that ts.
        block = filter_block(block, pc.less_equal(block["commit_ts"], task.moment.ts))
        names = {name: self._stored.read_names(name) for name in IMAGES}
        return take_over_images(block, task.columns, names)


def _begin_with_load(steps: Iterator[StepVersions]) -> Iterator[StepVersions]:
    """A table begins with the rows of its load."""
    first = next(steps)
    is_new = pa.repeat(pa.scalar(True), len(first.versions.rows))
    yield first._replace(versions=replace(first.versions, is_new=is_new))
    yield from steps


@dataclass
class _Files:
    """Writes rows into data files of some size."""

    location: Lake
    task: VersionsTask
    _rows: list[pa.Table] = field(default_factory=list)
    _written: list[WrittenFile] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rows.append(rows)
        if sum(each.num_rows for each in self._rows) >= _ROWS_PER_FILE:
            self._write()

    def finish(self) -> list[WrittenFile]:
        """Return all files."""
        if self._rows:
            self._write()
        return self._written

    def _write(self) -> None:
        rows, self._rows = pa.concat_tables(self._rows), []
        measured = _MEASURED[self.task.kind]
        self._written.append(write_data_file(self.location, self.task.name, rows, measured))
