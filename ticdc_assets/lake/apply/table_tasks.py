"""A task: the work of a window on some tables, done by whichever process gets it.

A task reads the events of its tables and their rows by itself, takes them through the engine
(`rows.table`), and writes their new data files.  Nothing of that counts before the driver commits
the files (`table_commits`), so a task may be repeated or killed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec
import pyarrow as pa

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.lake.apply.engine import Engine
from ticdc_assets.lake.apply.pending_rows import PLACED, name_events, select_segment
from ticdc_assets.lake.apply.spread_tasks import read_spread
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.log.applied_row import RowCounts, TableCounts
from ticdc_assets.lake.store.data_files import WrittenFile, write_data_file
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.keyed import find_key
from ticdc_assets.rows.parts import Part
from ticdc_assets.rows.table import RowSource, SegmentCounts, TableResult, do_work
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_no_rows, read_table, write_table

# How a table gets its new data files; `undone` if that takes its former rows, which were not read.
Way = Literal["create", "replace", "append", "undone"]


@dataclass(frozen=True)
class TableTask:
    """The work of one table, or of several that exchange rows.

    `versions` are the Delta versions from which tables start.  With `appends`, the work only adds
    rows, so those before it are not read.  A large table is done in several `parts`, each by a
    task of its own: it has its `part`, and its events are in files of the table's folder.
    """

    work: Mapping[str, TableWork]
    versions: Mapping[str, int]
    appends: bool = False
    parts: int = 1
    part: Part | None = None
    spread_events: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names in `events` of the rows that the tables get."""
        steps = (step for work in self.work.values() for step in work.steps)
        return {name_events(step) for step in steps if isinstance(step, ApplyRows)}


class TableDone(msgspec.Struct, frozen=True):
    """A table after its task: the files it needs, or why it has to stay as it was.

    `quarantined` are rows in Arrow's stream format.
    """

    id: str
    way: Way
    files: list[WrittenFile] = []
    has_map: bool = False
    counts: list[tuple[str, int, int, int, int]] = []
    quarantined: list[bytes] = []
    has_misplaced_rows: bool = False
    stopped: str | None = None


def do_task(engine: Engine, task: TableTask) -> list[TableDone]:
    """Do a task, and write the new data files of its tables."""
    results = do_work(task.work, open_source(engine, task))
    return [_finish(engine.location, task, id, result) for id, result in results.items()]


def open_source(
    engine: Engine, task: TableTask, read_rows: Callable[[str], Rows | None] | None = None
) -> RowSource:
    """Open what a task reads; `read_rows` reads rows that tables have in place of their versions'.

    The events of its tables are read now.
    """
    events = _read_events(engine, task)
    by_name = _split_by_name(events)

    def read_events(step: ApplyRows) -> pa.Table:
        # A part may have none of the rows that had this name.
        own = by_name.get(name_events(step), events.slice(0, 0))
        return select_segment(own, step.low, step.high)

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


def _read_events(engine: Engine, task: TableTask) -> pa.Table:
    if task.part is not None:
        (id,) = task.work
        return read_spread(engine.location, id, task.spread_events)
    return engine.pending.read(task.names) if task.names else PLACED.empty_table()


def _split_by_name(events: pa.Table) -> dict[str, pa.Table]:
    names = events["name"].unique().to_pylist()
    if len(names) == 1:
        return {names[0]: events}
    ordered = events.sort_by("name")
    runs = ordered["name"].combine_chunks().dictionary_encode()
    counts = runs.indices.value_counts()
    return dict(_slice_runs(ordered, runs, counts))


def _slice_runs(
    ordered: pa.Table, runs: pa.DictionaryArray, counts: pa.StructArray
) -> Iterable[tuple[str, pa.Table]]:
    start = 0
    for run in counts.to_pylist():
        yield runs.dictionary[run["values"]].as_py(), ordered.slice(start, run["counts"])
        start += run["counts"]


def _read_rows(location: Lake, task: TableTask, id: str) -> Rows | None:
    """Read the rows of a table before the window; None if it has no Delta table."""
    version = task.versions.get(id)
    if version is None or task.appends:
        return None
    schema = task.work[id].before
    stored = StoredRows(LakeReader(location), f"current/{id}", version)
    blocks = (read_table(pa.table(block), schema) for block in stored.read())
    if task.part is not None:
        part, key = task.part, find_key(schema)
        blocks = (rows.filter(part.has(rows, key)) for rows in blocks)
    parts = list(blocks)
    return concat_rows(parts) if parts else make_no_rows(schema)


def _finish(location: Lake, task: TableTask, id: str, result: TableResult) -> TableDone:
    if task.appends and any(segment.quarantined for segment in result.segments[:-1]):
        # What was left out may have had the key of a later insert.
        return TableDone(id, "undone")
    quarantined = _pack(result.quarantined)
    if result.stopped is not None:
        return TableDone(id, "replace", quarantined=quarantined, stopped=result.stopped)
    way: Way = "append" if task.appends else "replace" if id in task.versions else "create"
    try:
        rows = write_table(result.rows, task.work[id].after)
        has_map = rows[INEXACT].null_count < rows.num_rows
        if not has_map:
            rows = rows.drop_columns([INEXACT])
        files = [write_data_file(location, f"current/{id}", rows)] if rows.num_rows else []
    except ConfigError:
        # Of the storage, not of the table.
        raise
    except CONTENT_ERRORS as error:
        return TableDone(
            id, "replace", quarantined=quarantined, stopped=describe_content_error(error)
        )
    return TableDone(
        id,
        way,
        files,
        has_map,
        list(map(_pack_counts, result.segments)),
        quarantined,
        result.has_misplaced_rows,
    )


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
    undone = next((part for part in parts if part.way == "undone"), None)
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
