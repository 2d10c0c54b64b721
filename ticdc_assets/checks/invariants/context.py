"""What checks look at: the window that was applied, and its frames, each read once for all checks.

A check follows the change: rows are looked at when they fall due, tables when they have changed.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.row_conditions import (
    LIVES,
    PLACE,
    faults,
    lacking,
    lives_at,
    place,
    uneven,
)
from ticdc_assets.errors import ChecksumMismatch
from ticdc_assets.lake.events.event_rows import table_name
from ticdc_assets.lake.log.applied import Snapshot, read_snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.state import Incarnation


@dataclass(frozen=True)
class SnapshotRange:
    """What one or more runs applied: the lines of `applied` after `since`, up to `through`.

    From line 0 on it is everything there is, which makes a full check.
    """

    since: int
    through: int

    @property
    def is_whole(self) -> bool:
        return self.since == 0

    @property
    def is_empty(self) -> bool:
        return self.through <= self.since


class CheckContext:
    """A window with the frames that checks share; leave it, and Spark gives up what it kept.

    Where it is about some `tables` only, there are no events of others in it.
    """

    def __init__(
        self,
        lake: LakeSession,
        window: SnapshotRange,
        tables: Collection[str] | None = None,
    ) -> None:
        self.lake = lake
        self.feed = lake.feed
        self.window = window
        self._only = tables
        self._kept: list[DataFrame] = []

    def __enter__(self) -> "CheckContext":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def read(self, table: str) -> DataFrame:
        return self.lake.read(table)

    def frame(self, rows: Sequence[tuple[object, ...]], columns: str) -> DataFrame:
        """What was found out on the driver, as a frame like any other."""
        return self.lake.spark.createDataFrame(rows, columns)

    @cached_property
    def before(self) -> Snapshot:
        """The lake before the window."""
        return read_snapshot(self.lake, self.window.since)

    @cached_property
    def after(self) -> Snapshot:
        """The lake after the window."""
        return read_snapshot(self.lake, self.window.through)

    @cached_property
    def lines(self) -> list[Row]:
        """The lines of the window, and the one before them, in their order."""
        since, through = self.window.since, self.window.through
        told = self.read("applied").where(f"seq BETWEEN {since} AND {through}").orderBy("seq")
        return told.select(
            "seq", "resolved_ts", "batch", "watermarks", "versions", "counts", "replays"
        ).collect()

    @property
    def new_lines(self) -> list[Row]:
        return [line for line in self.lines if line["seq"] > self.window.since]

    @cached_property
    def replayed(self) -> set[str]:
        """Tables that the window replayed: their counts speak of earlier windows too."""
        lines = [line for line in self.new_lines if line["replays"] is not None]
        return {count["incarnation"] for line in lines for count in line["counts"] or ()} | {
            incarnation for line in lines for incarnation in line["versions"] or ()
        }

    @property
    def has_replays(self) -> bool:
        return any(line["replays"] is not None for line in self.new_lines)

    @property
    def new_batches(self) -> str:
        """An SQL condition for what came in with the window."""
        return f"batch > {self.before.batch} AND batch <= {self.after.batch}"

    @property
    def words(self) -> str:
        """The window as a person reads it."""
        before, after = self.before, self.after
        if self.window.is_whole:
            return f"everything up to commit ts {after.ts}, batch {after.batch}"
        return (
            f"commit ts {before.ts} to {after.ts}, batches {before.batch + 1} to {after.batch}"
            f" (lines {self.window.since + 1} to {self.window.through} of applied)"
        )

    # What came, and what was refused of it

    @cached_property
    def taken(self) -> list[Row]:
        """What came in with the window, counted by batch, and for a folder by role."""
        kinds = ("batch", "role") if self.feed.transport == "storage" else ("batch",)
        return self.read("raw").where(self.new_batches).groupBy(*kinds).count().collect()

    @property
    def refused_here(self) -> str:
        """An SQL condition for what the window refused, or was refused as it came in with it."""
        return f"({self.new_batches}) OR (stage = 'apply' AND commit_ts > {self.before.ts})"

    @cached_property
    def refused(self) -> list[Row]:
        """All that was ever refused, counted by table, stage and error, and whether it is new."""
        told = self.read("quarantine").groupBy(
            *("database", "table", "stage", "error"),
            F.expr(self.new_batches).alias("is_new"),
            F.expr(f"coalesce({self.refused_here}, false)").alias("is_here"),
        )
        return told.count().collect()

    # The events

    @cached_property
    def events(self) -> DataFrame:
        """Events that came in, or were due, in the window, without their images.

        What checks ask of images is worked out here, in the one scan that reads them: `has_old`,
        `has_new`, `lacking` (columns of the key), `uneven` (an update whose images differ in their
        columns), `digest`.  `due` says that the window applied the row, `incarnation` to what.
        """
        ts, before, after = F.col("commit_ts"), self.before, self.after
        came = F.col("batch") > before.batch
        chosen = self.read("events").where(
            (F.col("batch") <= after.batch) & (came | ts.between(before.ts, after.ts))
        )
        if self._only is not None:
            lines = (line for id in self._only for line in self.versions_of.get(id, ()))
            names = {table_name(line["database"], line["table"]) for line in lines}
            chosen = chosen.where(F.col("name").isin(names))
        told = chosen.join(F.broadcast(self._lives()), "name", "left")
        is_row = F.col("kind") == "row"
        due = is_row & (ts <= after.ts) & (came | (ts > before.ts))
        life = F.get(F.filter("lives", lives_at(place())), F.lit(0))
        frame = told.withColumn("life", F.when(is_row, life)).select(
            *("batch", "seq", "index", "kind", "name", "database", "table", "op", "commit_ts"),
            *("ordering", "schema_version", "source", "partition", "number", "error"),
            F.expr(PLACE),
            F.coalesce(due, F.lit(False)).alias("due"),
            F.col("life.incarnation").alias("incarnation"),
            F.col("before").isNotNull().alias("has_old"),
            F.col("after").isNotNull().alias("has_new"),
            F.col("observed").isNotNull().alias("has_observed"),
            F.col("checksum").isNotNull().alias("has_checksum"),
            F.when(due, lacking()).alias("lacking"),
            F.when(due & (F.col("op") == "update"), uneven()).alias("uneven"),
            F.when(is_row, F.xxhash64("op", "commit_ts", "before", "after")).alias("digest"),
            F.expr("if(kind = 'ddl', get_json_object(statement, '$.sql'), NULL) AS sql"),
        )
        kept = frame.persist()
        self._kept.append(kept)
        return kept

    @cached_property
    def due(self) -> DataFrame:
        """Rows that the window applied, refused, or found to be sent again."""
        return self.events.where("due")

    @cached_property
    def tally(self) -> list[Row]:
        """The events of the window counted by what they are, for all who only need numbers.

        Of rows that were due also how many have which fault.
        """
        is_row = F.col("kind") == "row"
        fresh = (F.col("commit_ts") > self.before.ts) | (F.col("ordering") == "table_version")
        of = self.events.groupBy(
            *("kind", "name", "incarnation", "schema_version", "has_observed", "has_checksum"),
            *("ordering", "due"),
            F.when(~is_row, F.col("batch")).alias("batch"),
            F.when(is_row, fresh).alias("fresh"),
            F.when(is_row, F.col("op") == "upsert").alias("upserts"),
        )
        return of.agg(
            F.count(F.lit(1)).alias("count"),
            F.min("commit_ts").alias("first_commit_ts"),
            F.min_by("place", "commit_ts").alias("place"),
            *(F.count_if(F.expr(sql)).alias(fault) for fault, sql in faults(self.feed).items()),
        ).collect()

    @property
    def counted_due(self) -> list[Row]:
        return [row for row in self.tally if row["due"]]

    @cached_property
    def history(self) -> list[Row]:
        """Every version of every table's schema, but for the schema itself."""
        lines = self.read("schema_history").where("incarnation <> ''")
        return lines.select(
            *("incarnation", "database", "table", "valid_from", "valid_to", "schema_version"),
            *("came_from", "sql", "key"),
        ).collect()

    @cached_property
    def versions_of(self) -> dict[str, list[Row]]:
        """The same by incarnation."""
        versions: dict[str, list[Row]] = defaultdict(list)
        for line in self.history:
            versions[line["incarnation"]].append(line)
        return dict(versions)

    def _lives(self) -> DataFrame:
        """By name, from when to when it was which table's, and with which key.

        Tables that are stopped are left out: nothing is known of what has become of them.
        """
        state = self.after.state
        lives = defaultdict(list)
        for line in self.history:
            table = state.incarnations.get(line["incarnation"])
            if table is None or table.is_stopped or table.status_before_drop is not None:
                continue
            if line["valid_to"] is not None and line["valid_to"] <= self.before.ts:
                continue
            # Rows at a DDL's ts come before it; of a table that was there already they are the
            # first that is known.
            low = line["valid_from"] - (line["came_from"] != "ddl")
            name = table_name(line["database"], line["table"])
            lives[name].append((line["incarnation"], low, line["valid_to"], line["key"]))
        return self.frame(list(lives.items()), LIVES)

    # The tables

    @cached_property
    def schemas(self) -> dict[str, str]:
        """The newest schema of every table that the window changed, as JSON."""
        ids = [table.id for table in self.named if self.has_changed(table)]
        lines = self.read("schema_history").where(F.col("incarnation").isin(ids))
        newest = F.max_by("schema", F.struct("valid_from", F.col("valid_to").isNull()))
        return {row[0]: row[1] for row in lines.groupBy("incarnation").agg(newest).collect()}

    @cached_property
    def named(self) -> list[Incarnation]:
        """The tables that are there."""
        state = self.after.state
        ids = [id for _, id in state.names if self._only is None or id in self._only]
        return [state.incarnations[id] for id in ids]

    @cached_property
    def row_changes(self) -> dict[str, tuple[int, int]]:
        """By table, how many rows were inserted and deleted, however often that was sent."""
        by_commit_ts = f"ordering = 'commit_ts' AND commit_ts > {self.before.ts}"
        once = (
            self.due.where(f"{by_commit_ts} AND incarnation IS NOT NULL")
            .select("incarnation", "name", "op", "digest")
            .distinct()
        )
        counted = once.groupBy("incarnation").agg(
            F.count_if(F.col("op") == "insert").alias("inserts"),
            F.count_if(F.col("op") == "delete").alias("deletes"),
        )
        return {row[0]: (row[1], row[2]) for row in counted.collect()}

    @cached_property
    def undated(self) -> set[str]:
        """Tables with row events of which it is not known when or what they were."""
        rows = [row for row in self.counted_due if row["ordering"] != "commit_ts" or row["upserts"]]
        return {row["incarnation"] for row in rows}

    def has_refused_of(self, table: Incarnation) -> bool:
        """Whether rows of a table are, or may be, in the quarantine."""
        lines = self.versions_of.get(table.id, ())
        names = {table_name(line["database"], line["table"]) for line in lines}
        return bool(self._names_refused & {None, *names})

    @cached_property
    def _names_refused(self) -> set[str | None]:
        named = (
            (row["database"], row["table"])
            for row in self.refused
            if row["error"] != ChecksumMismatch.__name__
        )
        return {database and table and table_name(database, table) for database, table in named}

    def has_changed(self, table: Incarnation) -> bool:
        """Whether the window did anything to a table."""
        if self.window.is_whole or table.id in self.replayed:
            return True
        if self.before.state.incarnations.get(table.id) != table:
            return True
        return self.before.versions.get(table.id) != self.after.versions.get(table.id)
