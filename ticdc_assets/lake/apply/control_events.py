"""What new batches say beside rows: DDLs, schemas, watermarks; and up to where that resolves."""

from collections import defaultdict
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import (
    Bootstrap,
    FilePosition,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.lake.events.event_rows import make_table_name, read_statements
from ticdc_assets.lake.log.applied import Snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.state import State, ddl_name
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker, WatermarkState


@dataclass(frozen=True)
class ControlEvents:
    """What was said since a line of `applied`, up to and including a batch."""

    # Beyond the line's ts, or of just that ts, in order of arrival.
    ddls: tuple[SchemaChange, ...]
    # Each with the ts from which on its table was so at the earliest.
    bootstraps: tuple[tuple[int, Bootstrap], ...]
    # DDLs that came when their commit ts was applied, and had not come before.
    late: tuple[SchemaChange, ...]
    watermark_state: WatermarkState
    watermarks: dict[str, int]
    resolved_ts: int
    # Whether a DDL of the resolved ts itself may follow.
    more_may_come: bool


def read_control_events(lake: LakeSession, since: Snapshot, batch: int) -> ControlEvents:
    """Read what was said since a line of `applied`."""
    events = lake.read("events").where(F.col("batch") <= batch)
    fresh = F.col("batch") > since.batch
    said = events.where(
        F.col("kind").isin("ddl", "bootstrap", "watermark")
        & (fresh | ((F.col("kind") == "ddl") & (F.col("commit_ts") >= since.ts)))
    )
    rows = said.select(
        *("kind", "batch", "seq", "index", "commit_ts", "source", "partition", "number"),
        "statement",
    ).collect()
    rows.sort(key=lambda row: (row["seq"], row["index"]))
    told = _told(rows)
    ddls = [change for _, change in told if isinstance(change, SchemaChange)]
    late = [ddl for ddl in ddls if ddl.commit_ts < since.ts]
    progress = ResolvedTsTracker(lake.feed)
    progress.restore(since.state.watermarks)
    new = events.where(fresh)
    _hear(progress, lake.feed, [row for row in rows if row["batch"] > since.batch], told, new)
    resolved, more_may_come = progress.resolved_ts, lake.feed.transport != "storage"
    if resolved is None:
        # Nothing states how far the stream is complete: it is taken as it has come.
        newest = new.where(F.col("kind").isin("row", "ddl")).agg(F.max("commit_ts"))
        resolved, more_may_come = newest.collect()[0][0] or 0, False
    return ControlEvents(
        ddls=tuple(ddl for ddl in ddls if ddl.commit_ts >= since.ts),
        bootstraps=tuple(_dated(told, since.state)),
        late=tuple(_unknown(events, late, since.batch)),
        watermark_state=progress.state(),
        watermarks=progress.watermarks,
        resolved_ts=max(resolved, since.ts),
        more_may_come=more_may_come,
    )


def _told(rows: list[Row]) -> list[tuple[Row, SchemaChange | Bootstrap]]:
    stating = [row for row in rows if row["kind"] != "watermark"]
    return list(zip(stating, read_statements(row.asDict() for row in stating), strict=True))


def _hear(
    progress: ResolvedTsTracker,
    feed: Changefeed,
    new: list[Row],
    told: list[tuple[Row, SchemaChange | Bootstrap]],
    events: DataFrame,
) -> None:
    for row in new:
        if row["kind"] == "watermark":
            position = (
                FilePosition(row["source"])
                if row["partition"] is None
                else TopicPosition(row["source"], row["partition"], row["number"])
            )
            progress.observe([Watermark(ts=row["commit_ts"], position=position)])
    progress.observe(change for _, change in told)
    if feed.transport == "storage":
        return
    # A partition that rows came from can speak, though it has stated nothing yet.
    spoke = events.where(F.col("kind") == "row").groupBy("source", "partition", "database", "table")
    for row in spoke.agg(F.min("commit_ts").alias("first_ts")).collect():
        progress.observe_rows(*row)


def _dated(
    told: list[tuple[Row, SchemaChange | Bootstrap]], state: State
) -> list[tuple[int, Bootstrap]]:
    """Bootstraps by when their tables were so: after what their sender had said before."""
    heard: dict[tuple[str, int], int] = defaultdict(int)
    for topic, marks in state.watermarks.watermarks.items():
        for partition, ts in marks.items():
            heard[topic, partition] = ts
    dated: list[tuple[int, Bootstrap]] = []
    stated = set()
    for row, change in told:
        sender = row["source"], row["partition"]
        if isinstance(change, SchemaChange):
            heard[sender] = max(heard[sender], change.commit_ts)
            continue
        schema = change.schema
        name = make_table_name(schema.database, schema.table), schema.version
        if name in stated:
            continue
        stated.add(name)
        is_file = isinstance(change.position, FilePosition)
        since = (schema.version or 0) if is_file else heard[sender]
        dated.append((max(since, state.ts + 1), change))
    return dated


def _unknown(events: DataFrame, late: list[SchemaChange], batch: int) -> list[SchemaChange]:
    """DDLs of which nothing was told up to a batch."""
    if not late:
        return []
    before = events.where(
        (F.col("kind") == "ddl")
        & (F.col("batch") <= batch)
        & F.col("commit_ts").isin(sorted({ddl.commit_ts for ddl in late}))
    ).select("kind", "statement")
    known = read_statements(row.asDict() for row in before.collect())
    names = {(c.commit_ts, ddl_name(c)) for c in known if isinstance(c, SchemaChange)}
    return [ddl for ddl in late if (ddl.commit_ts, ddl_name(ddl)) not in names]


class StatedSchemas:
    """Finds the schemas that messages and files stated for versions of tables, whenever it was."""

    def __init__(self, lake: LakeSession, control: ControlEvents) -> None:
        self._events = lake.read("events")
        self._known: dict[tuple[str | None, int | None], TableSchema | None] = {}
        for ddl in control.ddls:
            self._remember(ddl.schema)
            self._remember(ddl.pre_schema)
        for _, bootstrap in control.bootstraps:
            self._remember(bootstrap.schema)

    def _remember(self, schema: TableSchema | None) -> None:
        if schema is not None and schema.table:
            self._known.setdefault(
                (make_table_name(schema.database, schema.table), schema.version), schema
            )

    def __call__(self, database: str, table: str, version: int | None) -> TableSchema | None:
        if version is None:
            return None
        name = make_table_name(database, table), version
        if name not in self._known:
            # A DDL that renames is told by the old name, and rows by the new one.
            told = self._events.where(
                F.col("kind").isin("ddl", "bootstrap") & (F.col("schema_version") == version)
            ).select("kind", "statement")
            for change in read_statements(row.asDict() for row in told.collect()):
                self._remember(change.schema)
            self._known.setdefault(name, None)
        return self._known[name]
