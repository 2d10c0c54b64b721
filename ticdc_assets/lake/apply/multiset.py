"""Tables without a key: how many copies of equal rows a segment adds or removes.

There are never fewer than no copies: a delete of a row that is not there takes nothing from a later
insert of it.  So besides the number of copies that a segment adds, `⌗lowest` counts how many it has
added (or, negative, removed) where they are fewest.
"""

from collections.abc import Sequence
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.keyed import PLACE, operation_order
from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.stopped_jobs import stop_job
from ticdc_assets.lake.apply.typed_rows import INVALID, KEY_ONLY, get_position
from ticdc_assets.lake.columns.expressions import any_of, combine_pairwise
from ticdc_assets.lake.columns.inexact import are_equal, get_column, get_from, has_value, identify
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, DeltaColumn
from ticdc_assets.stream.problem import OLD_ROW_MISSING


def count_changes(segment: Segment, rows: DataFrame, passes: DataFrame | None) -> DataFrame:
    """Return rows with the number of copies that a segment adds (or, negative, removes).

    `rows` is the table before the segment.
    """
    changed = list_changes(segment, rows, passes)
    values = [*map(get_column, segment.value_names)]
    if segment.step.inserts_only:
        lowest = changed.withColumn("⌗lowest", F.lit(0).cast("bigint"))
    else:
        so_far = Window.partitionBy(*values).orderBy(*operation_order(segment))
        lowest = changed.withColumn("⌗lowest", F.sum("⌗copies").over(so_far))
    segment.result = lowest.groupBy(*values).agg(
        F.sum("⌗copies").alias("⌗copies"),
        F.least(F.lit(0), F.min("⌗lowest")).alias("⌗lowest"),
        F.max("⌗commit_ts").alias(COMMIT_TS),
    )
    return segment.result


def list_changes(segment: Segment, rows: DataFrame, passes: DataFrame | None) -> DataFrame:
    """Return a row with each copy that a segment adds (`⌗copies` is 1) or removes (-1).

    A transaction's equal changes count as often as the sender sent them in one pass; `passes` has
    the pass of each event by `seq` and `index`.  Changes outside of transactions all count.  `rows`
    is the table before the segment.
    """
    good = segment.typed.where(~F.col(INVALID) & ~F.col(KEY_ONLY))
    if passes is not None:
        good = good.join(passes, ["⌗seq", "⌗index"])
        one_pass = Window.partitionBy("⌗order_ts", "⌗before_text", "⌗after_text", "⌗pass")
        counted = good.withColumn("⌗nth", F.row_number().over(one_pass.orderBy("⌗seq", "⌗index")))
        most = counted.withColumn(
            "⌗copy",
            F.row_number().over(
                Window.partitionBy("⌗order_ts", "⌗before_text", "⌗after_text", "⌗nth").orderBy(
                    "⌗seq", "⌗index"
                )
            ),
        )
        # A row can be overwritten only once.
        good = most.where(
            "NOT `⌗ordered_by_commit_ts` OR `⌗copy` = 1 AND (`⌗nth` = 1 OR NOT `⌗overwrites`)"
        )
    good = good.observe(segment.outcome, F.count(F.lit(1)).alias("applied"))
    new = F.struct(*map(get_column, segment.value_names))
    each = _copies((F.col("⌗has_old"), -1, F.col("⌗old")), (F.col("⌗new"), 1, new))
    changes = good.select(*PLACE, "⌗commit_ts", get_position(), "⌗overwrites", F.inline(each))
    if segment.overwrites:
        changes = _with_overwritten(segment, changes, rows)
    changed = changes.select(*PLACE, "`⌗row`.*", "⌗copies", "⌗commit_ts", "⌗position")
    return changed.withColumn("⌗put", F.col("⌗copies") > 0)


def _copies(*parts: tuple[Column, int, Column]) -> Column:
    """Return the rows whose condition holds, each with its number of copies."""
    changes = (
        F.when(holds, F.struct(F.lit(copies).alias("⌗copies"), row.alias("⌗row")))
        for holds, copies, row in parts
    )
    return F.array_compact(F.array(*changes))


def _with_overwritten(segment: Segment, changes: DataFrame, rows: DataFrame) -> DataFrame:
    """Add the removal of rows that updates without old values overwrite.

    The unique keys identify such a row: all of them agree, and at least one has no NULL.  It must
    exist since an earlier transaction; otherwise the update moved another row to this key, and
    the stream does not say which.
    """
    unique = list(dict.fromkeys(column for key in segment.unique_keys for column in key))
    row = F.col("⌗row")
    whole = F.struct(*map(get_column, segment.value_names)).alias("⌗row")
    wanted = changes.where("`⌗overwrites`").select("`⌗row`.*")
    is_wanted = are_equal(identify(unique, get_from(rows)), identify(unique, get_from(wanted)))
    overwritten = rows.join(wanted, is_wanted, "left_semi").select(
        *(F.lit(-1).alias("⌗order_ts"), F.lit(False).alias("⌗after_ddls")),
        F.lit(True).alias("⌗ordered_by_commit_ts"),
        *(F.lit(0).alias(name) for name in ("⌗seq", "⌗index", "⌗commit_ts")),
        F.lit(None).cast(changes.schema["⌗position"].dataType).alias("⌗position"),
        *(F.lit(False).alias("⌗overwrites"), F.lit(1).alias("⌗copies"), whole),
    )
    in_order = Window.partitionBy(*identify(unique, row.getField)).orderBy(
        *operation_order(segment)
    )
    both = changes.unionByName(overwritten).withColumn("⌗put", F.col("⌗copies") > 0)
    last = F.lag(F.struct("⌗put", "⌗order_ts", "⌗row")).over(in_order)
    both = both.withColumn("⌗last", last)
    put, before = F.col("⌗put"), F.col("⌗last")
    by = any_of(
        combine_pairwise(and_, [has_value(column, row.getField) for column in key])
        for key in segment.unique_keys
    )
    is_earlier = ~F.col("⌗ordered_by_commit_ts") | (before["⌗order_ts"] < F.col("⌗order_ts"))
    is_there = by & before["⌗put"] & is_earlier
    lost = F.concat(F.lit("at commit ts "), "⌗commit_ts", F.lit(f": {OLD_ROW_MISSING}"))
    old = F.when(F.coalesce(is_there, F.lit(False)), before["⌗row"]).otherwise(stop_job(lost))
    each = _copies(
        (F.col("⌗overwrites"), -1, old),
        (put, 1, F.col("⌗row")),
        (~put, -1, F.col("⌗row")),
    )
    kept = (*PLACE, "⌗commit_ts", "⌗position")
    return both.where("`⌗order_ts` >= 0").select(*kept, F.inline(each))


def repeat_rows(counts: DataFrame) -> DataFrame:
    """Return the rows of a table that had none of them before."""
    return _repeat(counts.withColumn("⌗copies", F.col("⌗copies") - F.col("⌗lowest")))


def _repeat(counts: DataFrame) -> DataFrame:
    """Return each row as many times as it is counted."""
    times = F.sequence(F.lit(1), F.col("⌗copies").cast("int"))
    counted = counts.where("`⌗copies` > 0").withColumn("⌗copies", F.explode(times))
    return counted.drop("⌗copies", "⌗lowest")


def recount_rows(rows: DataFrame, changes: DataFrame, columns: Sequence[DeltaColumn]) -> DataFrame:
    """Return the rows of a table without a key after a segment."""
    values = [get_column(name) for name in (*(c.name for c in columns), INEXACT)]
    zero, one = F.lit(0).cast("bigint"), F.lit(1).cast("bigint")
    existing = rows.withColumns({"⌗copies": one, "⌗lowest": zero, "⌗there": one})
    joined = existing.unionByName(changes.withColumn("⌗there", zero)).groupBy(*values)
    # What the deletes of rows that were not there took.
    missing = F.least(zero, F.sum("⌗there") + F.min("⌗lowest"))
    copies = (F.sum("⌗copies") - missing).alias("⌗copies")
    return _repeat(joined.agg(copies, F.max(COMMIT_TS).alias(COMMIT_TS)))


def list_replacements(
    rows: DataFrame, changes: DataFrame, columns: Sequence[DeltaColumn]
) -> DataFrame:
    """Return the changes in the form that `CurrentTable.merge` takes: removals and inserts.

    It reads the table's own copies only of rows that were fewer at any time.
    """
    fewer, never_fewer = changes.where("`⌗lowest` < 0"), changes.where("`⌗lowest` = 0")
    names = [*(column.name for column in columns), INEXACT]
    is_equal = are_equal([*map(get_from(rows), names)], [*map(get_from(fewer), names)])
    affected = rows.join(fewer, is_equal, "left_semi")
    come = recount_rows(affected, fewer, columns).unionByName(repeat_rows(never_fewer))
    gone = fewer.drop("⌗copies", "⌗lowest").withColumn("⌗put", F.lit(False))
    return gone.unionByName(come.withColumn("⌗put", F.lit(True)))


def number_sender_passes(events: DataFrame) -> DataFrame:
    """Return how often the sender had gone back in time before each row, by `seq` and `index`."""
    sender = Window.partitionBy("source_of", "partition").orderBy("seq", "index")
    of_file = F.concat_ws("/", "schema_version", "table_id")
    named = events.withColumn(
        "source_of", F.when(F.col("partition").isNull(), of_file).otherwise(F.col("source"))
    )
    back = (F.col("commit_ts") < F.lag("commit_ts").over(sender)).cast("int")
    turned = named.withColumn("⌗back", F.coalesce(back, F.lit(0)))
    place = (F.col("seq").alias("⌗seq"), F.col("index").alias("⌗index"))
    return turned.select(*place, F.sum("⌗back").over(sender).alias("⌗pass"))
