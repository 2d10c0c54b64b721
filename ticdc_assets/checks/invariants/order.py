"""What the protocols promise of time: watermarks that only grow, and what comes before which."""

from bisect import bisect_left
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Found, Violations, promise
from ticdc_assets.checks.invariants.rows import SHOWN
from ticdc_assets.protocols.registry import get_ordering, get_traits

_BACK = ("line", "partition", "ts_before", "ts")
_LATE = (*SHOWN, "resolved_before")
_ABSENT = ("database", "table", "commit_ts", "sql", "source", "not_in_partitions")
_FALLEN = ("database", "table", "valid_from", "schema_version", "version_before", "sql")


@promise("checkpoints", "ERROR", blocking=True)
def resolved_ts_is_monotonic(scene: CheckContext) -> Found:
    """The resolved ts, and the watermark of each partition, is never taken back.

    A sender that starts again repeats smaller watermarks; they are ignored.
    """
    back: list[tuple[object, ...]] = []
    for one, other in pairwise(scene.lines):
        if other["resolved_ts"] < one["resolved_ts"]:
            back.append((other["seq"], "all", one["resolved_ts"], other["resolved_ts"]))
        now = other["watermarks"] or {}
        back += [
            (other["seq"], partition, ts, now.get(partition))
            for partition, ts in sorted((one["watermarks"] or {}).items())
            if now.get(partition, -1) < ts
        ]
    return Violations(_BACK, back)


@promise("events", "WARN", of=lambda feed: get_ordering(feed) == "commit_ts")
def no_new_rows_below_resolved_ts(scene: CheckContext) -> Found:
    """A watermark T says that every row with a commit ts up to T, itself included, has come.

    What comes later and has come before is a sender's repetition.  What has not was missing from
    the tables until now; the lake has replayed them.
    """
    at_once = len(scene.new_lines) == 1
    if at_once and not any(row["kind"] == "row" and not row["fresh"] for row in scene.tally):
        return Violations(_LATE)
    rows = scene.events.where("kind = 'row' AND ordering = 'commit_ts'")
    resolved = F.broadcast(_resolved_before(scene))
    late = rows.join(resolved, "batch").where("commit_ts <= resolved_before")
    bounds = late.agg(F.min("commit_ts"), F.max("commit_ts"), F.max("batch")).collect()[0]
    if bounds[0] is None:
        return Violations(_LATE)
    if scene.feed.transport == "storage":
        # A file that waited for something of ours was there in time.
        waited = scene.read("raw").selectExpr("seq", "batch AS taken")
        late = late.join(waited, "seq").where("taken = batch")
    known = (
        scene.read("events")
        .where(f"kind = 'row' AND commit_ts BETWEEN {bounds[0]} AND {bounds[1]}")
        .where(f"batch < {bounds[2]}")
        .select(
            *("name", "commit_ts", "batch"),
            F.xxhash64("op", "commit_ts", "before", "after").alias("digest"),
        )
    )
    same = F.expr(
        "late.name = known.name AND late.commit_ts = known.commit_ts"
        " AND late.digest = known.digest AND known.batch < late.batch"
    )
    strange = late.alias("late").join(known.alias("known"), same, "left_anti")
    return strange.select(*_LATE)


def _resolved_before(scene: CheckContext) -> DataFrame:
    """By batch, what was resolved when it was taken in."""
    lines = sorted((line["batch"], line["resolved_ts"]) for line in scene.lines)
    batches = [batch for batch, _ in lines]
    greatest: list[int] = []
    for _, ts in lines:
        greatest.append(max(ts, greatest[-1] if greatest else 0))
    found: list[tuple[object, ...]] = []
    for batch in range(scene.before.batch + 1, scene.after.batch + 1):
        place = bisect_left(batches, batch)
        if place:
            found.append((batch, greatest[place - 1]))
    return scene.frame(found, "batch bigint, resolved_before bigint")


def _has_ordered_files(feed: Changefeed) -> bool:
    nodes = feed.enable_table_across_nodes
    return feed.transport == "storage" and get_ordering(feed) == "commit_ts" and not nodes


@promise("events", "WARN", of=_has_ordered_files)
def commit_ts_is_monotonic_per_file(scene: CheckContext) -> Found:
    """Within a data file commit ts do not fall.

    Not promised from one file to the next (after a restart rows come again), nor where several
    nodes write a table.
    """
    of_files = Over.partitionBy("source", "seq").orderBy("number")
    rows = scene.due.where("ordering = 'commit_ts'")
    told = rows.withColumn("commit_ts_before", F.lag("commit_ts").over(of_files))
    return told.where("commit_ts < commit_ts_before").select(*SHOWN, "commit_ts_before")


@promise("events", "WARN", of=lambda feed: get_traits(feed).sends_ddl_to_all_partitions)
def ddl_reaches_all_partitions(scene: CheckContext) -> Found:
    """Simple and Open Protocol send every DDL to all partitions of its topic.

    Canal-JSON sends it to partition 0 alone.  A partition has sent it when its watermark is beyond
    the DDL's commit ts; at just that ts the two come in either order.
    """
    if not any(row["kind"] == "ddl" for row in scene.tally):
        return Violations(_ABSENT)
    marks = scene.lines[-1]["watermarks"] or {} if scene.lines else {}
    places = [(*name.rpartition("-")[::2], ts) for name, ts in marks.items()]
    partitions = scene.frame(
        [(topic, int(number), ts) for topic, number, ts in places],
        "source string, partition int, watermark bigint",
    )
    ddls = scene.events.where(
        f"kind = 'ddl' AND commit_ts >= {scene.before.ts} AND commit_ts < {scene.after.ts}"
    )
    one = ("source", "commit_ts", "sql", "database", "table")
    sent = ddls.groupBy(*one).agg(F.collect_set("partition").alias("seen"))
    wanted = sent.join(F.broadcast(partitions), "source").where("watermark > commit_ts")
    lacking = wanted.where(~F.array_contains("seen", F.col("partition")))
    missing = lacking.groupBy(*one).agg(F.sort_array(F.collect_list("partition")).alias("absent"))
    absent = F.array_join(F.col("absent").cast("array<string>"), ", ")
    return missing.withColumn("not_in_partitions", absent).select(*_ABSENT)


@promise("events", "WARN")
def schema_versions_increase(scene: CheckContext) -> Found:
    """A table's schema version never falls from one DDL to the next.

    RENAME leaves it as it is in Simple; in the storage sink it is the DDL's commit ts.
    """
    fallen: list[tuple[object, ...]] = []
    for lines in scene.versions_of.values():
        stated = [line for line in lines if line["schema_version"] is not None]
        # One that ends where it begins was followed by another statement of its ts, or by none.
        stated.sort(
            key=lambda one: (
                one["valid_from"],
                one["valid_to"] is None,
                one["valid_to"],
                one["schema_version"],
            )
        )
        for one, other in pairwise(stated):
            before = one["schema_version"]
            if other["schema_version"] < before and other["valid_from"] >= scene.before.ts:
                said = {**other.asDict(), "version_before": before}
                fallen.append(tuple(said[name] for name in _FALLEN))
    return Violations(_FALLEN, fallen)
