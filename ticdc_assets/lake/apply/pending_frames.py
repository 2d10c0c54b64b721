"""The pending rows of a window as data frames."""

from functools import cached_property
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.pending_rows import PendingRows, Window, is_pending
from ticdc_assets.lake.columns.escaped_text import may_be_undecodable
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.events.repetition import is_same_event
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.stream.ordering import OrderKey, Phase


class PendingFrames:
    """The pending rows of a window, with their place in the order: few are in this process.

    The place is `order_ts`, and `after_ddls` for rows that come after the DDLs of that ts.
    """

    def __init__(self, lake: LakeSession, rows: PendingRows) -> None:
        self._lake = lake
        self._rows = rows
        self._few = rows.held

    @cached_property
    def _many(self) -> DataFrame | None:
        rows = self._rows
        if rows.held is not None:
            return None
        return _select_many(self._lake, rows.window, in_milliseconds=rows.in_milliseconds)

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


def _select_many(lake: LakeSession, window: Window, *, in_milliseconds: bool) -> DataFrame:
    ts, ordered_by_commit_ts = F.col("commit_ts"), F.col("ordering") == "commit_ts"
    events = lake.read("events")
    rows = events.where(is_pending(F.col, window))
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
    # Of a time that was applied before.
    is_old = (F.col("ordering") == "milliseconds") & (F.col("commit_ts") < window.after_ts)
    known = events.where((F.col("kind") == "row") & is_old & (F.col("batch") <= window.after_batch))
    old, same = rows.where(is_old).alias("old"), is_same_event("old", "known")
    new = old.join(known.alias("known"), same, "left_anti")
    return rows.where(~is_old).unionByName(new)


def _is_between(ts: Any, after_ddls: Any, low: OrderKey, high: OrderKey) -> Any:
    """Whether a pending row comes after `low`, and not after `high`; in Spark, or in Arrow."""

    def is_after(point: OrderKey) -> Any:
        is_later = ts > point[0]
        if point[1] >= Phase.AFTER_DDLS:
            return is_later
        is_same = ts == point[0]
        return is_later | (is_same if point[1] < Phase.ROWS else is_same & after_ddls)

    return is_after(low) & ~is_after(high)
