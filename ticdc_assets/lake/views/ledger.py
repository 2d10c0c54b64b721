"""The ledger: a recount of every input of the lake against what became of it.

Row events, per table name:

    input        rows in `events`
    applied      they decide what a row is at the end of their window, by the counts of `applied`;
                 a replay's counts replace those of the windows that it replayed
    superseded   a later event of the same window decides the row
    quarantined  they could not be applied and are in the quarantine
    waiting      not in any window yet: beyond the applied ts or batch, or of a table that is
                 waiting or paused, or was when it was dropped
    repeated     they arrived late and had arrived before, so they change nothing; of the rows in no
                 window, at most as many as there are such events count as repeated
    missing      input less all of these; negative if more was applied than arrived

The source: every data file has a `file` row or waits; every applied batch has a `batch` row, which
accounts for its records and schema files; every input that could not be decoded is in the
quarantine.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.events.repetition import is_same_event
from ticdc_assets.lake.log.applied import read_applied_rows
from ticdc_assets.lake.log.applied_row import RowCounts, TableCounts
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.state import Incarnation


@dataclass(frozen=True)
class TableLedger:
    """What became of the row events of one name."""

    name: str
    input: int
    applied: int
    superseded: int
    quarantined: int
    waiting: int
    repeated: int
    missing: int

    @property
    def adds_up(self) -> bool:
        return self.missing == 0


@dataclass(frozen=True)
class SourceLedger:
    """What became of the records or files of a changefeed."""

    what: str
    input: int
    decoded: int
    waiting: int
    quarantined: int
    # Contradictions, in words.
    faults: tuple[str, ...]

    @property
    def adds_up(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class Ledger:
    """The ledger of a changefeed."""

    source: SourceLedger
    tables: list[TableLedger]
    # Tables with rows upstream that were never input, and why.
    partial: list[tuple[str, str]]

    @property
    def adds_up(self) -> bool:
        return self.source.adds_up and all(table.adds_up for table in self.tables)


def build_ledger(lake: LakeSession, applied: Snapshot) -> Ledger:
    """Recount all input up to a snapshot."""
    return _Ledger(lake, applied).run()


class _Ledger:
    def __init__(self, lake: LakeSession, applied: Snapshot) -> None:
        self._lake = lake
        self._applied = applied
        self._events = lake.read("events")
        self._raw = lake.read("raw")
        self._quarantine = lake.read("quarantine")
        self._history = lake.read("schema_history")
        self._rows = read_applied_rows(lake, F.col("snapshot_id") <= applied.snapshot_id)

    def run(self) -> Ledger:
        counts, ahead = self._counts()
        input, waiting = self._input_and_waiting()
        late, strange = self._late()
        tables = []
        for name in sorted({*input, *counts}):
            rows = counts.get(name, RowCounts())
            arrived, waits = input.get(name, 0), waiting.get(name, 0) - ahead.get(name, 0)
            unread = arrived - waits - rows.read
            repeated = min(max(unread, 0), late.get(name, 0))
            # A window's own sum has to be right too.
            outcomes = rows.applied + rows.superseded + rows.quarantined
            missing = unread - repeated or rows.read - outcomes or strange.get(name, 0)
            tables.append(
                TableLedger(
                    *(name, arrived, rows.applied, rows.superseded, rows.quarantined),
                    *(waits, repeated, missing),
                )
            )
        quarantined = sum(rows.quarantined for rows in counts.values())
        return Ledger(self._source(quarantined), tables, self._partial())

    def _counts(self) -> tuple[dict[str, RowCounts], dict[str, int]]:
        """Return per name the counts that no replay replaced.

        And how many of these rows a stopped table had read in the window in which it stopped.
        """
        standing: list[tuple[int, TableCounts]] = []
        for row in self._rows:
            if row.replayed_from is not None:
                replaced = {count.incarnation for count in row.counts}
                standing = [
                    (id, count)
                    for id, count in standing
                    if not (count.incarnation in replaced and id > row.replayed_from)
                ]
            standing += [(row.snapshot_id, count) for count in row.counts]
        stops = {table.id: table.stopped_snapshot_id or 0 for table in self._stopped_tables()}
        sums: dict[str, RowCounts] = defaultdict(RowCounts)
        ahead: dict[str, int] = defaultdict(int)
        for snapshot_id, count in standing:
            sums[count.name] += count.rows
            if count.incarnation in stops and snapshot_id > stops[count.incarnation]:
                ahead[count.name] += count.rows.read
        return sums, ahead

    def _stopped_tables(self) -> list[Incarnation]:
        """Return the tables that are stopped, or were when they were dropped."""
        tables = self._applied.state.incarnations.values()
        return [
            table for table in tables if table.is_stopped or table.status_before_drop is not None
        ]

    def _partial(self) -> list[tuple[str, str]]:
        return sorted(
            (make_table_name(table.schema.database, table.schema.table) or "", reason)
            for table in self._applied.state.incarnations.values()
            if (reason := table.partial_reason) is not None and table.status != "dropped"
        )

    def _input_and_waiting(self) -> tuple[dict[str, int], dict[str, int]]:
        ts, batch = self._applied.ts, self._applied.batch
        waits = (F.col("commit_ts") > ts) | (F.col("batch") > batch)
        for name, after, through in self._stopped():
            beyond = F.col("commit_ts") > after
            waits = waits | ((F.col("name") == name) & beyond & (F.col("commit_ts") <= through))
        rows = self._events.where("kind = 'row'").groupBy("name")
        counts = rows.agg(F.count(F.lit(1)).alias("input"), F.count_if(waits).alias("waiting"))
        lines = counts.collect()
        return (
            {row["name"]: row["input"] for row in lines},
            {row["name"]: row["waiting"] for row in lines},
        )

    def _stopped(self) -> list[tuple[str, int, int]]:
        """Return names with the commit ts after which, and up to which, their rows wait."""
        state = self._applied.state
        stopped = [
            (make_table_name(u.database, u.table) or "", u.stopped_ts, state.ts)
            for u in state.unknown_tables
        ]
        tables = self._stopped_tables()
        if not tables:
            return stopped
        ids = [table.id for table in tables]
        called = self._history.where(F.col("incarnation").isin(ids)).select(
            "incarnation", "database", "table", "valid_from", "valid_to"
        )
        names = defaultdict(list)
        for row in called.collect():
            name = make_table_name(row["database"], row["table"]) or ""
            through = state.ts if row["valid_to"] is None else row["valid_to"]
            if through > row["valid_from"] or row["valid_to"] is None:
                names[row["incarnation"]].append((name, row["valid_from"], through))
        for table in tables:
            since, end = table.stopped_ts or 0, table.dropped_ts or state.ts
            own = make_table_name(table.schema.database, table.schema.table) or ""
            lives = names[table.id] or [(own, 0, end)]
            first = min(lives, key=lambda life: life[1])
            for life in lives:
                # Rows of the first life may be older than what is known of the table.
                low = since if life is first else max(since, life[1])
                stopped.append((life[0], low, min(end, life[2])))
        return stopped

    def _late(self) -> tuple[dict[str, int], dict[str, int]]:
        """Count late events per name: those that arrived before, and those that are new.

        New ones that a run has replayed are left out.
        """
        windows = [(0, 0)]
        windows += [(row.ts, row.snapshot_id) for row in self._rows if row.replayed_from is None]
        batches = {row.snapshot_id: row.batch for row in self._rows}
        replays = [
            (row.replayed_from, row.snapshot_id)
            for row in self._rows
            if row.replayed_from is not None
        ]
        spans = [
            (after_ts, ts, batches[id], any(start < id < end for start, end in replays))
            for (after_ts, _), (ts, id) in pairwise(windows)
            if ts > after_ts
        ]
        if not spans:
            return {}, {}
        frame = self._lake.spark.createDataFrame(
            spans, "after_ts long, ts long, line_batch long, replayed boolean"
        )
        considered = f"batch <= {self._applied.batch}"
        rows = self._events.where(f"kind = 'row' AND ordering <> 'table_version' AND {considered}")
        covered = F.expr("commit_ts > after_ts AND commit_ts <= ts AND batch > line_batch")
        late = rows.join(F.broadcast(frame), covered)
        if late.isEmpty():
            return {}, {}
        same = is_same_event("late", "known") & (F.col("known.batch") < F.col("late.batch"))

        def count_late(how: str) -> dict[str, int]:
            matches = late.alias("late").join(rows.alias("known"), same, how)
            if how == "left_anti":
                # Rows ordered by milliseconds are applied when they arrive, so they are never late.
                matches = matches.where("NOT replayed AND ordering = 'commit_ts'")
            return {row["name"]: row["count"] for row in matches.groupBy("name").count().collect()}

        return count_late("left_semi"), count_late("left_anti")

    # The source

    def _source(self, quarantined: int) -> SourceLedger:
        folder = "role" in self._raw.columns
        undecoded = self._events.where("kind = 'quarantined'").count()
        faults = self._batch_faults() + self._quarantine_faults(undecoded, quarantined)
        if folder:
            newest = self._raw.where("role IN ('data', 'changed data')").groupBy("path")
            last = (F.max("seq").alias("seq"), F.max_by("batch", "seq").alias("batch"))
            files = newest.agg(*last).alias("f")
            marks = self._events.where("kind = 'file'").alias("m")
            marked = files.join(marks, F.expr("m.source = f.path AND m.seq = f.seq"), "left")
            row = marked.selectExpr(
                "count(*) AS marks",
                "count(DISTINCT f.path) AS files",
                "count(m.seq) AS done",
                f"count_if(m.seq IS NULL AND f.batch <= {self._applied.decoded_batch}) AS lost",
            ).collect()[0]
            if row["lost"]:
                faults.append(f"{row['lost']} files were considered decoded, and are not marked")
            if row["marks"] != row["files"]:
                faults.append("a file is marked as decoded more than once")
            what, input, decoded = "data files", row["files"], row["done"]
        else:
            batches = self._events.where("kind = 'batch'").select("batch")
            what, input = "records", self._raw.count()
            decoded = self._raw.join(batches, "batch", "left_semi").count()
        return SourceLedger(what, input, decoded, input - decoded, undecoded, tuple(faults))

    def _batch_faults(self) -> list[str]:
        """Return applied batches without their `batch` row, and rows that are stored twice."""
        done = self._applied.batch
        marks = self._events.where("kind = 'batch'").groupBy("batch")
        marked = {r["batch"]: (r["count"], r["seq"]) for r in _with_seq(marks).collect()}
        ends = {r["batch"]: r["seq"] for r in _with_seq(self._raw.groupBy("batch")).collect()}
        faults = []
        for batch, seq in sorted(ends.items()):
            count, last = marked.get(batch, (0, seq))
            if not count and batch <= done:
                faults.append(f"batch {batch} was considered, and is not marked as decoded")
            elif count > 1:
                faults.append(f"batch {batch} is marked as decoded {count} times")
            elif last < seq:
                faults.append(f"batch {batch} ends beyond what is marked as decoded")
        twice = self._events.where("kind = 'row'").groupBy("batch", "seq", "index", "source")
        same = twice.count().where("count > 1").count()
        if same:
            faults.append(f"{same} row events are in the lake more than once")
        return faults

    def _quarantine_faults(self, undecoded: int, unapplied: int) -> list[str]:
        stages = self._quarantine.groupBy("stage").count().collect()
        kept: Mapping[str, int] = {row["stage"]: row["count"] for row in stages}
        faults = []
        if kept.get("decode", 0) != undecoded:
            held = kept.get("decode", 0)
            faults.append(
                f"{undecoded} inputs could not be decoded, and {held} are in the quarantine"
            )
        if kept.get("apply", 0) < unapplied:
            held = kept.get("apply", 0)
            faults.append(
                f"{unapplied} row events could not be applied, and {held} are in the quarantine"
            )
        return faults


def _with_seq(groups: GroupedData) -> DataFrame:
    return groups.agg(F.count(F.lit(1)).alias("count"), F.max("seq").alias("seq"))
