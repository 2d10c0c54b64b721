"""A task: the work of a window on some tables, done by whichever process gets it.

A task reads the events of its tables and their rows by itself, takes them through the engine
(`rows.table`), and writes their new data files.  Nothing of that counts before the driver commits
the files (`table_commits`), so a task may be repeated or killed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import msgspec
import pyarrow as pa

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.event_blocks import Block, make_block, skip_empty
from ticdc_assets.lake.apply.pending_rows import PLACED, name_events, select_segment
from ticdc_assets.lake.apply.spread_tasks import SpreadFile, read_spread
from ticdc_assets.lake.apply.time_spans import SpanFiles, find_span
from ticdc_assets.log.applied_row import RowCounts, TableCounts
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.rows.clustering import find_clustering_column, split_by_column
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.merged_steps import changes_table
from ticdc_assets.rows.merging import Concerned, list_merge, needs_rows
from ticdc_assets.rows.parts import Part, list_identifying
from ticdc_assets.rows.table import RowSource, SegmentCounts, TableResult, do_work
from ticdc_assets.rows.table_rows import (
    Rows,
    concat_rows,
    make_no_rows,
    read_table,
    write_table,
)
from ticdc_assets.rows.value_positions import locate_value
from ticdc_assets.store.data_files import WrittenFile, write_data_file
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

# How the work on tables is done: on all of their rows, on none of them because the work only adds
# rows, or on those that it concerns.
Way = Literal["whole", "append", "merge"]
# What a task reads of events at once: a part may have somewhat more than its share.
_MOST_EVENTS = 600_000


@dataclass(frozen=True)
class TableTask:
    """The work of one table, or of several that exchange rows.

    `versions` are the Delta versions from which tables start.  A large table has several `parts`,
    and one task does one part.  It names its `part`, and the files in the table's folder that have
    the events of this part; or, where the work only adds rows, the `span` of its events.
    """

    work: Mapping[str, TableWork]
    versions: Mapping[str, int]
    way: Way = "whole"
    parts: int = 1
    part: Part | None = None
    spread_events: tuple[SpreadFile, ...] = ()
    spans: tuple[SpanFiles, ...] = ()
    span: SpanFiles | None = None

    @property
    def names(self) -> set[str]:
        """The names in `events` of the rows that the tables get."""
        steps = (step for work in self.work.values() for step in work.steps)
        return {name_events(step) for step in steps if isinstance(step, ApplyRows)}

    @property
    def pending_names(self) -> set[str]:
        """Those of the rows that the task may read with the rows of other tasks."""
        return self.names if self.part is None and self.span is None else set()


class TableDone(msgspec.Struct, frozen=True):
    """A table after its task: the files it needs, or why it has to stay as it was.

    Those of a merge list rows as `rows.merging` does.  `is_undone`: the work does not only add
    rows after all.  `quarantined` are rows in Arrow's stream format.  The files have the `layout`.
    """

    id: str
    way: Way
    layout: Layout = PLAIN
    is_undone: bool = False
    files: list[WrittenFile] = []
    has_map: bool = False
    counts: list[tuple[str, int, int, int, int]] = []
    quarantined: list[bytes] = []
    has_misplaced_rows: bool = False
    stopped: str | None = None


def do_task(engine: Engine, task: TableTask) -> list[TableDone]:
    """Do a task, and write the new data files of its tables."""
    source = open_source(engine, task)
    concerned = None
    if task.way == "merge":
        concerned = _find_concerned(engine.location, task, source)
        source = replace(source, read_rows=lambda id: concerned)
    results = do_work(task.work, source)
    return [_finish(engine.location, task, result, concerned, source) for result in results.items()]


def open_source(
    engine: Engine, task: TableTask, read_rows: Callable[[str], Rows | None] | None = None
) -> RowSource:
    """Open what a task reads; `read_rows` reads rows that tables have in place of their versions'.

    If the events of its tables are few, they are read now.
    """
    read_blocks = _open_events(engine, task)

    def read_events(step: ApplyRows) -> Iterator[pa.Table]:
        # A part, or a file, may have none of the rows that had this name.
        name = name_events(step)
        own = (blocks.get(name, nothing) for blocks, nothing in read_blocks())
        return skip_empty(select_segment(events, step.low, step.high) for events in own)

    def find_passes(step: ApplyRows, pending: pa.Table) -> pa.Array | None:
        if not any(typed.group.ordered_by_commit_ts for typed in step.row_groups):
            return None
        return engine.pending.read_passes(name_events(step), pending)

    return RowSource(
        read_rows=read_rows or partial(_read_rows, engine.location, task),
        read_events=read_events,
        find_passes=find_passes,
        redecode=engine.redecode,
        updates_split=engine.updates_split,
        part=task.part,
    )


def _open_events(engine: Engine, task: TableTask) -> Callable[[], Iterable[Block]]:
    """Return what reads the events of a task in blocks, each time anew if they are many."""
    if task.part is not None:
        (id,) = task.work
        files = task.spread_events
        if sum(file.rows for file in files) > _MOST_EVENTS:
            return lambda: (make_block(read_spread(engine.location, id, [file])) for file in files)
        held = [make_block(read_spread(engine.location, id, files))]
        return lambda: held
    names, pending = task.names, engine.pending
    if task.span is not None:
        of_span = replace(pending.files, paths=task.span.paths)
        own = replace(pending, span=task.span.span, files=of_span)
        return lambda: map(make_block, own.read_blocks(names))
    if pending.held is None and len(task.work) == 1:
        # Others may have had the name before, or have it after.
        (work,) = task.work.values()
        pending = replace(pending, span=find_span(work))
    count = sum(work.event_count for work in task.work.values())
    if pending.held is None and count > _MOST_EVENTS:
        return lambda: map(make_block, pending.read_blocks(names))
    held = [make_block(pending.read(names) if names else PLACED.empty_table())]
    return lambda: held


def _read_rows(location: Lake, task: TableTask, id: str) -> Rows | None:
    """Read the rows of a table before the window; None if it has no Delta table."""
    if id not in task.versions or task.way == "append":
        return None
    return concat_rows([make_no_rows(task.work[id].before), *_read_blocks(location, task, id)])


def _read_blocks(location: Lake, task: TableTask, id: str) -> Iterator[Rows]:
    schema = task.work[id].before
    stored = StoredRows(LakeReader(location), f"current/{id}", task.versions[id])
    return read_blocks(stored, schema, task.part)


def read_blocks(stored: StoredRows, schema: TableSchema, part: Part | None) -> Iterator[Rows]:
    """Read the rows of a current table in blocks, all or those of a part."""
    names = list_identifying(schema)
    for block in stored.read():
        rows = read_table(pa.table(block), schema)
        yield rows if part is None else rows.filter(part.has(rows, names))


def _find_concerned(location: Lake, task: TableTask, source: RowSource) -> Rows | None:
    """Find the rows that a merge concerns, if it needs them."""
    ((id, work),) = task.work.items()
    if not needs_rows(work, source):
        return None
    try:
        concerned = Concerned(work, source)
    except CONTENT_ERRORS:
        # Of its events: the work meets the same error, and states it.
        return None
    return concerned.find(_read_blocks(location, task, id))


# Parameters: the task and its source, and what they gave.
def _finish(
    location: Lake,
    task: TableTask,
    done: tuple[str, TableResult],
    concerned: Rows | None,
    source: RowSource,
) -> TableDone:
    id, result = done
    only_adds = task.way == "append" or task.span is not None
    if only_adds and any(segment.quarantined for segment in result.segments[:-1]):
        # What was left out may have had the key of a later insert.
        return TableDone(id, task.way, is_undone=True)
    quarantined = _pack(result.quarantined)
    if result.stopped is not None:
        return TableDone(id, task.way, quarantined=quarantined, stopped=result.stopped)
    work = task.work[id]
    schema, layout = work.after, work.layout
    if task.way == "whole" and id in task.versions and not changes_table(work):
        # Others have taken rows from it.
        return TableDone(id, task.way, layout)
    try:
        if task.way == "merge":
            rows = list_merge(result, concerned, schema, layout)
        else:
            rows = write_table(result.all_rows, schema, layout)
        has_map = rows[INEXACT].null_count < rows.num_rows
        if not has_map:
            rows = rows.drop_columns([INEXACT])
        column = None if task.way == "merge" else find_clustering_column(schema, layout)
        files = _write_files(location, f"current/{id}", rows, column) if rows.num_rows else []
    except ConfigError:
        # Of the storage, not of the table.
        raise
    except CONTENT_ERRORS as error:
        reason = describe_content_error(locate_value(error, work, source))
        return TableDone(id, task.way, quarantined=quarantined, stopped=reason)
    return TableDone(
        id,
        task.way,
        layout,
        files=files,
        has_map=has_map,
        counts=list(map(_pack_counts, result.segments)),
        quarantined=quarantined,
        has_misplaced_rows=result.has_misplaced_rows,
    )


def _write_files(
    location: Lake, table: str, rows: pa.Table, column: str | None
) -> list[WrittenFile]:
    if column is None:
        return [write_data_file(location, table, rows)]
    files = split_by_column(rows, column)
    return [write_data_file(location, table, each, sorted_by=column) for each in files]


def _pack_counts(counts: SegmentCounts) -> tuple[str, int, int, int, int]:
    schema = counts.step.schema
    name = make_table_name(schema.database, schema.table) or ""
    return name, counts.read, counts.applied, counts.quarantined, counts.inexact


def unpack_counts(done: TableDone) -> list[TableCounts]:
    """Return what became of the events of a table, by its name at the time."""
    return [
        TableCounts(
            done.id,
            name,
            RowCounts(
                read=read,
                applied=applied,
                superseded=read - quarantined - applied,
                quarantined=quarantined,
                inexact=inexact,
            ),
        )
        for name, read, applied, quarantined, inexact in done.counts
    ]


def _pack(tables: list[pa.Table]) -> list[bytes]:
    packed = []
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        packed.append(bytes(sink.getvalue()))
    return packed


def unpack_quarantined(done: TableDone) -> list[pa.Table]:
    """Return the quarantined events of a table, as `rows.left_out` has them."""
    return [pa.ipc.open_stream(packed).read_all() for packed in done.quarantined]


def join_parts(parts: Sequence[TableDone]) -> TableDone:
    """Return a table after the tasks of all of its parts."""
    first, *others = parts
    if not others:
        return first
    stopped = next((part for part in parts if part.stopped is not None), None)
    if stopped is not None:
        return stopped
    undone = next((part for part in parts if part.is_undone), None)
    if undone is not None:
        return undone
    return msgspec.structs.replace(
        first,
        files=[file for part in parts for file in part.files],
        has_map=any(part.has_map for part in parts),
        counts=[
            (counts[0][0], *map(sum, zip(*(numbers for _, *numbers in counts), strict=True)))
            for counts in zip(*(part.counts for part in parts), strict=True)
        ],
        quarantined=[packed for part in parts for packed in part.quarantined],
    )
