"""The frames that all checks share.

A check follows the change: it looks at rows when they become pending, at tables when they change.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.range_log import RangeLog
from ticdc_assets.checks.invariants.row_conditions import (
    NAME_INTERVALS,
    POSITION,
    column_counts_differ,
    contains,
    ddl_order,
    fault_conditions,
    missing_key_columns,
)
from ticdc_assets.errors import ChecksumMismatch
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.events.repetition import event_digest
from ticdc_assets.lake.store.small_tables import read_table
from ticdc_assets.plan.state import Incarnation


@dataclass(eq=False)
class CheckContext(RangeLog):
    """A range of snapshots with the frames that checks share; closing it frees cached frames.

    `only` restricts `events` too.
    """

    _cached: list[DataFrame] = field(default_factory=list, init=False)
    _frames: dict[str, DataFrame] = field(default_factory=dict, init=False)

    def __enter__(self) -> "CheckContext":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for frame in self._cached:
            frame.unpersist()
        self._cached.clear()
        self._frames.clear()

    def read(self, table: str) -> DataFrame:
        """Read one of the lake's own tables, once for all checks: no run writes meanwhile."""
        if table not in self._frames:
            self._frames[table] = read_table(self.lake, table)
        return self._frames[table]

    def make_frame(self, rows: Sequence[tuple[object, ...]], columns: str) -> DataFrame:
        """Make a frame from rows that the driver holds."""
        return self.lake.spark.createDataFrame(rows, columns)

    # Input and quarantine

    @cached_property
    def ingested_counts(self) -> list[Row]:
        """What the range ingested, counted by batch, and for a folder by role."""
        keys = ("batch", "role") if self.feed.transport == "storage" else ("batch",)
        return self.read("raw").where(self.in_new_batches).groupBy(*keys).count().collect()

    @property
    def in_new_quarantine(self) -> str:
        """An SQL condition: quarantined from the range's batches, or while applying the range."""
        return f"({self.in_new_batches}) OR (stage = 'apply' AND commit_ts > {self.before.ts})"

    @cached_property
    def quarantine_counts(self) -> list[Row]:
        """The whole quarantine, counted by table, stage and error, and whether it is new."""
        groups = self.read("quarantine").groupBy(
            *("database", "table", "stage", "error"),
            F.expr(self.in_new_batches).alias("in_new_batches"),
            F.expr(f"coalesce({self.in_new_quarantine}, false)").alias("in_range"),
        )
        return groups.count().collect()

    # Events

    @cached_property
    def events(self) -> DataFrame:
        """The events that the range ingested or applied, without their row images.

        Conditions on images are computed here, in the one scan that reads them.  `is_pending` says
        that the range had the row to apply, `incarnation` to which table.
        """
        ts, before, after = F.col("commit_ts"), self.before, self.after
        is_new = F.col("batch") > before.batch
        chosen = self.read("events").where(
            (F.col("batch") <= after.batch) & (is_new | ts.between(before.ts, after.ts))
        )
        if self.only is not None:
            versions = (
                row for id in self.only for row in self.schema_versions_by_table.get(id, ())
            )
            names = {make_table_name(row["database"], row["table"]) for row in versions}
            chosen = chosen.where(F.col("name").isin(names))
        named = chosen.join(F.broadcast(self._make_name_intervals()), "name", "left")
        is_row = F.col("kind") == "row"
        is_pending = is_row & (ts <= after.ts) & (is_new | (ts > before.ts))
        interval = F.get(F.filter("intervals", contains(ddl_order())), F.lit(0))
        frame = named.withColumn("interval", F.when(is_row, interval)).select(
            *("batch", "seq", "index", "kind", "name", "database", "table", "op", "commit_ts"),
            *("ordering", "schema_version", "source", "partition", "number", "error"),
            F.expr(POSITION),
            F.coalesce(is_pending, F.lit(False)).alias("is_pending"),
            F.col("interval.incarnation").alias("incarnation"),
            F.col("before").isNotNull().alias("has_old"),
            F.col("after").isNotNull().alias("has_new"),
            F.col("observed").isNotNull().alias("has_observed"),
            F.when(is_pending, missing_key_columns()).alias("missing_key_columns"),
            F.when(is_pending & (F.col("op") == "update"), column_counts_differ()).alias(
                "column_counts_differ"
            ),
            F.when(is_row, event_digest()).alias("digest"),
            F.expr("if(kind = 'ddl', get_json_object(statement, '$.sql'), NULL) AS sql"),
        )
        cached = frame.persist()
        self._cached.append(cached)
        return cached

    @cached_property
    def pending_rows(self) -> DataFrame:
        """Rows that the range applied, quarantined, or recognized as repetitions."""
        return self.events.where("is_pending")

    @cached_property
    def event_counts(self) -> list[Row]:
        """The events of the range counted by their properties; pending rows also by fault.

        `is_late` says that a row's commit ts had been applied before the range.
        """
        is_row = F.col("kind") == "row"
        is_in_time = (F.col("commit_ts") > self.before.ts) | (F.col("ordering") == "table_version")
        groups = self.events.groupBy(
            *("kind", "name", "incarnation", "schema_version", "has_observed"),
            *("ordering", "is_pending"),
            F.when(~is_row, F.col("batch")).alias("batch"),
            F.when(is_row, ~F.coalesce(is_in_time, F.lit(False))).alias("is_late"),
            F.when(is_row, F.col("op") == "upsert").alias("is_upsert"),
        )
        faults = fault_conditions(self.feed)
        return groups.agg(
            F.count(F.lit(1)).alias("count"),
            F.min("commit_ts").alias("first_commit_ts"),
            F.min_by("position", "commit_ts").alias("position"),
            *(F.count_if(F.expr(sql)).alias(fault) for fault, sql in faults.items()),
        ).collect()

    @property
    def pending_counts(self) -> list[Row]:
        return [row for row in self.event_counts if row["is_pending"]]

    def _make_name_intervals(self) -> DataFrame:
        """Return per name which incarnation bore it when, and its handle key.

        Stopped tables are left out: what their later rows belong to is not known.
        """
        state = self.after.state
        intervals = defaultdict(list)
        for row in self.schema_versions:
            table = state.incarnations.get(row["incarnation"])
            if table is None or table.is_stopped or table.status_before_drop is not None:
                continue
            if row["valid_to"] is not None and row["valid_to"] <= self.before.ts:
                continue
            # Rows at the commit ts of a DDL, a load or a definition precede it; otherwise a table's
            # first known version begins with its first row.
            low = row["valid_from"] - (row["origin"] not in ("ddl", "load", "upstream"))
            name = make_table_name(row["database"], row["table"])
            intervals[name].append((row["incarnation"], low, row["valid_to"], row["key"]))
        return self.make_frame(list(intervals.items()), NAME_INTERVALS)

    @cached_property
    def inserts_and_deletes(self) -> dict[str, tuple[int, int]]:
        """By table, how many rows were inserted and deleted; a repeated row counts once."""
        by_commit_ts = f"ordering = 'commit_ts' AND commit_ts > {self.before.ts}"
        rows = self.pending_rows.where(f"{by_commit_ts} AND incarnation IS NOT NULL")
        once = rows.select("incarnation", "name", "op", "digest").distinct()
        counted = once.groupBy("incarnation").agg(
            F.count_if(F.col("op") == "insert").alias("inserts"),
            F.count_if(F.col("op") == "delete").alias("deletes"),
        )
        return {row[0]: (row[1], row[2]) for row in counted.collect()}

    @cached_property
    def uncountable_tables(self) -> set[str]:
        """Tables whose events do not determine how many rows were inserted and deleted."""
        return {
            row["incarnation"]
            for row in self.pending_counts
            if row["ordering"] != "commit_ts" or row["is_upsert"]
        }

    def has_quarantined_rows(self, table: Incarnation) -> bool:
        """Return whether rows of a table are, or may be, in the quarantine."""
        return bool(self._quarantined_names & {None, *self._names_of(table.id)})

    @cached_property
    def _quarantined_names(self) -> set[str | None]:
        tables = (
            (row["database"], row["table"])
            for row in self.quarantine_counts
            if row["error"] != ChecksumMismatch.__name__
        )
        return {
            database and table and make_table_name(database, table) for database, table in tables
        }
