"""What the protocols promise of order: watermarks that only grow, and what precedes what."""

from bisect import bisect_left
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Result, Violations, promise
from ticdc_assets.checks.invariants.rows import ROW_COLUMNS
from ticdc_assets.lake.events.repetition import event_digest
from ticdc_assets.protocols.registry import get_ordering, get_traits

_DECREASE = ("snapshot_id", "partition", "ts_before", "ts")
_LATE = (*ROW_COLUMNS, "resolved_before")
_MISSING_DDL = ("database", "table", "commit_ts", "sql", "source", "missing_in_partitions")
_VERSION_DECREASE = ("database", "table", "valid_from", "schema_version", "version_before", "sql")


@promise("checkpoints", "ERROR", blocking=True)
def resolved_ts_is_monotonic(context: CheckContext) -> Result:
    """The resolved ts, and the watermark of each partition, never decreases.

    A sender that restarts repeats smaller watermarks; they are ignored.
    """
    decreases: list[tuple[object, ...]] = []
    for one, other in pairwise(context.snapshots):
        number = other.snapshot_id
        if other.ts < one.ts:
            decreases.append((number, "all", one.ts, other.ts))
        watermarks = other.watermarks
        decreases += [
            (number, partition, ts, watermarks.get(partition))
            for partition, ts in sorted(one.watermarks.items())
            if watermarks.get(partition, -1) < ts
        ]
    return Violations(_DECREASE, decreases)


def _has_commit_ts(feed: Changefeed) -> bool:
    return get_ordering(feed) == "commit_ts"


@promise("events", "WARN", applies_to=_has_commit_ts)
def no_new_rows_below_resolved_ts(context: CheckContext) -> Result:
    """Once a resolved ts is applied, no new row arrives with a commit ts up to and including it.

    A late row that arrived before is a repetition.  Any other was missing from the tables until
    now; the lake has replayed them.
    """
    is_one_snapshot = len(context.new_snapshots) == 1
    if is_one_snapshot and not any(
        row["kind"] == "row" and row["is_late"] for row in context.event_counts
    ):
        return Violations(_LATE)
    rows = context.events.where("kind = 'row' AND ordering = 'commit_ts'")
    resolved = F.broadcast(_resolved_ts_before_batches(context))
    late = rows.join(resolved, "batch").where("commit_ts <= resolved_before")
    bounds = late.agg(F.min("commit_ts"), F.max("commit_ts"), F.max("batch")).collect()[0]
    if bounds[0] is None:
        return Violations(_LATE)
    if context.feed.transport == "storage":
        # A file that waited for its schema file arrived in time: its rows are not late.
        files = context.read("raw").selectExpr("seq", "batch AS ingested")
        late = late.join(files, "seq").where("ingested = batch")
    known = (
        context.read("events")
        .where(f"kind = 'row' AND commit_ts BETWEEN {bounds[0]} AND {bounds[1]}")
        .where(f"batch < {bounds[2]}")
        .select("name", "commit_ts", "batch", event_digest().alias("digest"))
    )
    same = F.expr(
        "late.name = known.name AND late.commit_ts = known.commit_ts"
        " AND late.digest = known.digest AND known.batch < late.batch"
    )
    new = late.alias("late").join(known.alias("known"), same, "left_anti")
    return new.select(*_LATE)


def _resolved_ts_before_batches(context: CheckContext) -> DataFrame:
    """Return the resolved ts that was applied when each batch was ingested."""
    snapshots = sorted((row.batch, row.ts) for row in context.snapshots)
    batches = [batch for batch, _ in snapshots]
    greatest: list[int] = []
    for _, ts in snapshots:
        greatest.append(max(ts, greatest[-1] if greatest else 0))
    rows: list[tuple[object, ...]] = []
    for batch in range(context.before.batch + 1, context.after.batch + 1):
        position = bisect_left(batches, batch)
        if position:
            rows.append((batch, greatest[position - 1]))
    return context.make_frame(rows, "batch bigint, resolved_before bigint")


def _has_ordered_files(feed: Changefeed) -> bool:
    one_node = not feed.enable_table_across_nodes
    return feed.transport == "storage" and _has_commit_ts(feed) and one_node


@promise("events", "WARN", applies_to=_has_ordered_files)
def commit_ts_is_monotonic_per_file(context: CheckContext) -> Result:
    """Within one data file, commit ts never decrease.

    From one file to the next they may, as rows are repeated after a restart; and within one file
    where several nodes write a table.
    """
    in_file = SparkWindow.partitionBy("source", "seq").orderBy("number")
    rows = context.pending_rows.where("ordering = 'commit_ts'")
    ordered = rows.withColumn("commit_ts_before", F.lag("commit_ts").over(in_file))
    return ordered.where("commit_ts < commit_ts_before").select(*ROW_COLUMNS, "commit_ts_before")


@promise("events", "WARN", applies_to=lambda feed: get_traits(feed).sends_ddl_to_all_partitions)
def ddl_reaches_all_partitions(context: CheckContext) -> Result:
    """Simple and Open Protocol send every DDL to all partitions of its topic.

    Canal-JSON sends it to partition 0 only.  A partition must have it once its watermark is beyond
    the DDL's commit ts; at exactly that ts the two come in either order.
    """
    if not any(row["kind"] == "ddl" for row in context.event_counts):
        return Violations(_MISSING_DDL)
    watermarks = context.snapshots[-1].watermarks if context.snapshots else {}
    places = [(*name.rpartition("-")[::2], ts) for name, ts in watermarks.items()]
    partitions = context.make_frame(
        [(topic, int(number), ts) for topic, number, ts in places],
        "source string, partition int, watermark bigint",
    )
    ddls = context.events.where(
        f"kind = 'ddl' AND commit_ts >= {context.before.ts} AND commit_ts < {context.after.ts}"
    )
    ddl = ("source", "commit_ts", "sql", "database", "table")
    sent = ddls.groupBy(*ddl).agg(F.collect_set("partition").alias("sent_to"))
    expected = sent.join(F.broadcast(partitions), "source").where("watermark > commit_ts")
    lacking = expected.where(~F.array_contains("sent_to", F.col("partition")))
    missing = lacking.groupBy(*ddl).agg(
        F.sort_array(F.collect_list("partition")).alias("partitions")
    )
    text = F.array_join(F.col("partitions").cast("array<string>"), ", ")
    return missing.withColumn("missing_in_partitions", text).select(*_MISSING_DDL)


@promise("events", "WARN")
def schema_versions_increase(context: CheckContext) -> Result:
    """The schema version of a table never decreases from one DDL to the next.

    In Simple, RENAME keeps it; in the storage sink it is the DDL's commit ts.
    """
    decreases: list[tuple[object, ...]] = []
    for versions in context.schema_versions_by_table.values():
        numbered = [row for row in versions if row["schema_version"] is not None]
        # A version that ends where it begins was superseded by a later DDL of the same commit ts.
        numbered.sort(
            key=lambda row: (
                row["valid_from"],
                row["valid_to"] is None,
                row["valid_to"],
                row["schema_version"],
            )
        )
        for one, other in pairwise(numbered):
            before = one["schema_version"]
            if other["schema_version"] < before and other["valid_from"] >= context.before.ts:
                values = {**other, "version_before": before}
                decreases.append(tuple(values[name] for name in _VERSION_DECREASE))
    return Violations(_VERSION_DECREASE, decreases)
