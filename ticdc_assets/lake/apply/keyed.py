"""Tables with a key: what a segment leaves of each key, one row per key."""

from collections.abc import Sequence
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.typed_rows import INVALID, KEY_ONLY
from ticdc_assets.lake.columns.expressions import combine_pairwise, have_same_values
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.lake.store.sql import quote_identifier

_PUT = "⌗put"
_PUT_SQL = quote_identifier(_PUT)
# Whether an operation stands for its event; the removal of the old key of a moved row does not.
_DECIDES = "⌗decides"


def compute_final_rows(segment: Segment) -> DataFrame:
    """Return what a segment leaves of each key: one row per key.

    `⌗put` is true for rows that exist after the segment, and false for deleted ones.
    """
    good = segment.typed.where(~F.col(INVALID))
    key = [F.col(quote_identifier(name)) for name in segment.key]
    values = [F.col(quote_identifier(c.name)) for c in segment.columns]
    kept = [F.col(name) for name in ("⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", "⌗commit_ts")]
    if segment.step.inserts_only:
        decides = F.lit(True).alias(_DECIDES)
        operations = good.select(*kept, F.lit(True).alias(_PUT), decides, *values)
    else:
        operations = _split_into_operations(segment, good, kept)
    order = operation_order(segment.is_ordered_by_commit_ts)
    latest = Window.partitionBy(*key).orderBy(*(F.desc(name) for name in order))
    last = operations.withColumn("⌗nth", F.row_number().over(latest)).where("`⌗nth` = 1")
    counted = last.observe(segment.outcome, F.count_if(_DECIDES).alias("applied"))
    segment.result = counted.select(_PUT, *values, F.col("⌗commit_ts").alias(COMMIT_TS))
    return segment.result


def operation_order(ordered_by_commit_ts: bool) -> list[str]:
    """Return the order of operations: within a transaction a put wins over a removal."""
    if ordered_by_commit_ts:
        return ["⌗order_ts", _PUT, "⌗seq", "⌗index"]
    return ["⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", _PUT]


def _split_into_operations(segment: Segment, good: DataFrame, kept: list[Column]) -> DataFrame:
    """Split every event into the removal of a key, the put of a row, or both."""
    key = segment.key
    moved = combine_pairwise(
        or_, (~F.col("⌗old").getField(n).eqNullSafe(F.col(quote_identifier(n))) for n in key)
    )
    puts = F.col("⌗new") & ~F.col(KEY_ONLY)
    removes = F.col("⌗has_old") & (~F.col("⌗new") | moved)
    forgets = F.col("⌗new") & F.col(KEY_ONLY)
    # 0: remove the old key; 1: put the new row; 2: remove the new key, whose row is unknown.
    does = F.array_compact(
        F.array(F.when(removes, F.lit(0)), F.when(puts, F.lit(1)), F.when(forgets, F.lit(2)))
    )
    each = good.withColumn("⌗do", F.explode(does))
    old = F.col("⌗do") == 0
    values = [
        F.when(old, F.col("⌗old").getField(c.name) if c.name in key else F.lit(None))
        .otherwise(F.col(quote_identifier(c.name)))
        .alias(c.name)
        for c in segment.columns
    ]
    decides = (~old | ~F.col("⌗new")).alias(_DECIDES)
    return each.select(*kept, "⌗overwrites", (F.col("⌗do") == 1).alias(_PUT), decides, *values)


def find_lost_keys(segment: Segment, rows: DataFrame) -> DataFrame:
    """Return updates without old values whose rows do not exist: their old keys are unknown.

    `rows` is the table before the segment.
    """
    good = segment.typed.where(~F.col(INVALID))
    kept = [F.col(name) for name in ("⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", "⌗commit_ts")]
    key = [F.col(quote_identifier(name)) for name in segment.key]
    operations = _split_into_operations(segment, good, kept)
    in_order = Window.partitionBy(*key).orderBy(*operation_order(segment.is_ordered_by_commit_ts))
    marked = operations.withColumn("⌗before", F.lag(_PUT).over(in_order))
    orphans = marked.where(F.col("⌗overwrites") & F.col(_PUT))
    gone = orphans.where(~F.col("⌗before"))
    first = orphans.where(F.col("⌗before").isNull())
    return gone.select("⌗commit_ts").union(
        first.join(rows, have_same_values(first, rows, segment.key), "left_anti").select(
            "⌗commit_ts"
        )
    )


def select_put_rows(final: DataFrame) -> DataFrame:
    """Return the rows that exist after a segment, without flags."""
    return final.where(F.col(_PUT)).drop(_PUT)


def upsert_rows(rows: DataFrame, final: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return a table's rows after a segment."""
    before = rows.withColumns({_PUT: F.lit(True), "⌗since": F.lit(0)})
    both = before.unionByName(final.withColumn("⌗since", F.lit(1)))
    newest = Window.partitionBy(*(F.col(quote_identifier(n)) for n in key)).orderBy(
        F.desc("⌗since")
    )
    last = both.withColumn("⌗nth", F.row_number().over(newest)).where(f"`⌗nth` = 1 AND {_PUT_SQL}")
    return last.drop("⌗nth", "⌗since", _PUT)
