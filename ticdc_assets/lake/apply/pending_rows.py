"""The row events that no window has applied yet, read from the data files of `events`.

Rows with a commit ts belong to the window that covers it.  Other rows belong to the first window
after their arrival, and come after everything applied before.

`PendingRows` describes them, so that any process can read those of some tables by itself.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import RowChange
from ticdc_assets.log.folds import Fold
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import ApplyRows
from ticdc_assets.rows.identity import are_among
from ticdc_assets.rows.multiset import number_passes
from ticdc_assets.store.contracts import EVENT_IDENTITY
from ticdc_assets.store.event_rows import SCHEMA, make_table_name, read_row_change
from ticdc_assets.store.file_blocks import read_blocks
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import FileList, LakeReader, OpenTables, read_data_files
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.stream.ordering import OrderKey, Phase

# Column of `events` that no row change has.
_OF_OTHER_EVENTS = "error"
COLUMNS = tuple(name for name in SCHEMA.names if name != _OF_OTHER_EVENTS)
# The columns of pending rows.
PLACED = pa.schema(
    [
        *(SCHEMA.field(name) for name in COLUMNS),
        *(
            ("order_ts", pa.int64()),
            ("ordered_by_commit_ts", pa.bool_()),
            ("after_ddls", pa.bool_()),
        ),
    ]
)
# What tells the passes of a sender apart.
_SENT = ("seq", "index", "commit_ts", "source", "partition", "schema_version", "table_id")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Window:
    """From a snapshot (its ts and batch) to a ts and a batch."""

    after_ts: int
    after_batch: int
    ts: int
    batch: int
    fold: Fold = field(default_factory=Fold)


@dataclass(frozen=True)
class Span:
    """The time after a ts, through another."""

    after_ts: int
    through_ts: int


@dataclass(frozen=True)
class EventFiles:
    """Data files of one version of `events`: their paths, and how many rows and bytes they have."""

    paths: tuple[str, ...] = ()
    rows: int = 0
    size: int = 0


@dataclass(frozen=True)
class PendingRows:
    """The pending rows of a window, with their place in the order.

    The place is `order_ts`, and `after_ddls` for rows that come after the DDLs of that ts.
    """

    location: Lake
    window: Window
    # The files that may have pending rows, and all of them.
    files: EventFiles
    all_files: EventFiles
    in_milliseconds: bool = False
    # Of rows in files: those with a commit ts in it.
    span: Span | None = None
    # The rows, where this process holds them.
    held: pa.Table | None = None

    def hold(self, names: Collection[str] | None = None) -> "PendingRows":
        """Return the same, with the rows in this process, of all tables or of some."""
        return replace(self, held=self.read(names))

    def describe(self) -> "PendingRows":
        """Return the same without the rows, for another process to read some."""
        return replace(self, held=None)

    def read(
        self, names: Collection[str] | None = None, columns: Sequence[str] = COLUMNS
    ) -> pa.Table:
        """Read rows, of all tables or of some, by their names in `events`."""
        if self.held is not None:
            chosen = self.held
            if names is not None:
                chosen = chosen.filter(pc.is_in(chosen["name"], value_set=_make_set(names)))
            return chosen
        chosen, where = self._choose(names, columns)
        return self._finish(self._read(self.files, chosen, where))

    def _choose(
        self, names: Collection[str] | None, columns: Sequence[str]
    ) -> tuple[list[str], pc.Expression]:
        """Choose the columns to read of `events`, and the rows."""
        needed = {*columns, "commit_ts", "ordering", "batch"}
        if self.in_milliseconds:
            needed |= {*EVENT_IDENTITY, "kind"}
        where = is_pending(pc.field, self.window)
        if names is not None:
            where &= pc.field("name").isin(sorted(names))
        if self.span is not None:
            where &= _is_inside(self.span)
        return [name for name in COLUMNS if name in needed], where

    def read_blocks(
        self, names: Collection[str] | None = None, columns: Sequence[str] = COLUMNS
    ) -> Iterator[pa.Table]:
        """Read the same in blocks, some rows of a file each: one at least, which may be empty."""
        if self.held is not None or not self.files.paths:
            yield self.read(names, columns)
            return
        for path in self.files.paths:
            yield from self._read_blocks_of(path, names, columns)

    def _read_blocks_of(
        self, path: str, names: Collection[str] | None, columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        found, where = self._choose(names, columns)
        reader = LakeReader(self.location)
        folder = reader.open_folder("events")
        yield self._finish(PLACED.empty_table().select(found))
        with reader.explained(self.location.path("events")):
            for rows in read_blocks(folder, path, SCHEMA, found, where):
                yield self._finish(rows)

    def map(
        self,
        use: Callable[[pa.Table], _T],
        columns: Sequence[str],
        names: Collection[str] | None = None,
    ) -> list[list[_T]]:
        """Use the rows of each file in blocks: few are in memory, however many there are."""
        if self.held is not None or not self.files.paths:
            return [[use(self.read(names, columns))]]

        def use_file(path: str) -> list[_T]:
            return [use(block) for block in self._read_blocks_of(path, names, columns)]

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return list(threads.map(use_file, self.files.paths))

    def _finish(self, rows: pa.Table) -> pa.Table:
        return _place(self._without_repetitions(rows), self.window.after_ts)

    def _read(self, files: EventFiles, columns: Sequence[str], where: pc.Expression) -> pa.Table:
        reader = LakeReader(self.location)
        folder = reader.open_folder("events")
        with reader.explained(self.location.path("events")):
            return read_data_files(folder, files.paths, SCHEMA, columns, where)

    def _without_repetitions(self, rows: pa.Table) -> pa.Table:
        """Leave out repeated rows that have only milliseconds: they would undo newer changes."""
        window = self.window
        if not (self.in_milliseconds and window.after_ts):
            return rows
        is_old = pc.fill_null(
            pc.and_(
                pc.equal(rows["ordering"], "milliseconds"),
                pc.less(rows["commit_ts"], window.after_ts),
            ),
            False,
        )
        if not pc.any(is_old).as_py():
            return rows
        old = rows.filter(is_old)
        where = (
            (pc.field("kind") == "row")
            & (pc.field("ordering") == "milliseconds")
            & (pc.field("batch") <= window.after_batch)
            & (pc.field("commit_ts") >= pc.min(old["commit_ts"]))
            & (pc.field("commit_ts") <= pc.max(old["commit_ts"]))
            & pc.field("name").isin(pc.unique(old["name"]))
        )
        known = self._read(self.all_files, EVENT_IDENTITY, where)
        new = old.filter(pc.invert(are_same_events(old, known)))
        return pa.concat_tables([rows.filter(pc.invert(is_old)), new])

    def read_passes(self, name: str, pending: pa.Table) -> pa.Array:
        """Return the passes of the senders of pending rows of one table.

        Only rows applied already may show that a sender went back, so their batches count too:
        from the first with pending rows of the table, whichever part of these somebody has.
        """
        first_batch = pc.min(self.read([name], ["batch"])["batch"]).as_py()
        where = (
            (pc.field("kind") == "row")
            & (pc.field("name") == name)
            & (pc.field("batch") >= first_batch)
            # As of pending rows: those with a commit ts belong here whenever they arrived.
            & ((pc.field("ordering") == "commit_ts") | (pc.field("batch") <= self.window.batch))
        )
        passes = number_passes(self._read(self.all_files, _SENT, where))
        places = zip(pending["seq"].to_pylist(), pending["index"].to_pylist(), strict=True)
        return pa.array([passes[place] for place in places], pa.int64())


def find_pending_rows(
    location: Lake, events: OpenTables, window: Window, *, in_milliseconds: bool
) -> PendingRows:
    """Find the files that may have the rows of a window."""
    above = {"commit_ts": window.after_ts, "batch": window.after_batch}
    files = events.list_files("events")
    return PendingRows(
        location,
        window,
        _describe(files.above(above)),
        _describe(files),
        in_milliseconds,
    )


def _describe(files: FileList) -> EventFiles:
    return EventFiles(files.paths, files.rows, files.size)


def is_pending(get: Callable[[str], Any], window: Window) -> Any:
    """Whether an event is a row of a window; in Spark, or in Arrow."""
    kind, ts, ordering, batch = map(get, ("kind", "commit_ts", "ordering", "batch"))
    ordered_by_commit_ts = ordering == "commit_ts"
    is_new = ~ordered_by_commit_ts & (batch > window.after_batch)
    is_possible = kind == "row"
    if window.fold.snapshot_id:
        # Whether such a row is new, nobody can tell any more.
        is_possible &= ~window.fold.is_below(get)
    return (
        is_possible
        & (ts <= window.ts)
        & ((ts > window.after_ts) | is_new)
        # Rows with a commit ts belong to the window even if they arrived in a later batch.
        & (ordered_by_commit_ts | (batch <= window.batch))
    )


def _is_inside(span: Span) -> pc.Expression:
    ts = pc.field("commit_ts")
    is_inside = (ts > span.after_ts) & (ts <= span.through_ts)
    return (pc.field("ordering") == "commit_ts") & is_inside


def _place(rows: pa.Table, after_ts: int) -> pa.Table:
    ts, ordering = rows["commit_ts"], rows["ordering"]
    ordered_by_commit_ts = pc.equal(ordering, "commit_ts")
    is_late = pc.and_(pc.invert(ordered_by_commit_ts), pc.less_equal(ts, after_ts))
    place = {
        "order_ts": pc.if_else(is_late, after_ts, ts),
        "ordered_by_commit_ts": ordered_by_commit_ts,
        "after_ddls": pc.or_(is_late, pc.equal(ordering, "table_version")),
    }
    for name, values in place.items():
        rows = rows.append_column(name, values)
    return rows


def are_same_events(events: pa.Table, others: pa.Table) -> pa.Array:
    """Return which events are repetitions of one of some others.

    A sender repeats row events after a restart.  A repetition has the same `EVENT_IDENTITY`; its
    position, schema version and table id may differ.
    """
    one, other = (
        [table[name].combine_chunks() for name in EVENT_IDENTITY] for table in (events, others)
    )
    return are_among(one, other)


def name_events(step: ApplyRows) -> str:
    """Return the name that the rows of a segment have in `events`."""
    name = make_table_name(step.schema.database, step.schema.table)
    return str(replace_surrogates(name or ""))


def select_segment(rows: pa.Table, low: OrderKey, high: OrderKey) -> pa.Table:
    """Return the pending rows that come after `low`, and not after `high`."""
    ts, after_ddls = rows["order_ts"], rows["after_ddls"]

    def is_after(point: OrderKey) -> Any:
        is_later = pc.greater(ts, point[0])
        if point[1] >= Phase.AFTER_DDLS:
            return is_later
        is_same = pc.equal(ts, point[0])
        return pc.or_(is_later, is_same if point[1] < Phase.ROWS else pc.and_(is_same, after_ddls))

    is_inside = pc.and_not(is_after(low), is_after(high))
    # Between two DDLs are mostly all rows, and a copy of them costs as much as to parse them.
    return rows if pc.all(is_inside).as_py() else rows.filter(is_inside)


def sample_row(rows: PendingRows, group: RowGroup) -> RowChange:
    """Return one of the pending rows of a group."""
    name = make_table_name(group.database, group.table)
    found = (_find_in_group(block, group) for block in rows.read_blocks([name or ""]))
    return read_row_change(next(some for some in found if some.num_rows).to_pylist()[0])


def _find_in_group(found: pa.Table, group: RowGroup) -> pa.Table:
    """Return a row of a group, or none."""
    conditions = (
        _is(found["observed"], group.observed),
        _is(found["schema_version"], group.schema_version),
        pc.greater_equal(found["order_ts"], group.first_ts),
        pc.less_equal(found["order_ts"], group.last_ts),
    )
    return found.filter(reduce(pc.and_, conditions)).slice(0, 1)


def _is(column: pa.ChunkedArray, value: str | int | None) -> pa.ChunkedArray:
    return pc.is_null(column) if value is None else pc.equal(column, value)


def _make_set(names: Collection[str]) -> pa.Array:
    return pa.array(sorted(names), pa.string())
