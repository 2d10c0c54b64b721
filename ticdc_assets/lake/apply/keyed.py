"""Tables with a key: what a segment leaves of each key, one row per key."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.typed_rows import INVALID, KEY_ONLY, get_position
from ticdc_assets.lake.columns.inexact import are_equal, get_column, get_from, identify
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT

# The place of an event in the order.
PLACE = ("⌗order_ts", "⌗after_ddls", "⌗ordered_by_commit_ts", "⌗seq", "⌗index")
_PUT = "⌗put"
# Whether an operation stands for its event; the removal of the old key of a moved row does not.
_DECIDES = "⌗decides"
_NTH = "⌗nth"


def compute_final_rows(segment: Segment, before: DataFrame | None = None) -> DataFrame:
    """Return what a segment leaves of each key, or of each key of a table: one row per key.

    `before` is the table before the segment.  `⌗put` is false for rows that are deleted, and NULL
    for those that the segment leaves alone.  Other flags are for this module.
    """
    operations = list_operations(segment)
    if before is not None:
        operations = operations.unionByName(before, allowMissingColumns=True)
    # Rows of `before` have no place, and so come last.
    latest = Window.partitionBy(*identify(segment.key, get_column)).orderBy(
        *(place.desc() for place in operation_order(segment))
    )
    numbered = operations.select(
        *(get_column(n) for n in (_PUT, _DECIDES, *segment.value_names, COMMIT_TS)),
        F.row_number().over(latest).alias(_NTH),
    )
    last = numbered.where(f"{quote_identifier(_NTH)} = 1")
    segment.result = last.observe(segment.outcome, F.count_if(_DECIDES).alias("applied"))
    return segment.result


def select_put_rows(final: DataFrame) -> DataFrame:
    """Return the rows that exist after a segment, without flags."""
    return final.where(F.coalesce(F.col(_PUT), F.lit(True))).drop(_PUT, _DECIDES, _NTH)


def list_operations(segment: Segment) -> DataFrame:
    """Return the operations of a segment: each removes a key, or puts a row (`⌗put`)."""
    kept = [*map(F.col, PLACE), F.col("⌗commit_ts").alias(COMMIT_TS), get_position()]
    if not segment.step.inserts_only:
        return _split_into_operations(segment, [*kept, F.col("⌗overwrites")])
    good = segment.typed.where(~F.col(INVALID))
    values = map(get_column, segment.value_names)
    return good.select(*kept, F.lit(True).alias(_PUT), F.lit(True).alias(_DECIDES), *values)


def operation_order(segment: Segment) -> list[Column]:
    """Return the order of operations, as the reference model states it.

    Within a transaction a put wins over a removal.  Rows that state no commit ts come after
    the transactions of their ts, one by one.
    """
    ts, after_ddls, has_ts, *arrival = map(F.col, PLACE)
    put = F.col(_PUT)
    if segment.is_ordered_by_commit_ts:
        return [ts, put, *arrival]
    if segment.is_ordered_by_arrival:
        return [ts, after_ddls, *arrival, put]
    return [ts, after_ddls, ~has_ts, F.when(has_ts, put), *arrival, put]


def _split_into_operations(segment: Segment, kept: Sequence[Column]) -> DataFrame:
    """Split every valid event into the removal of a key, the put of a row, or both."""
    is_new, old_row = F.col("⌗new"), F.col("⌗old")
    moved = ~are_equal(identify(segment.key, old_row.getField), identify(segment.key, get_column))
    removes = F.col("⌗has_old") & (~is_new | moved)
    known = {column.name for column in segment.key}
    old = [
        old_row.getField(c.name) if c.name in known else F.lit(None).cast(c.type)
        for c in segment.columns
    ]
    removal = _make_operation(segment, F.lit(False), ~is_new, [*old, old_row.getField(INEXACT)])
    # Of a row whose key alone is known, the row before it goes.  It is in the quarantine itself,
    # and counts there.
    is_whole = ~F.col(KEY_ONLY)
    new = [get_column(name) for name in segment.value_names]
    put = _make_operation(segment, is_whole, is_whole, new)
    operations = F.array_compact(F.array(F.when(removes, removal), F.when(is_new, put)))
    valid = F.when(~F.col(INVALID), operations)
    return segment.typed.select(*kept, F.inline(valid))


def _make_operation(
    segment: Segment, put: Column, decides: Column, values: Sequence[Column]
) -> Column:
    named = (v.alias(name) for v, name in zip(values, segment.value_names, strict=True))
    return F.struct(put.alias(_PUT), decides.alias(_DECIDES), *named)


def find_lost_keys(segment: Segment, rows: DataFrame) -> DataFrame:
    """Return updates without old values whose rows do not exist: their old keys are unknown.

    `rows` is the table before the segment.
    """
    operations = list_operations(segment)
    in_order = Window.partitionBy(*identify(segment.key, get_column)).orderBy(
        *operation_order(segment)
    )
    marked = operations.withColumn("⌗before", F.lag(_PUT).over(in_order))
    orphans = marked.where(F.col("⌗overwrites") & F.col(_PUT))
    gone = orphans.where(~F.col("⌗before"))
    first = orphans.where(F.col("⌗before").isNull())
    is_there = are_equal(
        identify(segment.key, get_from(first)), identify(segment.key, get_from(rows))
    )
    unknown = first.join(rows, is_there, "left_anti")
    return gone.select(COMMIT_TS).union(unknown.select(COMMIT_TS))
