"""The lake at any ts: a snapshot, or the newest snapshot below it plus the events since."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from ticdc_assets.lake.apply.control_events import read_control_events
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.window import prepare_window
from ticdc_assets.lake.columns.conversion import format_rows
from ticdc_assets.lake.columns.inexact import read_entries
from ticdc_assets.lake.log.applied import find_valid_snapshot, read_last_snapshot
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.store.delta_log import count_rows
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.lake.store.work_size import sized_for
from ticdc_assets.lake.views.tables_at import TablesAt, require_applied
from ticdc_assets.plan.state import Incarnation


@dataclass(frozen=True)
class AsOfView(TablesAt):
    """All tables at one ts, with the rows of those that are not waiting or paused."""

    _rows: dict[str, DataFrame]
    # The tables whose rows take little work.
    _small: frozenset[str] = frozenset()

    def rows(self, table: Incarnation) -> DataFrame | None:
        """Return a table's rows with their entries; None if it is waiting or paused."""
        return None if table.is_stopped else self._rows.get(table.id)

    def lines(self, table: Incarnation) -> Iterator[bytes]:
        """Yield a table's rows as JSON lines, formatted like the reference model's."""
        rows = self.rows(table)
        if rows is None:
            return
        with sized_for(rows.sparkSession, small=table.id in self._small):
            formatted = format_rows(rows, table.schema).toLocalIterator()
        for row in formatted:
            yield row[0].encode() + b"\n"


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
    if base.ts == ts:
        tables = base.state.incarnations.values()
        stored = [table for table in tables if table.id in base.versions]
        rows = {
            t.id: read_entries(CurrentTable(lake, t.id).rows(base.versions[t.id])) for t in stored
        }
        return AsOfView(ts, base.state, rows)
    control = read_control_events(lake, base, last.batch)
    window = prepare_window(lake, base, control, ts, last.batch)
    reader = LakeReader(lake.location)
    rows, small = {}, set()
    for _, id in window.plan.state.names:
        version = base.versions.get(id)
        if version is None and id not in window.plan.work:
            continue
        stored_rows = 0 if version is None else count_rows(reader, f"current/{id}", version)
        if stored_rows + window.rows < MANY_ROWS:
            small.add(id)
        with sized_for(lake.spark, small=id in small):
            rows[id] = window.frames.build_table(id).rows
    return AsOfView(ts, window.plan.state, rows, frozenset(small))
