"""The rows that all checks share.

A check follows the change: it looks at rows when they become pending, at tables when they change.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.event_facts import (
    EVENT_COLUMNS,
    EVENT_FACTS,
    FactReader,
    NameInterval,
)
from ticdc_assets.checks.invariants.queries import (
    GetColumn,
    KnownRows,
    Queries,
    Rows,
    choose_rows,
    is_above,
    map_rows,
)
from ticdc_assets.checks.invariants.range_log import RangeLog
from ticdc_assets.checks.invariants.row_faults import list_faults
from ticdc_assets.errors import ChecksumMismatch
from ticdc_assets.log.erasures import read_erasures
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import can_hold, open_frame


@dataclass(eq=False)
class CheckContext(RangeLog):
    """A range of snapshots with the rows that checks share; closing it frees cached frames.

    `only` restricts `events` too.
    """

    _cached: list[DataFrame] = field(default_factory=list, init=False)
    _opened: dict[str, DeltaTable] = field(default_factory=dict, init=False)

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

    def open(self, table: str) -> DeltaTable:
        """Open one of the lake's own tables, once for all checks: no run writes meanwhile."""
        if table not in self._opened:
            self._opened[table] = LakeReader(self.lake.location).open(table)
        return self._opened[table]

    def read(
        self, table: str, columns: Sequence[str], above: Mapping[str, int] | None = None
    ) -> Rows:
        """Read one of the lake's own tables: all rows, or those with a greater value in a column.

        Of several columns, it may be any.
        """
        reader, opened = LakeReader(self.lake.location), self.open(table)
        if can_hold(reader, opened, above):
            return reader.read(opened, columns, is_above(above, pc.field) if above else None)
        frame = open_frame(self.lake, table, opened.version())
        return (frame.where(is_above(above, F.col)) if above else frame).select(*columns)

    @cached_property
    def _queries(self) -> Queries:
        return Queries(self.lake)

    def query(self, sql: str, **rows: Rows) -> DataFrame | KnownRows:
        """Run a query over rows by name."""
        return self._queries.run(sql, **rows)

    # Input and quarantine

    @cached_property
    def ingested_counts(self) -> list[Row]:
        """What the range ingested, counted by batch, and for a folder by role."""
        keys = ("batch", "role") if self.feed.transport == "storage" else ("batch",)
        return self.query(
            f"SELECT {', '.join(keys)}, count(*) AS count FROM {{raw}} r"
            f" WHERE {self.in_new_batches} GROUP BY ALL",
            raw=self.read("raw", keys, {"batch": self.before.batch}),
        ).collect()

    @property
    def in_new_quarantine(self) -> str:
        """An SQL condition: quarantined from the range's batches, or while applying the range."""
        return f"({self.in_new_batches}) OR (stage = 'apply' AND commit_ts > {self.before.ts})"

    @cached_property
    def quarantine_counts(self) -> list[Row]:
        """The whole quarantine, counted by table, stage and error, and whether it is new."""
        columns = ("database", "table", "stage", "error", "batch", "commit_ts")
        return self.query(
            "SELECT q.database, q.table, q.stage, q.error, count(*) AS count,"
            f" {self.in_new_batches} AS in_new_batches,"
            f" coalesce({self.in_new_quarantine}, false) AS in_range"
            " FROM {quarantine} q GROUP BY ALL",
            quarantine=self.read("quarantine", columns),
        ).collect()

    # Events

    @cached_property
    def events(self) -> Rows:
        """The facts of the events that the range ingested or applied."""
        before, after = self.before, self.after
        names = None if self.only is None else [n for id in self.only for n in self._names_of(id)]

        def is_of_range(get: GetColumn) -> Any:
            ts = get("commit_ts")
            is_new = get("batch") > before.batch
            chosen = (get("batch") <= after.batch) & (
                is_new | ((ts >= before.ts) & (ts <= after.ts))
            )
            return chosen if names is None else chosen & get("name").isin(names)

        stored = self.read(
            "events", EVENT_COLUMNS, {"batch": before.batch, "commit_ts": before.ts - 1}
        )
        reader = FactReader(before.batch, before.ts, after.ts, self._find_name_intervals())
        facts = map_rows(choose_rows(stored, is_of_range), reader, EVENT_FACTS)
        if isinstance(facts, DataFrame):
            facts = facts.persist()
            self._cached.append(facts)
        return facts

    def query_events(self, sql: str) -> DataFrame | KnownRows:
        """Run a query over the facts of events, `{events}`."""
        return self.query(sql, events=self.events)

    @cached_property
    def event_counts(self) -> list[Row]:
        """The events of the range counted by their properties; pending rows also by fault.

        `is_late` says that a row's commit ts had been applied before the range.
        """
        is_in_time = f"commit_ts > {self.before.ts} OR ordering = 'table_version'"
        return self.query_events(
            "SELECT kind, name, incarnation, schema_version, has_observed, ordering, is_pending,"
            " CASE WHEN kind <> 'row' THEN batch END AS batch,"
            f" CASE WHEN kind = 'row' THEN NOT coalesce({is_in_time}, false) END AS is_late,"
            " CASE WHEN kind = 'row' THEN op = 'upsert' END AS is_upsert,"
            " count(*) AS count, min(commit_ts) AS first_commit_ts,"
            " min_by(position, commit_ts) AS position, "
            + ", ".join(
                f"CAST(count_if({condition}) AS BIGINT) AS {fault}"
                for fault, condition in list_faults(self.feed).items()
            )
            + " FROM {events} e GROUP BY ALL"
        ).collect()

    @property
    def pending_counts(self) -> list[Row]:
        return [row for row in self.event_counts if row["is_pending"]]

    def _find_name_intervals(self) -> dict[str, list[NameInterval]]:
        """Return per name which incarnation bore it when.

        Stopped tables are left out: what their later rows belong to is not known.
        """
        state = self.after.state
        intervals: dict[str, list[NameInterval]] = defaultdict(list)
        for row in self.schema_versions:
            table = state.incarnations.get(row["incarnation"])
            if table is None or table.is_stopped or table.status_before_drop is not None:
                continue
            if row["valid_to"] is not None and row["valid_to"] <= self.before.ts:
                continue
            # Rows at the commit ts of a DDL, a load or a definition precede it; otherwise a table's
            # first known version begins with its first row.
            low = row["valid_from"] - (row["origin"] not in ("ddl", "load", "upstream"))
            name = make_table_name(row["database"], row["table"]) or ""
            key = tuple(row["key"] or ())
            intervals[name].append(NameInterval(row["incarnation"], low, row["valid_to"], key))
        return dict(intervals)

    @cached_property
    def tables_with_erasures(self) -> set[str]:
        """Tables of which a row was erased at any time."""
        erasures = read_erasures(LakeReader(self.lake.location))
        return {id for erasure in erasures for id in erasure.incarnations}

    @cached_property
    def inserts_and_deletes(self) -> dict[str, tuple[int, int]]:
        """By table, how many rows were inserted and deleted; a repeated row counts once."""
        counted = self.query_events(
            "SELECT incarnation, CAST(count_if(op = 'insert') AS BIGINT) AS inserts,"
            " CAST(count_if(op = 'delete') AS BIGINT) AS deletes"
            " FROM (SELECT DISTINCT incarnation, name, op, digest FROM {events} e"
            f" WHERE is_pending AND ordering = 'commit_ts' AND commit_ts > {self.before.ts}"
            " AND incarnation IS NOT NULL) once GROUP BY incarnation"
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
