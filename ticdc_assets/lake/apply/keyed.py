"""Tables with a key: what a segment leaves of each key, one row per key."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.typed_rows import INVALID, KEY_ONLY, get_position
from ticdc_assets.lake.columns.inexact import are_equal, get_column, get_from, identify
from ticdc_assets.lake.columns.types import DeltaColumn
from ticdc_assets.lake.store.contracts import COMMIT_TS, INEXACT
from ticdc_assets.lake.store.sql import quote_identifier

# The place of an event in the order.
PLACE = ("⌗order_ts", "⌗after_ddls", "⌗ordered_by_commit_ts", "⌗seq", "⌗index")
_PUT = "⌗put"
_PUT_SQL = quote_identifier(_PUT)
# Whether an operation stands for its event; the removal of the old key of a moved row does not.
_DECIDES = "⌗decides"


def compute_final_rows(segment: Segment) -> DataFrame:
    """Return what a segment leaves of each key: one row per key.

    `⌗put` is true for rows that exist after the segment, and false for deleted ones.
    """
    values = [get_column(name) for name in segment.value_names]
    operations = list_operations(segment)
    latest = Window.partitionBy(*identify(segment.key, get_column)).orderBy(
        *(place.desc() for place in operation_order(segment))
    )
    last = operations.withColumn("⌗nth", F.row_number().over(latest)).where("`⌗nth` = 1")
    counted = last.observe(segment.outcome, F.count_if(_DECIDES).alias("applied"))
    segment.result = counted.select(_PUT, *values, F.col("⌗commit_ts").alias(COMMIT_TS))
    return segment.result


def list_operations(segment: Segment) -> DataFrame:
    """Return the operations of a segment: each removes a key, or puts a row (`⌗put`)."""
    good = segment.typed.where(~F.col(INVALID))
    kept = [*map(F.col, PLACE), F.col("⌗commit_ts"), get_position()]
    if not segment.step.inserts_only:
        return _split_into_operations(segment, good, kept)
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


def _split_into_operations(segment: Segment, good: DataFrame, kept: list[Column]) -> DataFrame:
    """Split every event into the removal of a key, the put of a row, or both."""
    old_row = F.col("⌗old")
    moved = ~are_equal(identify(segment.key, old_row.getField), identify(segment.key, get_column))
    puts = F.col("⌗new") & ~F.col(KEY_ONLY)
    removes = F.col("⌗has_old") & (~F.col("⌗new") | moved)
    forgets = F.col("⌗new") & F.col(KEY_ONLY)
    # 0: remove the old key; 1: put the new row; 2: remove the new key, whose row is unknown.
    does = F.array_compact(
        F.array(F.when(removes, F.lit(0)), F.when(puts, F.lit(1)), F.when(forgets, F.lit(2)))
    )
    each = good.withColumn("⌗do", F.explode(does))
    old = F.col("⌗do") == 0
    known = {INEXACT, *(column.name for column in segment.key)}
    values = [
        F.when(old, old_row.getField(name) if name in known else F.lit(None))
        .otherwise(get_column(name))
        .alias(name)
        for name in segment.value_names
    ]
    # A row whose key alone is known is in the quarantine, and counts there.
    decides = F.when(old, ~F.col("⌗new")).otherwise(F.col("⌗do") == 1).alias(_DECIDES)
    return each.select(*kept, "⌗overwrites", (F.col("⌗do") == 1).alias(_PUT), decides, *values)


def find_lost_keys(segment: Segment, rows: DataFrame) -> DataFrame:
    """Return updates without old values whose rows do not exist: their old keys are unknown.

    `rows` is the table before the segment.
    """
    good = segment.typed.where(~F.col(INVALID))
    kept = [F.col(name) for name in (*PLACE, "⌗commit_ts")]
    operations = _split_into_operations(segment, good, kept)
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
    return gone.select("⌗commit_ts").union(unknown.select("⌗commit_ts"))


def select_put_rows(final: DataFrame) -> DataFrame:
    """Return the rows that exist after a segment, without flags."""
    return final.where(F.col(_PUT)).drop(_PUT)


def upsert_rows(rows: DataFrame, final: DataFrame, key: Sequence[DeltaColumn]) -> DataFrame:
    """Return a table's rows after a segment."""
    before = rows.withColumns({_PUT: F.lit(True), "⌗since": F.lit(0)})
    both = before.unionByName(final.withColumn("⌗since", F.lit(1)))
    newest = Window.partitionBy(*identify(key, get_column)).orderBy(F.desc("⌗since"))
    last = both.withColumn("⌗nth", F.row_number().over(newest)).where(f"`⌗nth` = 1 AND {_PUT_SQL}")
    return last.drop("⌗nth", "⌗since", _PUT)
