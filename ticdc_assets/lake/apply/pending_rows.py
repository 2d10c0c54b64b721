"""Select the row events that no window has applied yet.

Rows with a commit ts belong to the window that covers it.  Other rows belong to the first window
after their arrival, and come after everything applied before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import RowChange, TableSchema
from ticdc_assets.lake.apply.row_groups import GroupOptions, group_few_rows, group_rows
from ticdc_assets.lake.columns.escaped_text import may_be_undecodable
from ticdc_assets.lake.events.event_rows import SCHEMA, make_table_name, read_row_change
from ticdc_assets.lake.events.repetition import is_same_event
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.plan.ddl_cuts import DdlCuts
from ticdc_assets.plan.replay import LateRows
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.stream.ordering import OrderKey, Phase

# Column of `events` that no row change has.
_OF_OTHER_EVENTS = "error"


@dataclass(frozen=True)
class Window:
    """From a snapshot (its ts and batch) to a ts and a batch."""

    after_ts: int
    after_batch: int
    ts: int
    batch: int


class PendingRows:
    """The pending rows of a window, with their place in the order: few are in this process.

    The place is `order_ts`, and `after_ddls` for rows that come after the DDLs of that ts.
    """

    def __init__(self, lake: LakeSession, window: Window, *, in_milliseconds: bool = False) -> None:
        self._lake = lake
        self._window = window
        self._few = _read_few(lake, window, in_milliseconds=in_milliseconds)
        self._many = None
        if self._few is None:
            self._many = _select_many(lake, window, in_milliseconds=in_milliseconds)

    @property
    def are_few(self) -> bool:
        return self._few is not None

    def group(self, cuts: DdlCuts, options: GroupOptions) -> list[RowGroup]:
        """Describe the rows in groups (`row_groups`)."""
        if self._few is not None:
            return group_few_rows(self._few, cuts, options)
        return group_rows(self.all(), cuts, options)

    def keep(self) -> None:
        """Keep rows with Spark: selecting them from `events` again for each table takes longer."""
        if self._many is not None:
            self._many = self._many.localCheckpoint()

    def all(self) -> DataFrame:
        """Return all rows, of which there must be some."""
        if self._many is not None:
            return self._many
        return self._lake.make_frame(self._few)

    def of_table(
        self, schema: TableSchema, low: OrderKey | None = None, high: OrderKey | None = None
    ) -> DataFrame:
        """Return the rows of a table, of which there must be some: those between two points."""
        name = make_table_name(schema.database, schema.table)
        if self._few is None:
            rows = self.all().where(F.col("name") == F.lit(name))
            if low is None or high is None:
                return rows
            return rows.where(_is_between(F.col("order_ts"), F.col("after_ddls"), low, high))
        is_chosen = pc.field("name") == name
        if low is not None and high is not None:
            place = pc.field("order_ts"), pc.field("after_ddls")
            is_chosen &= _is_between(*place, low, high)
        return self._lake.make_frame(self._few.filter(is_chosen))

    def may_have_undecodable_text(self, schema: TableSchema) -> bool:
        """Return whether rows of a table may have bytes that are not UTF-8: many always may."""
        if self._few is None:
            return True
        name = make_table_name(schema.database, schema.table)
        rows = self._few.filter(pc.field("name") == name)
        return any(may_be_undecodable(rows[image]) for image in ("before", "after"))


def _read_few(lake: LakeSession, window: Window, *, in_milliseconds: bool) -> pa.Table | None:
    """Read the rows of a window in this process; None if there may be many."""
    reader = LakeReader(lake.location)
    events = reader.open("events")
    if not reader.is_small(events, {"commit_ts": window.after_ts, "batch": window.after_batch}):
        return None
    names = [name for name in SCHEMA.names if name != _OF_OTHER_EVENTS]
    rows = reader.read(events, names, _is_pending(pc.field, window))
    may_repeat = in_milliseconds and window.after_ts > 0
    if may_repeat and rows.filter(_is_old(pc.field, window)).num_rows:
        # They may be repetitions, which only Spark can tell.
        return None
    return _place_few(rows, window.after_ts)


def _is_pending(get: Callable[[str], Any], window: Window) -> Any:
    """Whether an event is a row of a window; in Spark, or in Arrow."""
    kind, ts, ordering, batch = map(get, ("kind", "commit_ts", "ordering", "batch"))
    ordered_by_commit_ts = ordering == "commit_ts"
    is_new = ~ordered_by_commit_ts & (batch > window.after_batch)
    return (
        (kind == "row")
        & (ts <= window.ts)
        & ((ts > window.after_ts) | is_new)
        # Rows with a commit ts belong to the window even if they arrived in a later batch.
        & (ordered_by_commit_ts | (batch <= window.batch))
    )


def _is_old(get: Callable[[str], Any], window: Window) -> Any:
    """Whether a row that states milliseconds is of a time that was applied before."""
    return (get("ordering") == "milliseconds") & (get("commit_ts") < window.after_ts)


def _place_few(rows: pa.Table, after_ts: int) -> pa.Table:
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


def _select_many(lake: LakeSession, window: Window, *, in_milliseconds: bool) -> DataFrame:
    ts, ordered_by_commit_ts = F.col("commit_ts"), F.col("ordering") == "commit_ts"
    events = lake.read("events")
    rows = events.where(_is_pending(F.col, window))
    if in_milliseconds and window.after_ts:
        rows = _without_repetitions(rows, events, window)
    is_late = ~ordered_by_commit_ts & (ts <= window.after_ts)
    return rows.withColumns(
        {
            "order_ts": F.when(is_late, F.lit(window.after_ts)).otherwise(ts),
            "ordered_by_commit_ts": ordered_by_commit_ts,
            "after_ddls": is_late | (F.col("ordering") == "table_version"),
        }
    )


def _without_repetitions(rows: DataFrame, events: DataFrame, window: Window) -> DataFrame:
    """Leave out repeated rows that have only milliseconds: they would undo newer changes."""
    is_old = _is_old(F.col, window)
    known = events.where((F.col("kind") == "row") & is_old & (F.col("batch") <= window.after_batch))
    old, same = rows.where(is_old).alias("old"), is_same_event("old", "known")
    new = old.join(known.alias("known"), same, "left_anti")
    return rows.where(~is_old).unionByName(new)


def find_late_rows(lake: LakeSession, snapshot: Snapshot, batch: int) -> list[LateRows]:
    """Find tables with rows that arrived after the snapshot's ts, at or before it, and were new.

    A row that had arrived before is a repetition and changes nothing.  A new one was held back by
    something that has been mended since.
    """
    first_ts = _find_first_late_ts(lake, snapshot, batch)
    if first_ts is None:
        return []
    rows = lake.read("events").where(F.col("kind") == "row")
    late = rows.where(
        (F.col("batch") > snapshot.batch)
        & (F.col("batch") <= batch)
        & (F.col("ordering") == "commit_ts")
        & (F.col("commit_ts") <= snapshot.ts)
    )
    known = rows.where(
        (F.col("batch") <= snapshot.batch)
        & (F.col("commit_ts") >= first_ts)
        & (F.col("commit_ts") <= snapshot.ts)
    )
    same = is_same_event("late", "known")
    new = late.alias("late").join(known.alias("known"), same, "left_anti")
    tables = new.groupBy("database", "table").agg(F.min("commit_ts"))
    return [LateRows(*row) for row in tables.collect()]


def _find_first_late_ts(lake: LakeSession, snapshot: Snapshot, batch: int) -> int | None:
    """Find the first commit ts of new rows that the snapshot covers, from narrow columns."""
    is_new = (pc.field("batch") > snapshot.batch) & (pc.field("batch") <= batch)
    is_late = (pc.field("ordering") == "commit_ts") & (pc.field("commit_ts") <= snapshot.ts)
    reader = LakeReader(lake.location)
    where = (pc.field("kind") == "row") & is_new & is_late
    late = reader.read(reader.open("events"), ["commit_ts"], where)
    first: int | None = pc.min(late["commit_ts"]).as_py()
    return first


def sample_row(rows: PendingRows, group: RowGroup) -> RowChange:
    """Return one of the pending rows of a group."""
    schema = TableSchema(group.database, group.table, ())
    members = rows.of_table(schema).where(
        F.col("observed").eqNullSafe(F.lit(group.observed))
        & F.col("schema_version").eqNullSafe(F.lit(group.schema_version))
        & F.col("order_ts").between(group.first_ts, group.last_ts)
    )
    return read_row_change(members.limit(1).collect()[0].asDict())


def _is_between(ts: Any, after_ddls: Any, low: OrderKey, high: OrderKey) -> Any:
    """Whether a pending row comes after `low`, and not after `high`; in Spark, or in Arrow."""

    def is_after(point: OrderKey) -> Any:
        is_later = ts > point[0]
        if point[1] >= Phase.AFTER_DDLS:
            return is_later
        is_same = ts == point[0]
        return is_later | (is_same if point[1] < Phase.ROWS else is_same & after_ddls)

    return is_after(low) & ~is_after(high)
