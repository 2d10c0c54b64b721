"""Tables without a key: a segment as more, or fewer, copies of equal rows."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.keyed import same_values
from ticdc_assets.lake.row_types import DeltaColumn
from ticdc_assets.lake.segment import BAD, KEY_ONLY, Segment
from ticdc_assets.lake.tables import COMMIT_TS, quoted


def changed_counts(segment: Segment, passes: DataFrame | None) -> DataFrame:
    """How many copies more, or fewer, of which rows a segment makes of a table without a key.

    One transaction's equal changes count as often as one pass of their sender sent them; `passes`
    tells the pass by `seq` and `index`.  Without it every change counts.
    """
    good = segment.typed.where(~F.col(BAD) & ~F.col(KEY_ONLY))
    if passes is not None:
        good = good.join(passes, ["⌗seq", "⌗index"])
        one_pass = Window.partitionBy("⌗at", "⌗before_text", "⌗after_text", "⌗pass")
        counted = good.withColumn("⌗nth", F.row_number().over(one_pass.orderBy("⌗seq", "⌗index")))
        most = counted.withColumn(
            "⌗copy",
            F.row_number().over(
                Window.partitionBy("⌗at", "⌗before_text", "⌗after_text", "⌗nth").orderBy(
                    "⌗seq", "⌗index"
                )
            ),
        )
        good = most.where("`⌗copy` = 1")
    good = good.observe(segment.outcome, F.count(F.lit(1)).alias("applied"))
    values = [F.col(quoted(c.name)) for c in segment.columns]
    each = F.array_compact(
        F.array(F.when(F.col("⌗has_old"), F.lit(-1)), F.when(F.col("⌗new"), F.lit(1)))
    )
    both = good.withColumn("⌗copies", F.explode(each))
    chosen = [
        F.when(F.col("⌗copies") < 0, F.col("⌗old").getField(c.name))
        .otherwise(F.col(quoted(c.name)))
        .alias(c.name)
        for c in segment.columns
    ]
    segment.result = (
        both.select(*chosen, "⌗copies", "⌗commit_ts")
        .groupBy(*values)
        .agg(F.sum("⌗copies").alias("⌗copies"), F.max("⌗commit_ts").alias(COMMIT_TS))
    )
    return segment.result


def repeated(counts: DataFrame) -> DataFrame:
    """Rows as often as they are counted."""
    times = F.sequence(F.lit(1), F.col("⌗copies").cast("int"))
    return counts.where("`⌗copies` > 0").withColumn("⌗copies", F.explode(times)).drop("⌗copies")


def recounted(rows: DataFrame, changes: DataFrame, columns: Sequence[DeltaColumn]) -> DataFrame:
    """A table's rows after a segment, where they have no key."""
    values = [F.col(quoted(c.name)) for c in columns]
    there = rows.withColumn("⌗copies", F.lit(1).cast("bigint"))
    joined = there.unionByName(changes).groupBy(*values)
    sums = joined.agg(F.sum("⌗copies").alias("⌗copies"), F.max(COMMIT_TS).alias(COMMIT_TS))
    return repeated(sums)


def replaced(rows: DataFrame, changes: DataFrame, columns: Sequence[DeltaColumn]) -> DataFrame:
    """The same as lines for `CurrentTable.merge`: rows that go, and rows that come.

    Only of what becomes fewer the table's own copies are looked for.
    """
    fewer = changes.where("`⌗copies` < 0")
    affected = rows.join(fewer, same_values(rows, fewer, [c.name for c in columns]), "left_semi")
    come = recounted(affected, fewer, columns).unionByName(repeated(changes))
    gone = fewer.drop("⌗copies").withColumn("⌗put", F.lit(False))
    return gone.unionByName(come.withColumn("⌗put", F.lit(True)))


def sender_passes(events: DataFrame) -> DataFrame:
    """How often the sender had gone back in time before it sent a row, by `seq` and `index`."""
    sender = Window.partitionBy("source_of", "partition").orderBy("seq", "index")
    of_file = F.concat_ws("/", "schema_version", "table_id")
    named = events.withColumn(
        "source_of", F.when(F.col("partition").isNull(), of_file).otherwise(F.col("source"))
    )
    back = (F.col("commit_ts") < F.lag("commit_ts").over(sender)).cast("int")
    turned = named.withColumn("⌗back", F.coalesce(back, F.lit(0)))
    place = (F.col("seq").alias("⌗seq"), F.col("index").alias("⌗index"))
    return turned.select(*place, F.sum("⌗back").over(sender).alias("⌗pass"))
