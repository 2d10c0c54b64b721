"""The lake at any ts: a snapshot, or the newest snapshot below it plus the events since."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.window import FilesGone, prepare_reading, read_old_rows, read_rows
from ticdc_assets.lake.columns.conversion import format_rows
from ticdc_assets.lake.columns.row_order import sort_by_key
from ticdc_assets.lake.columns.stored_values import format_blocks
from ticdc_assets.lake.log.applied import find_valid_snapshot, read_last_snapshot
from ticdc_assets.lake.log.applied_files import read_rows as read_rows_of_log
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.log.snapshot import Snapshot, decide_as
from ticdc_assets.lake.store.delta_log import count_rows
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.lake.store.small_tables import FewRows
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.lake.views.lake_range import require_in_range
from ticdc_assets.lake.views.tables_at import TablesAt
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import INEXACT

# A view keeps the rows of fewer small tables than this.
_MANY_TABLES = 200
# Returns the rows of an incarnation; None if it has none of its own.
_Build = Callable[[str], DataFrame | None]


@dataclass(frozen=True)
class AsOfView(TablesAt):
    """All tables at one ts; the rows of one are read or built when somebody wants them."""

    lake: LakeSession
    # The snapshot that it starts from, and the newest one when it was opened.
    snapshots: tuple[int, int]
    _build: _Build
    # At most how many rows an incarnation has.
    _count: Callable[[str], int]
    # Returns the version of an incarnation's current table that has these rows, if one has.
    _find_version: Callable[[str], int | None]
    # Those of small tables that were wanted, for a view that starts from this one.
    _kept: dict[str, FewRows | None] = field(default_factory=dict)

    def rows(self, table: Incarnation) -> DataFrame | None:
        """Return a table's rows with their entries; None if it is waiting or paused."""
        return None if table.is_stopped else self._build(table.id)

    def frame(self, table: Incarnation) -> DataFrame | None:
        """Return a table's rows with their inexact texts in a map; None if waiting or paused."""
        rows = self.rows(table)
        return None if rows is None else rows.withColumn(INEXACT, F.map_from_entries(INEXACT))

    def frames(self) -> dict[str, DataFrame]:
        """Return the rows of all tables that are not waiting or paused, by `db.table`."""
        named = {f"{t.schema.database}.{t.schema.table}": self.frame(t) for t in self.tables()}
        return {name: frame for name, frame in named.items() if frame is not None}

    def find_version(self, table: Incarnation) -> int | None:
        """Return the version of a current table that has these rows, if its files are there."""
        version = None if table.is_stopped else self._find_version(table.id)
        if version is None:
            return None
        reader = LakeReader(self.lake.location)
        return version if StoredRows(reader, f"current/{table.id}", version).has_files else None

    def prepare(self, tables: Iterable[Incarnation]) -> None:
        """Compute the rows of small tables side by side, for `lines` of each.

        Most of that time, Spark plans queries in one thread each.
        """
        small = [t.id for t in tables if not t.is_stopped and self.is_small(t.id)]
        with sized_for(self.lake, small=True), ThreadPoolExecutor() as pool:
            for _ in pool.map(self._compute_few, small[:_MANY_TABLES]):
                pass

    def lines(self, table: Incarnation, *, by_key: bool = False) -> Iterator[bytes]:
        """Yield a table's rows as JSON lines, formatted like the reference model's.

        They come in byte order as there, or in the order of the table's key.
        """
        if table.is_stopped:
            return
        if self.is_small(table.id):
            few = self._compute_few(table.id)
            if few is not None:
                blocks = map(_list_columns, few.rows.to_batches())
                lines = chain.from_iterable(format_blocks(blocks, table.schema))
                yield from sort_by_key(lines, table.schema) if by_key else sorted(lines)
            return
        with self.sized_for(table):
            rows = self.rows(table)
            if rows is None:
                return
            formatted = format_rows(rows, table.schema, by_key=by_key).toLocalIterator()
        for row in formatted:
            yield row[0].encode() + b"\n"

    def sized_for(self, table: Incarnation) -> AbstractContextManager[None]:
        """Set the session up for the size of a table."""
        return sized_for(self.lake, small=self.is_small(table.id))

    def is_small(self, id: str) -> bool:
        """Whether building and reading an incarnation takes little work."""
        return self._count(id) < MANY_ROWS

    def build(self, id: str) -> DataFrame | None:
        """Return the rows of an incarnation for a view that starts from this one."""
        if not self.is_small(id):
            return self._build(id)
        few = self._compute_few(id)
        return None if few is None else few.make_frame(self.lake)

    def _compute_few(self, id: str) -> FewRows | None:
        """Compute the rows of a small table with their entries; None if it has none of its own."""
        if id in self._kept:
            return self._kept[id]
        with sized_for(self.lake, small=True):
            rows = self._build(id)
            few = None if rows is None else FewRows.compute(rows)
        if len(self._kept) < _MANY_TABLES:
            self._kept[id] = few
        return few


def _list_columns(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return rows by column, with their entries in a map."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    maps = [
        None if entries is None else [(entry["key"], entry["value"]) for entry in entries]
        for entries in columns[INEXACT].to_pylist()
    ]
    return {**columns, INEXACT: pa.array(maps, pa.map_(pa.string(), pa.string()))}


def as_of(lake: LakeSession, ts: int | None = None, after: AsOfView | None = None) -> AsOfView:
    """Show the lake at a ts, by default the resolved ts of the last snapshot.

    `after`, a view of an earlier ts, has applied what is before that, so events after it remain.
    """
    last = read_last_snapshot(lake)
    if ts is None:
        ts = last.ts
    require_in_range(LakeReader(lake.location), ts, last)
    below = (
        last.snapshot_id if ts == last.ts else find_valid_snapshot(lake, last.snapshot_id, ts + 1)
    )
    base = last if below == last.snapshot_id else read_snapshot(LakeReader(lake.location), below)
    if base is last:
        return _view_snapshot(lake, base, last, partial(read_rows, lake, base))
    if base.ts == ts:
        view = _view_snapshot(lake, base, last, partial(read_old_rows, lake, base))
    elif after is not None and after.snapshots == (below, last.snapshot_id) and after.ts <= ts:
        return _view_later(after, last, ts)
    else:
        view = _view_window(lake, base, last, ts)
    return replace(view, _build=_OldTables(lake, last, view).build)


def _view_snapshot(lake: LakeSession, base: Snapshot, last: Snapshot, read: _Build) -> AsOfView:
    count = partial(_count_rows, LakeReader(lake.location), base)
    snapshots = base.snapshot_id, last.snapshot_id
    return AsOfView(base.ts, base.state, lake, snapshots, read, count, base.versions.get)


class _OldTables:
    """The tables of an old snapshot, and of a ts after it, whose files may be gone.

    Events are never removed, so that the rows can be computed from the first event on.
    """

    def __init__(self, lake: LakeSession, last: Snapshot, view: AsOfView) -> None:
        self._lake = lake
        self._last = last
        self._view = view

    def build(self, id: str) -> DataFrame | None:
        try:
            return self._view._build(id)
        except FilesGone:
            try:
                return self._from_start._build(id)
            except FilesGone:
                # Those of a load: no event has its rows.
                raise self._explain(id) from None

    def _explain(self, id: str) -> ConfigError:
        """Make the error that names the oldest ts at which a loaded table can be shown."""
        reader = LakeReader(self._lake.location)
        table = f"current/{id}"
        oldest = next(
            row.ts
            for row in read_rows_of_log(reader, reader.open("applied"), 0)
            if id in row.versions and StoredRows(reader, table, row.versions[id]).has_files
        )
        name = self._last.state.incarnations[id].schema
        reason = (
            f"{name.database}.{name.table} began with a load, and maintain --retain-days has"
            f" removed its older rows: the oldest TSO that can be shown is {oldest}"
        )
        return ConfigError(reason, setting="--at")

    @cached_property
    def _from_start(self) -> AsOfView:
        nothing = decide_as(Snapshot(), self._last)
        return _view_window(self._lake, nothing, self._last, self._view.ts)


def _view_window(lake: LakeSession, base: Snapshot, last: Snapshot, ts: int) -> AsOfView:
    """Apply the events between a snapshot and a ts, to data frames only."""
    count = partial(_count_rows, LakeReader(lake.location))
    return _apply(lake, base, last, ts, partial(read_old_rows, lake), count)


def _view_later(before: AsOfView, last: Snapshot, ts: int) -> AsOfView:
    """Apply the events between a view and a later ts; tables that have none stay as they are."""
    # All batches were applied up to the ts of the view.
    base = Snapshot(before.state, last.batch, last.decoded_batch)
    lake, known = before.lake, before.state.incarnations
    reader = LakeReader(lake.location)

    # What the view does not know begins in the window: with the rows of a load, or without rows.
    def read(start: Snapshot, id: str) -> DataFrame | None:
        return before.build(id) if id in known else read_old_rows(lake, start, id)

    def count(start: Snapshot, id: str) -> int:
        return before._count(id) if id in known else _count_rows(reader, start, id)

    view = _apply(lake, base, last, ts, read, count)
    return replace(view, snapshots=before.snapshots)


# Parameters: a window, and how to read and count the rows that tables have at its start.
def _apply(
    lake: LakeSession,
    base: Snapshot,
    last: Snapshot,
    ts: int,
    read: Callable[[Snapshot, str], DataFrame | None],
    count: Callable[[Snapshot, str], int],
) -> AsOfView:
    control = read_control_events(lake, base, last.batch)
    window = prepare_reading(lake, base, control, ts, last.batch)
    read_start = partial(read, window.start)
    window.frames.read_start = read_start

    def build(id: str) -> DataFrame | None:
        is_changed = id in window.plan.work
        return window.frames.build_table(id).rows if is_changed else read_start(id)

    def count_all(id: str) -> int:
        return count(window.start, id) + window.row_count

    def find_version(id: str) -> int | None:
        return None if id in window.plan.work else window.start.versions.get(id)

    snapshots = base.snapshot_id, last.snapshot_id
    return AsOfView(ts, window.plan.state, lake, snapshots, build, count_all, find_version)


def _count_rows(reader: LakeReader, base: Snapshot, id: str) -> int:
    """Count the rows of a table at a snapshot."""
    version = base.versions.get(id)
    return 0 if version is None else count_rows(reader, f"current/{id}", version)
