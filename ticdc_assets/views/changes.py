"""The changes of a table between two ts: each with the row before and after it.

They are computed from a snapshot and the events since; no table of them has to be switched on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.spread_tasks import read_part
from ticdc_assets.lake.apply.table_tasks import TableTask, open_source
from ticdc_assets.lake.apply.task_runs import are_few, do_here
from ticdc_assets.lake.apply.window import PreparedWindow, prepare_window
from ticdc_assets.lake.history.change_rows import (
    find_changes,
    format_types,
    list_change_fields,
    make_image_type,
    make_images,
    write_changes,
)
from ticdc_assets.lake.history.table_window import (
    WorkSize,
    count_events,
    count_rows,
    describe_work,
    read_start,
    require_files,
)
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.folds import find_valid_snapshot, read_first_snapshot
from ticdc_assets.log.snapshot import Snapshot, decide_as
from ticdc_assets.plan.steps import TableWork
from ticdc_assets.rows.alteration import show_rows
from ticdc_assets.rows.columns import DeltaColumn, list_delta_columns, read_delta_type
from ticdc_assets.rows.merging import Concerned
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.rows.versions import StepVersions, is_by_row, list_versions
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.store.stored_rows import FilesGone
from ticdc_assets.views.lake_range import require_above_fold, require_in_range
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.tables_at import TablesAt


def changes(lake: LakeSession, table: str, from_ts: int, to_ts: int) -> DataFrame:
    """Return the changes of `db.table` after `from_ts`, up to and including `to_ts`.

    The table is the incarnation that has this name at `to_ts`, and the images have its columns at
    `to_ts`: a column that did not exist yet is NULL.  A value from before a DDL that converted its
    column is converted as TiDB converts it, and NULL where that is not possible.
    """
    last = read_last_snapshot(lake)
    require_in_range(LakeReader(lake.location), to_ts, last, "to_ts")
    if from_ts >= to_ts:
        raise ConfigError(f"{from_ts} is not before {to_ts}", setting="from_ts")
    require_above_fold(LakeReader(lake.location), from_ts, "from_ts")
    base_id = find_valid_snapshot(lake, last.snapshot_id, from_ts + 1)
    base = read_snapshot(LakeReader(lake.location), base_id)
    try:
        return _list_changes(lake, base, last, table, (from_ts, to_ts))
    except FilesGone:
        # All events since are there.
        first = read_first_snapshot(LakeReader(lake.location))
        return _list_changes(lake, first, last, table, (from_ts, to_ts))


def _list_changes(
    lake: LakeSession, base: Snapshot, last: Snapshot, name: str, span: tuple[int, int]
) -> DataFrame:
    window = _prepare(lake, decide_as(base, last), last, span[1])
    names = LakeNames(LakeReader(lake.location), lake.feed, last)
    table = names.choose(TablesAt(span[1], window.plan.state), name, "table")
    if table.is_stopped:
        raise ConfigError(f"{name} is {table.status}: {table.reason}", setting="table")
    work = window.plan.work.get(table.id, TableWork(table.id, table.schema, False, ()))
    described = describe_work(window, work)
    require_files(lake, window.start, described.versions)
    read = described.versions
    size = WorkSize(count_events(described), count_rows(lake.location, described, read))
    chooses = size.rows > size.events and is_by_row(work)
    task = _ChangesTask(described, table.schema, span, concerned_only=chooses)
    return _make_frame(lake, window.engine, task, size)


def _prepare(lake: LakeSession, base: Snapshot, last: Snapshot, ts: int) -> PreparedWindow:
    """Plan the window from a snapshot to a ts."""
    reader = LakeReader(lake.location)
    end_id = (
        last.snapshot_id if ts == last.ts else find_valid_snapshot(lake, last.snapshot_id, ts + 1)
    )
    end = read_snapshot(reader, end_id)
    batch = end.batch if end.ts == ts else last.batch
    control = read_control_events(lake, base, batch)
    return prepare_window(lake, base, control, ts, batch)


@dataclass(frozen=True)
class _ChangesTask:
    """The changes of a table in a span of time, with the columns of a schema.

    With `concerned_only`, the rows that no event concerns are left out.
    """

    table: TableTask
    schema: TableSchema
    span: tuple[int, int]
    concerned_only: bool

    @property
    def id(self) -> str:
        return next(iter(self.table.work))

    @property
    def columns(self) -> list[DeltaColumn]:
        return list_delta_columns(self.schema)

    @property
    def fields(self) -> pa.Schema:
        return list_change_fields(
            make_image_type((c.name, read_delta_type(c.type)) for c in self.columns)
        )


def _make_frame(lake: LakeSession, engine: Engine, task: _ChangesTask, size: WorkSize) -> DataFrame:
    """Compute changes in this process if they are few, else in Spark's workers."""
    types = format_types((column.name, column.type) for column in task.columns)
    listed = ", ".join(f"{quote_identifier(name)} {type}" for name, type in types.items())
    if are_few([size.total], lake, engine):
        done = do_here(engine, [task], _do_changes, task.table.names)
        return lake.make_frame(next(done), listed)
    work = task.table.work[task.id]
    parts = size.count_parts(work)
    engine = replace(engine, pending=engine.pending.describe())
    numbers = lake.spark.range(0, parts, 1, parts)
    return numbers.mapInArrow(_Worker(engine, task, parts), listed)


class _Transition(NamedTuple):
    """What took the columns of a table from one schema to the next."""

    before: TableSchema
    column_changes: Sequence[ColumnChange]
    schema: TableSchema

    @classmethod
    def of(cls, step: StepVersions) -> "_Transition":
        return cls(step.before, step.column_changes, step.schema)


@dataclass(frozen=True)
class _Worker:
    """Computes the changes of the parts of which Spark sends the numbers to its process."""

    engine: Engine
    task: _ChangesTask
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = None if self.parts == 1 else Part(number, self.parts)
                table = replace(self.task.table, part=part)
                yield from _do_changes(self.engine, replace(self.task, table=table)).to_batches()


def _do_changes(engine: Engine, task: _ChangesTask) -> pa.Table:
    """Compute changes."""
    source = open_source(engine, task.table)
    if task.table.part is not None:
        source = replace(source, read_events=partial(read_part, engine.pending, task.table.part))
    work = task.table.work[task.id]
    start = None
    if task.id in task.table.versions:
        concerned = Concerned(work, source) if task.concerned_only else None
        start = read_start(engine.location, task.table, task.id, concerned)
    steps = list_versions(task.table.work, task.id, source, start)
    found = [(_Transition.of(step), find_changes(step)) for step in steps]
    shown = _Shown([transition for transition, _ in found], task.schema)
    written = [
        write_changes(
            step, partial(shown.make_images, number), partial(shown.make_images, number + 1)
        )
        for number, (_, step) in enumerate(found)
    ]
    rows = pa.concat_tables(written).cast(task.fields)
    ts = rows["commit_ts"]
    return rows.filter(pc.and_(pc.greater(ts, task.span[0]), pc.less_equal(ts, task.span[1])))


@dataclass(frozen=True)
class _Shown:
    """Shows rows before and after each of some steps with the columns that the table has last."""

    steps: Sequence[_Transition]
    last: TableSchema

    def make_images(self, number: int, rows: Rows) -> pa.StructArray:
        """Make images of rows that have the schema before a step, or behind the last."""
        for step in self.steps[number:]:
            rows = show_rows(rows, step.before, step.column_changes, step.schema)
        end = self.steps[-1].schema
        return make_images(show_rows(rows, end, (), self.last), self.last)
