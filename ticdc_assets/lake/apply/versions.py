"""The versions of a table's rows in a window: every state of every row, and when it held.

A version begins with the event or DDL that made it (`_commit_ts`, here a mark) and ends with the
one that replaced or removed it (`⌗until`, a mark, or NULL while it is open).  What identifies a row
is its key; in a table without a key, all of its values and a number that tells copies apart, so
that of equal copies the youngest ends first.

Reading, typing and order are those of `frames`.  What follows several of the same commit ts is one
version.  Rows that state no commit ts of their own are dated with the end of their segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.frames import (
    Frames,
    alter_rows,
    keeps_values_of,
    name_columns_like,
    select_inside,
    select_outside,
)
from ticdc_assets.lake.apply.keyed import list_operations, operation_order
from ticdc_assets.lake.apply.multiset import list_changes
from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.columns.inexact import get_column, identify
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    EmptyPartitions,
    Exchange,
    TableStep,
    TableWork,
)
from ticdc_assets.rows.column_moves import can_widen, map_columns
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, fold_case, list_delta_columns
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.schema.effect import ColumnChange

UNTIL, BEFORE, IS_NEW = "⌗until", "⌗before", "⌗is_new"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
_POSITION = "struct<source: string, partition: int, number: bigint, index: bigint>"
MARK = f"struct<ts: bigint, operation: string, ddl: string, position: {_POSITION}>"
NO_ROW = "struct<none:int>"
_NEVER = f"CAST(NULL AS {MARK})"


@dataclass(frozen=True)
class VersionFrame:
    """The versions of a table that were open at some time in one step, under its schema then.

    Columns: the row, `_inexact` as entries, `_commit_ts` and `⌗until`; and, of versions that began
    in this step (`⌗is_new`), the row `⌗before` it under the schema `before`, if there was one.
    """

    schema: TableSchema
    before: TableSchema
    rows: DataFrame
    # What took the columns of `before` to those of `schema`.
    column_changes: Sequence[ColumnChange] = ()


def mark(ts: Column, operation: str | Column, ddl: str | None, position: Column) -> Column:
    """Return what began or ended a version: an event at a position, or a DDL."""
    operation = F.lit(operation) if isinstance(operation, str) else operation
    parts = {"ts": ts, "operation": operation, "ddl": F.lit(ddl), "position": position}
    return F.struct(*(part.alias(name) for name, part in parts.items())).cast(MARK)


def mark_ddl(ts: int, operation: str, ddl: str) -> Column:
    """Return the mark of a DDL."""
    return mark(F.lit(ts), operation, ddl, F.lit(None))


def mark_start(ts: Column, operation: Column) -> Column:
    """Return the mark of a version that began before the window."""
    return mark(ts, operation, None, F.lit(None))


def list_versions(frames: Frames, work: TableWork, start: DataFrame | None) -> list[VersionFrame]:
    """Take a table through a window; `start` are its rows before it, each with its mark."""
    builder = _Builder(frames, work, start)
    for step in merge_steps(work.before, work.steps):
        builder.add(step)
    return builder.frames


def keeps_versions(rows: DataFrame, before: TableSchema, step: Alter) -> bool:
    """Whether the versions of existing rows outlast a DDL: it adds NULLs, or widens types."""
    if not keeps_values_of(rows, step.steps, step.commit_ts):
        return False
    after = {column.name: column.type for column in list_delta_columns(step.schema)}
    moves = map_columns(before, step.steps, step.schema)
    return all(
        (new := moves.get(column.name)) is not None
        and fold_case(new) == fold_case(column.name)
        and can_widen(column.type, after[new])
        for column in list_delta_columns(before)
    )


class _Builder:
    def __init__(self, frames: Frames, work: TableWork, start: DataFrame | None) -> None:
        self._frames = frames
        self._schema = work.before
        if start is None:
            nothing = frames.empty(work.before)
            start = nothing.withColumn(COMMIT_TS, F.expr(_NEVER))
        self.frames = [VersionFrame(work.before, work.before, keep_versions(start))]

    def add(self, step: TableStep) -> None:
        match step:
            case ApplyRows():
                self._put(step.schema, self._apply(step))
            case Alter():
                self._alter(step)
            case EmptyPartitions():
                rows = self._open()
                gone = select_inside(rows, self._schema, step, step.names)
                kept = select_outside(rows, self._schema, step, step.names)
                self._end_some(kept, gone, step)
                self._put(step.schema, keep_versions(alter_rows(self._open(), self._schema, step)))
            case Exchange():
                self._exchange(step)
        self._schema = step.schema

    def _put(
        self, schema: TableSchema, rows: DataFrame, changes: Sequence[ColumnChange] = ()
    ) -> None:
        self.frames.append(VersionFrame(schema, self._schema, rows, changes))

    def _open(self) -> DataFrame:
        """Return the versions that are open after the steps so far."""
        last = self.frames[-1]
        if len(self.frames) > 1:
            # The next step reads it as well.
            last = replace(last, rows=last.rows.localCheckpoint())
            self.frames[-1] = last
        return last.rows.where(F.col(UNTIL).isNull()).drop(UNTIL, BEFORE, IS_NEW)

    # DDL

    def _alter(self, step: Alter) -> None:
        rows = self._open()
        if keeps_versions(rows, self._schema, step):
            altered = keep_versions(alter_rows(rows, self._schema, step))
            self._put(step.schema, altered, step.steps)
            return
        made = mark_ddl(step.commit_ts, UPDATE, step.sql)
        self._put(self._schema, keep_versions(rows, until=made))
        # DDL leaves this column alone, so the old row travels in it.
        old = F.struct(*(get_column(name) for name in _list_values(self._schema)))
        altered = alter_rows(rows.withColumn(COMMIT_TS, old), self._schema, step)
        began = {BEFORE: F.col(COMMIT_TS), COMMIT_TS: made, IS_NEW: F.lit(True)}
        new = altered.withColumns({**began, UNTIL: F.expr(_NEVER)})
        self._put(step.schema, new, step.steps)

    def _end_some(self, kept: DataFrame, gone: DataFrame, step: EmptyPartitions | Exchange) -> None:
        """Let a DDL remove some of the rows."""
        until = mark_ddl(step.commit_ts, DELETE, step.sql)
        self._put(self._schema, keep_versions(kept).unionByName(keep_versions(gone, until=until)))

    def _exchange(self, step: Exchange) -> None:
        rows = self._open()
        other = self._frames.build_table(step.other, step.other_steps).rows
        names = (step.partition,)
        if step.partitioned:
            gone = select_inside(rows, self._schema, step, names)
            kept = select_outside(rows, self._schema, step, names)
        else:
            gone, kept = rows, rows.where(F.lit(False))
            other = select_inside(other, step.schema_before, step, names)
        self._end_some(kept, gone, step)
        kept = keep_versions(alter_rows(self._open(), self._schema, step))
        came = mark_ddl(step.commit_ts, INSERT, step.sql)
        received = name_columns_like(other, rows).withColumn(COMMIT_TS, came)
        received = keep_versions(alter_rows(received, self._schema, step))
        self._put(step.schema, kept.unionByName(received.withColumn(IS_NEW, F.lit(True))))

    # Events

    def _apply(self, step: ApplyRows) -> DataFrame:
        segment = self._frames.read_segment(step)
        rows = self._open()
        if segment.key:
            key = identify(segment.key, get_column)
            dated = _date(segment, list_operations(segment), key).where("`⌗is_last`")
            return _chain(segment, dated, rows, key)
        changes = list_changes(segment, rows, self._frames.find_passes(segment))
        changed, numbered = _number_copies(segment, changes, rows)
        every = [*map(get_column, segment.value_names), F.col("⌗copy")]
        return _chain(segment, changed, numbered, every)


def keep_versions(rows: DataFrame, until: Column | None = None) -> DataFrame:
    """Return versions that began before a step, and when they end."""
    until = F.expr(_NEVER) if until is None else until
    before = F.lit(None).cast(NO_ROW)
    return rows.withColumns({UNTIL: until, BEFORE: before, IS_NEW: F.lit(False)})


def end_versions(rows: DataFrame, dropped_ts: int) -> DataFrame:
    """Let the DROP of a table end its open versions."""
    return rows.withColumn(UNTIL, F.coalesce(UNTIL, mark_ddl(dropped_ts, DELETE, "")))


def _list_values(schema: TableSchema) -> list[str]:
    return [*(column.name for column in list_delta_columns(schema)), INEXACT]


def _date(segment: Segment, operations: DataFrame, identity: Sequence[Column]) -> DataFrame:
    """Date operations, and keep the last one of each row and ts.

    What states no commit ts comes before everything that follows it in the order.
    """
    in_order = Window.partitionBy(*identity).orderBy(*operation_order(segment))
    following = in_order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    own = F.when(F.col("⌗after_ddls"), F.lit(segment.step.high[0])).otherwise(F.col("⌗order_ts"))
    dated = operations.withColumn("⌗own_ts", own).withColumn(
        "⌗ts", F.min("⌗own_ts").over(following)
    )
    return dated.withColumn("⌗is_last", ~F.lead("⌗ts").over(in_order).eqNullSafe(F.col("⌗ts")))


def _chain(
    segment: Segment, operations: DataFrame, rows: DataFrame, identity: Sequence[Column]
) -> DataFrame:
    """Return the versions of rows during a segment: those open before it, and the new ones."""
    values = list(map(get_column, segment.value_names))
    kept = [*values, *(F.col(name) for name in ("⌗copy",) if name in rows.columns), F.col("⌗put")]
    made = mark(F.col("⌗ts"), F.lit(None), None, F.col("⌗position")).alias(COMMIT_TS)
    new = operations.select(*kept, made, F.lit(True).alias(IS_NEW))
    old = rows.withColumns({"⌗put": F.lit(True), IS_NEW: F.lit(False)})
    both = new.unionByName(old.select(*kept, COMMIT_TS, IS_NEW))
    by_time = Window.partitionBy(*identity).orderBy(IS_NEW, F.col(COMMIT_TS)["ts"])
    linked = both.withColumns(
        {
            BEFORE: F.lag(F.when(F.col("⌗put"), F.struct(*values))).over(by_time),
            UNTIL: F.lead(COMMIT_TS).over(by_time),
            "⌗is_replaced": F.lead("⌗put").over(by_time),
        }
    )
    is_new, since, until, before = map(F.col, (IS_NEW, COMMIT_TS, UNTIL, BEFORE))
    began = since.withField("operation", F.when(before.isNull(), INSERT).otherwise(UPDATE))
    ended = until.withField("operation", F.when(F.col("⌗is_replaced"), UPDATE).otherwise(DELETE))
    return linked.where("`⌗put`").select(
        *values,
        F.when(is_new, began).otherwise(since).alias(COMMIT_TS),
        F.when(until.isNotNull(), ended).alias(UNTIL),
        F.when(is_new, before).alias(BEFORE),
        IS_NEW,
    )


def _number_copies(
    segment: Segment, changes: DataFrame, rows: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Number the copies of equal rows: return the operations on them, and the open ones.

    There are never fewer than no copies (`multiset`).
    """
    values = list(map(get_column, segment.value_names))
    by_age = Window.partitionBy(*values).orderBy(F.col(COMMIT_TS)["ts"])
    numbered = rows.withColumn("⌗copy", F.row_number().over(by_age))
    dated = _date(segment, changes, values)
    order = {f"⌗order{n}": place for n, place in enumerate(operation_order(segment))}
    placed = dated.select(
        *values, "⌗copies", "⌗ts", "⌗is_last", "⌗position", *(o.alias(n) for n, o in order.items())
    )
    there = numbered.groupBy(*values).agg(F.count(F.lit(1)).alias("⌗copies"))
    there = there.withColumns({"⌗ts": F.lit(-1), "⌗is_last": F.lit(True)})
    both = placed.unionByName(there, allowMissingColumns=True)
    in_order = Window.partitionBy(*values).orderBy("⌗ts", *order)
    summed = both.withColumn("⌗sum", F.sum("⌗copies").over(in_order))
    missing = F.least(F.lit(0), F.min("⌗sum").over(in_order))
    last = summed.withColumn("⌗now", F.col("⌗sum") - missing).where("`⌗is_last`")
    last = last.withColumn("⌗was", F.coalesce(F.lag("⌗now").over(in_order), F.lit(0)))
    now, was = F.col("⌗now").cast("int"), F.col("⌗was").cast("int")
    copies = F.sequence(F.least(now, was) + 1, F.greatest(now, was))
    changed = last.where("`⌗ts` >= 0 AND `⌗now` <> `⌗was`").withColumns(
        {"⌗put": now > was, "⌗copy": F.explode(copies)}
    )
    return changed, numbered
