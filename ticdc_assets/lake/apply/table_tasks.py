"""A task: the work of a window on some tables, done by whichever process gets it.

A task reads the events of its tables and their rows by itself, takes them through the engine
(`rows.table`), and writes their new data files.  Nothing of that counts before the driver commits
the files (`table_commits`), so a task may be repeated or killed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec
import pyarrow as pa

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.lake.apply.pending_rows import PendingRows, select_segment
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.log.applied_row import RowCounts, TableCounts
from ticdc_assets.lake.store.arrow import replace_surrogates
from ticdc_assets.lake.store.data_files import WrittenFile, write_data_file
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.plan.steps import ApplyRows, TableWork
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.table import RowSource, SegmentCounts, TableResult, do_work
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_no_rows, read_table, write_table

# How a table gets its new data files; `undone` if that takes its former rows, which were not read.
Way = Literal["create", "replace", "append", "undone"]


@dataclass(frozen=True)
class Engine:
    """What every task of a window has in common."""

    location: Lake
    pending: PendingRows
    redecode: Redecode | None
    # TiCDC sends an update of a key as a delete and an insert.
    updates_split: bool


@dataclass(frozen=True)
class TableTask:
    """The work of one table, or of several that exchange rows.

    `versions` are the Delta versions from which tables start.  With `appends`, the work only adds
    rows, so those before it are not read.
    """

    work: Mapping[str, TableWork]
    versions: Mapping[str, int]
    appends: bool = False

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
    quarantined: bytes | None = None
    has_misplaced_rows: bool = False
    stopped: str | None = None


def name_events(step: ApplyRows) -> str:
    """Return the name that the rows of a segment have in `events`."""
    name = make_table_name(step.schema.database, step.schema.table)
    return str(replace_surrogates(name or ""))


def do_task(engine: Engine, task: TableTask) -> list[TableDone]:
    """Do a task, and write the new data files of its tables."""
    events = engine.pending.read(task.names) if task.names else None
    by_name = _split_by_name(events)

    def read_events(step: ApplyRows) -> pa.Table:
        return select_segment(by_name[name_events(step)], step.low, step.high)

    def find_passes(step: ApplyRows, pending: pa.Table) -> pa.Array | None:
        if not any(typed.group.ordered_by_commit_ts for typed in step.row_groups):
            return None
        return engine.pending.read_passes(name_events(step), pending)

    source = RowSource(
        read_rows=partial(_read_rows, engine.location, task),
        read_events=read_events,
        find_passes=find_passes,
        redecode=engine.redecode,
        updates_split=engine.updates_split,
    )
    results = do_work(task.work, source)
    return [_finish(engine.location, task, id, result) for id, result in results.items()]


def _split_by_name(events: pa.Table | None) -> dict[str, pa.Table]:
    if events is None:
        return {}
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
    parts = [read_table(pa.table(block), schema) for block in stored.read()]
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


def _pack(tables: list[pa.Table]) -> bytes | None:
    if not tables:
        return None
    table = pa.concat_tables(tables)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack_quarantined(done: TableDone) -> pa.Table | None:
    """Return the quarantined events of a table, as `rows.left_out` has them."""
    if done.quarantined is None:
        return None
    with pa.ipc.open_stream(done.quarantined) as reader:
        return reader.read_all()
