"""Row events that are due: those that no applied window has had, up to a resolved ts.

Rows with a commit ts are due by it.  Others are due when they have come: they take their place in
the order of arrival, after what was applied before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import RowChange
from ticdc_assets.lake.events.event_rows import make_table_name, read_row_change
from ticdc_assets.lake.events.repetition import is_same_event
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.stream.ordering import OrderKey, Phase

# What rows have in common that are seen as one.
_ALIKE = (
    *("database", "table", "schema_version", "observed", "columns", "key_columns"),
    *("member_names", "ordered_by_commit_ts", "after_ddls"),
)


@dataclass(frozen=True)
class Window:
    """From one line of `applied` (its ts and batch) to a resolved ts and the newest batch."""

    after_ts: int
    after_batch: int
    ts: int
    batch: int


def select_pending_rows(
    lake: LakeSession, span: Window, *, in_milliseconds: bool = False
) -> DataFrame:
    """The rows that are due, each with its place: `at`, and whether it is `dated` by it.

    Dated rows come after the DDLs of their ts.
    """
    ts, exact = F.col("commit_ts"), F.col("ordering") == "commit_ts"
    came_since = (ts > span.after_ts) | (~exact & (F.col("batch") > span.after_batch))
    late = ~exact & (ts <= span.after_ts)
    rows = lake.read("events").where(
        (F.col("kind") == "row")
        & (ts <= span.ts)
        & came_since
        # Of rows that are ordered by their arrival, no later ones; others are due when they come.
        & (exact | (F.col("batch") <= span.batch))
    )
    if in_milliseconds and span.after_ts:
        rows = _without_repetitions(rows, lake.read("events"), span)
    at = F.when(late, F.lit(span.after_ts)).otherwise(ts)
    return rows.withColumns(
        {
            "order_ts": at,
            "ordered_by_commit_ts": exact,
            "after_ddls": late | (F.col("ordering") == "table_version"),
        }
    )


def _without_repetitions(rows: DataFrame, events: DataFrame, span: Window) -> DataFrame:
    """Leave out rows of milliseconds that a sender sends again: they would undo what came since."""
    again = (F.col("ordering") == "milliseconds") & (F.col("commit_ts") < span.after_ts)
    before = events.where(
        (F.col("kind") == "row")
        & (F.col("ordering") == "milliseconds")
        & (F.col("batch") <= span.after_batch)
        & (F.col("commit_ts") < span.after_ts)
    )
    late = rows.where(again).alias("late")
    same = is_same_event("late", "known")
    new = late.join(before.alias("known"), same, "left_anti")
    return rows.where(~again).unionByName(new)


def group_rows(rows: DataFrame, *, old_values_may_lack: bool) -> list[RowGroup]:
    """What there is of due rows, a line for all that are alike."""
    lacks = (F.col("op") == "update") & F.col("before").isNull()
    overwrites = F.count_if(lacks) if old_values_may_lack else F.lit(0)
    found = rows.groupBy(*_ALIKE).agg(
        F.min("order_ts").alias("first_ts"),
        F.max("order_ts").alias("last_ts"),
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("op") == "insert").alias("inserts"),
        overwrites.alias("overwrites"),
        F.count_if("handle_key_only").alias("key_only"),
    )
    return sorted((_seen(row.asDict()) for row in found.collect()), key=_order)


def _seen(row: Mapping[str, Any]) -> RowGroup:
    keys = row["key_columns"]
    return RowGroup(**{**row, "key_columns": None if keys is None else tuple(keys)})


def _order(group: RowGroup) -> tuple[Any, ...]:
    return (
        group.first,
        group.database,
        group.table,
        group.schema_version or 0,
        group.observed or "",
    )


def sample_row(rows: DataFrame, group: RowGroup) -> RowChange:
    """One of the due rows that are alike."""
    like = rows.where(
        (F.col("name") == make_table_name(group.database, group.table))
        & F.col("observed").eqNullSafe(F.lit(group.observed))
        & F.col("schema_version").eqNullSafe(F.lit(group.schema_version))
    )
    return read_row_change(like.limit(1).collect()[0].asDict())


def between(low: OrderKey, high: OrderKey) -> Column:
    """Whether a row's place is beyond `low` and not beyond `high`."""
    at, phase = (
        F.col("order_ts"),
        F.when(F.col("after_ddls"), Phase.AFTER_DDLS.value).otherwise(Phase.ROWS.value),
    )
    beyond_low = (at > low[0]) | ((at == low[0]) & (phase > low[1]))
    beyond_high = (at > high[0]) | ((at == high[0]) & (phase > high[1]))
    return beyond_low & ~beyond_high


def find_late_rows(lake: LakeSession, span: Window) -> list[tuple[str, str, int]]:
    """Tables with rows that came when their commit ts was applied, and had not come before.

    Each with the least of these.

    Rows that had are a sender's repetition, of no consequence; those that had not were held back
    by something that has been mended since.
    """
    events = lake.read("events").where(F.col("kind") == "row")
    late = events.where(
        (F.col("batch") > span.after_batch)
        & (F.col("batch") <= span.batch)
        & (F.col("ordering") == "commit_ts")
        & (F.col("commit_ts") <= span.after_ts)
    )
    bounds = late.agg(F.min("commit_ts"), F.count(F.lit(1))).collect()[0]
    if not bounds[1]:
        return []
    known = events.where(
        (F.col("batch") <= span.after_batch)
        & (F.col("commit_ts") >= bounds[0])
        & (F.col("commit_ts") <= span.after_ts)
    )
    same = is_same_event("late", "known")
    strange = late.alias("late").join(known.alias("known"), same, "left_anti")
    least = strange.groupBy("database", "table").agg(F.min("commit_ts"))
    return [(row[0], row[1], row[2]) for row in least.collect()]
