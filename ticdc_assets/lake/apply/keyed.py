"""Tables with a key: a segment as what is left of its events in the end, one line a key."""

from collections.abc import Sequence
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.segment import BAD, KEY_ONLY, Segment
from ticdc_assets.lake.columns.expressions import combine_pairwise, have_same_values
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.lake.store.sql import quote_identifier

_PUT = "⌗put"
_PUT_SQL = quote_identifier(_PUT)
# Whether an operation is all of its event, not the old key's part of one that moved.
_DECIDES = "⌗decides"


def final_rows(segment: Segment) -> DataFrame:
    """What a segment makes of the rows of a table with a key, one line a key.

    `⌗put` tells rows that are there in the end from those that are gone.
    """
    good = segment.typed.where(~F.col(BAD))
    key = [F.col(quote_identifier(name)) for name in segment.key]
    values = [F.col(quote_identifier(c.name)) for c in segment.columns]
    kept = [F.col(name) for name in ("⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", "⌗commit_ts")]
    if segment.step.inserts_only:
        decides = F.lit(True).alias(_DECIDES)
        operations = good.select(*kept, F.lit(True).alias(_PUT), decides, *values)
    else:
        operations = _operations(segment, good, kept)
    order = order_of(segment.is_ordered_by_commit_ts)
    latest = Window.partitionBy(*key).orderBy(*(F.desc(name) for name in order))
    last = operations.withColumn("⌗nth", F.row_number().over(latest)).where("`⌗nth` = 1")
    counted = last.observe(segment.outcome, F.count_if(_DECIDES).alias("applied"))
    segment.result = counted.select(_PUT, *values, F.col("⌗commit_ts").alias(COMMIT_TS))
    return segment.result


def order_of(exact: bool) -> list[str]:
    """At one commit ts what is put beats what is removed; otherwise events go one by one."""
    if exact:
        return ["⌗order_ts", _PUT, "⌗seq", "⌗index"]
    return ["⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", _PUT]


def _operations(segment: Segment, good: DataFrame, kept: list[Column]) -> DataFrame:
    """Every event as the removal of a key, the putting of a row, or both."""
    key = segment.key
    moved = combine_pairwise(
        or_, (~F.col("⌗old").getField(n).eqNullSafe(F.col(quote_identifier(n))) for n in key)
    )
    puts = F.col("⌗new") & ~F.col(KEY_ONLY)
    removes = F.col("⌗has_old") & (~F.col("⌗new") | moved)
    forgets = F.col("⌗new") & F.col(KEY_ONLY)
    # 0: the old key goes; 1: the new row comes; 2: the new key goes, as no more is known of it.
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


def lost_keys(segment: Segment, rows: DataFrame) -> DataFrame:
    """Updates without old values of rows that are not there: their old keys are not in the stream.

    `rows` is the table before the segment.
    """
    good = segment.typed.where(~F.col(BAD))
    kept = [F.col(name) for name in ("⌗order_ts", "⌗after_ddls", "⌗seq", "⌗index", "⌗commit_ts")]
    key = [F.col(quote_identifier(name)) for name in segment.key]
    operations = _operations(segment, good, kept)
    in_order = Window.partitionBy(*key).orderBy(*order_of(segment.is_ordered_by_commit_ts))
    marked = operations.withColumn("⌗before", F.lag(_PUT).over(in_order))
    orphans = marked.where(F.col("⌗overwrites") & F.col(_PUT))
    gone = orphans.where(~F.col("⌗before"))
    first = orphans.where(F.col("⌗before").isNull())
    return gone.select("⌗commit_ts").union(
        first.join(rows, have_same_values(first, rows, segment.key), "left_anti").select(
            "⌗commit_ts"
        )
    )


def put_rows(final: DataFrame) -> DataFrame:
    """Of what a segment makes of the rows, those that are there in the end."""
    return final.where(F.col(_PUT)).drop(_PUT)


def upserted(rows: DataFrame, final: DataFrame, key: Sequence[str]) -> DataFrame:
    """A table's rows after a segment."""
    before = rows.withColumns({_PUT: F.lit(True), "⌗since": F.lit(0)})
    both = before.unionByName(final.withColumn("⌗since", F.lit(1)))
    newest = Window.partitionBy(*(F.col(quote_identifier(n)) for n in key)).orderBy(
        F.desc("⌗since")
    )
    last = both.withColumn("⌗nth", F.row_number().over(newest)).where(f"`⌗nth` = 1 AND {_PUT_SQL}")
    return last.drop("⌗nth", "⌗since", _PUT)
