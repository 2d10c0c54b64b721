"""The lake at any ts: a snapshot, or the newest snapshot below it plus the events since."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.window import prepare_window, read_rows
from ticdc_assets.lake.columns.conversion import format_rows
from ticdc_assets.lake.log.applied import find_valid_snapshot, read_last_snapshot
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.contracts import INEXACT
from ticdc_assets.lake.store.delta_log import count_rows
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.lake.views.tables_at import TablesAt, require_applied
from ticdc_assets.plan.state import Incarnation

_Build = Callable[[str], DataFrame | None]


@dataclass(frozen=True)
class AsOfView(TablesAt):
    """All tables at one ts; the rows of one are read or built when somebody wants them."""

    spark: SparkSession
    _build: _Build
    # Whether building and reading an incarnation takes little work.
    _is_small: Callable[[str], bool]

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

    def lines(self, table: Incarnation) -> Iterator[bytes]:
        """Yield a table's rows as JSON lines, formatted like the reference model's."""
        with self.sized_for(table):
            rows = self.rows(table)
            if rows is None:
                return
            formatted = format_rows(rows, table.schema).toLocalIterator()
        for row in formatted:
            yield row[0].encode() + b"\n"

    def sized_for(self, table: Incarnation) -> AbstractContextManager[None]:
        """Set the session up for the size of a table."""
        return sized_for(self.spark, small=self._is_small(table.id))


def as_of(lake: LakeSession, ts: int | None = None) -> AsOfView:
    """Show the lake at a ts, by default the resolved ts of the last snapshot."""
    last = read_last_snapshot(lake)
    if ts is None:
        ts = last.ts
    require_applied(ts, last)
    below = (
        last.snapshot_id if ts == last.ts else find_valid_snapshot(lake, last.snapshot_id, ts + 1)
    )
    base = last if below == last.snapshot_id else read_snapshot(LakeReader(lake.location), below)
    if base is last:
        return _view_snapshot(lake, base, partial(read_rows, lake, base))
    if base.ts == ts:
        view = _view_snapshot(lake, base, partial(_read_old_rows, lake, base))
    else:
        view = _view_window(lake, base, last.batch, ts)
    return replace(view, _build=_OldTables(lake, last, view).build)


def _view_snapshot(lake: LakeSession, base: Snapshot, read: _Build) -> AsOfView:
    is_small = partial(_is_small, LakeReader(lake.location), base, 0)
    return AsOfView(base.ts, base.state, lake.spark, read, is_small)


class _FilesGone(Exception):
    """Maintenance has removed files of a table's version."""


def _read_old_rows(lake: LakeSession, base: Snapshot, id: str) -> DataFrame | None:
    """Read a table at an old snapshot; raise `_FilesGone` if it is there no more."""
    version = base.versions.get(id)
    if version is not None:
        stored = StoredRows(LakeReader(lake.location), f"current/{id}", version)
        if not stored.has_files:
            raise _FilesGone
    return read_rows(lake, base, id)


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
        except _FilesGone:
            return self._from_start._build(id)

    @cached_property
    def _from_start(self) -> AsOfView:
        skipped = self._last.state.skipped_ddls
        nothing = Snapshot()
        nothing = replace(nothing, state=structs.replace(nothing.state, skipped_ddls=skipped))
        return _view_window(self._lake, nothing, self._last.batch, self._view.ts)


def _view_window(lake: LakeSession, base: Snapshot, batch: int, ts: int) -> AsOfView:
    """Apply the events between a snapshot and a ts, to data frames only."""
    reader = LakeReader(lake.location)
    control = read_control_events(lake, base, batch)
    is_new = {"commit_ts": base.ts, "batch": base.batch}
    with sized_for(lake.spark, small=reader.is_small(reader.open("events"), is_new)):
        window = prepare_window(lake, base, control, ts, batch)

    start = window.start
    window.frames.read_start = partial(_read_old_rows, lake, start)

    def build(id: str) -> DataFrame | None:
        if id not in start.versions and id not in window.plan.work:
            return None
        return window.frames.build_table(id).rows

    is_small = partial(_is_small, reader, start, window.rows)
    return AsOfView(ts, window.plan.state, lake.spark, build, is_small)


def _is_small(reader: LakeReader, base: Snapshot, more: int, id: str) -> bool:
    """Whether a table has few rows: those of a snapshot, and this many more."""
    version = base.versions.get(id)
    stored = 0 if version is None else count_rows(reader, f"current/{id}", version)
    return stored + more < MANY_ROWS
