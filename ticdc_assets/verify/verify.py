"""Verify the current tables of a lake against the database upstream.

A run compares the tables of one snapshot, each at the ts up to which it is right.  TiDB reads any
TSO that its garbage collection has not passed; other servers only the present, so there the lake
has to be caught up, and rows whose difference is gone after the next window were in flight.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.log.applied_files import read_existing_snapshot, read_snapshot
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.verifications import (
    Difference,
    Results,
    RunProgress,
    TableProgress,
    TableVerification,
)
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.store.stored_rows import StoredRows, have_files
from ticdc_assets.upstream.snapshot import (
    SnapshotTooOld,
    TableUnreadable,
    TooMuchMemory,
    UpstreamSnapshot,
)
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.columns import KeyHidden, NotComparable, explain_unfinished, match_columns
from ticdc_assets.verify.narrowing import DifferentRow, compare_entries
from ticdc_assets.verify.rows import describe_differences
from ticdc_assets.verify.side import Side, Span
from ticdc_assets.verify.small_lake import SmallLake
from ticdc_assets.verify.table import (
    OpenTable,
    TableComparison,
    compare_table,
    start_comparison,
)
from ticdc_assets.verify.upstream_side import UpstreamSide
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.tables_at import TablesAt

if TYPE_CHECKING:
    from ticdc_assets.verify.spark_lake import SparkLake

# Values that this process holds of a small table at most.
_MOST_VALUES = 500_000
_MOST_BYTES = 8 << 20
_POLL_INTERVAL = 1.0
_TOO_OLD = (
    "TiDB no longer has the rows of this ts: bring the lake up to date with advance and verify"
    " again, or raise tidb_gc_life_time"
)


@dataclass(frozen=True)
class Environment:
    """What a run works on: the lake, Spark for tables that need it, and the database."""

    reader: LakeReader
    feed: Changefeed
    open_spark: Callable[[], LakeSession]
    open_upstream: Callable[[int], AbstractContextManager[UpstreamSnapshot]]
    with_values: bool = True
    # How long to wait for the next window where rows differ that may be in flight.
    wait_seconds: float = 60.0


# Called with the rows compared so far.
Show = Callable[[int], None]


def verify(
    environment: Environment, names: Sequence[str], show: Show
) -> Generator[TableVerification]:
    """Verify tables, by default all, and yield what was found; continue a run that was killed."""
    run = _Run(environment, names, show)
    yield from run.verify_all()
    run.results.progress.end()


class _Run:
    """One run over a snapshot."""

    def __init__(self, environment: Environment, names: Sequence[str], show: Show) -> None:
        self._environment = environment
        self._show = show
        # It raises an error before anything is written to a lake that is not for this program.
        last = read_existing_snapshot(environment.reader)
        self.results = Results(environment.reader.location)
        self.results.prepare()
        self._progress, self._known, self._snapshot = self._choose(last, names)
        self._session: LakeSession | None = None
        self._rows = 0

    def _choose(
        self, last: Snapshot, names: Sequence[str]
    ) -> tuple[RunProgress, dict[str, TableProgress], Snapshot]:
        """Continue the run that was killed, if it was over the same tables; else start one."""
        run, known = self.results.progress.read()
        if run is not None:
            snapshot = read_snapshot(self._environment.reader, run.snapshot_id)
            tables = self._select(last if names else snapshot, names)
            is_newest = run.snapshot_id == last.snapshot_id
            is_there = have_files(self._environment.reader, snapshot.versions, run.tables)
            can_continue = is_there and self._can_continue(snapshot, is_newest=is_newest)
            if self.results.is_left_of(run, tables) and can_continue:
                self.results.may_repeat = True
                return run, known, snapshot
        tables = self._select(last, names)
        run = RunProgress(f"{last.ts}-{secrets.token_hex(4)}", last.snapshot_id, tables)
        self.results.progress.keep(run, {})
        return run, {}, last

    def _select(self, snapshot: Snapshot, given: Sequence[str]) -> list[str]:
        """Return the tables of these names, or all, by id."""
        names = LakeNames(self._environment.reader, self._environment.feed, snapshot)
        return names.select(TablesAt(snapshot.ts, snapshot.state), given, "--table")

    def _can_continue(self, snapshot: Snapshot, *, is_newest: bool) -> bool:
        """Whether upstream reads what a killed run has read; without TiDB, it may have changed."""
        try:
            with self._environment.open_upstream(snapshot.ts) as upstream:
                return upstream.is_tidb
        except SnapshotTooOld:
            # Another run would not read more.
            return is_newest

    def verify_all(self) -> Iterator[TableVerification]:
        found_before = self.results.read_run(self._progress.run)
        yield from found_before
        done = {found.incarnation for found in found_before}
        left = [id for id in self._progress.tables if id not in done]
        tables = [self._snapshot.state.incarnations[id] for id in left]
        # Tables of one ts share their connections.
        moments = sorted({_choose_ts(table, self._snapshot) for table in tables}, reverse=True)
        for ts in moments:
            chosen = [table for table in tables if _choose_ts(table, self._snapshot) == ts]
            for found in self._verify_at(ts, chosen):
                self.results.add(found)
                self._known.pop(found.incarnation, None)
                yield found

    def _verify_at(self, ts: int, tables: Sequence[Incarnation]) -> Iterator[TableVerification]:
        """Verify tables at one ts."""
        remaining = list(tables)
        try:
            with self._environment.open_upstream(ts) as upstream:
                while remaining:
                    table = remaining[0]
                    found = self._verify_or_skip(table, self._begin(table, ts), upstream)
                    del remaining[0]
                    yield found
                    upstream.renew()
        except SnapshotTooOld:
            yield from (replace(self._begin(table, ts), reason=_TOO_OLD) for table in remaining)

    def _begin(self, table: Incarnation, ts: int) -> TableVerification:
        return TableVerification(
            run=self._progress.run,
            incarnation=table.id,
            database=table.schema.database,
            table=table.schema.table,
            resolved_ts=ts,
            verdict="skipped",
        )

    def _verify_or_skip(
        self, table: Incarnation, blank: TableVerification, upstream: UpstreamSnapshot
    ) -> TableVerification:
        start = time.monotonic()
        try:
            if table.is_stopped and not upstream.is_tidb:
                reason = f"it is {table.status}, and upstream only reads the present"
                found = replace(blank, reason=reason)
            elif not blank.resolved_ts:
                found = replace(blank, reason=f"it is {table.status} and was never applied")
            else:
                found = self._verify(table, blank, upstream)
        except KeyHidden as error:
            found = replace(blank, reason=str(error))
        except NotComparable as error:
            found = replace(blank, verdict="differs", reason=str(error))
        except (TableUnreadable, TooMuchMemory) as error:
            found = replace(blank, reason=error.reason)
        if found.verdict == "differs" and (ddl := explain_unfinished(table.schema, upstream)):
            found = replace(blank, reason=ddl)
        return replace(found, seconds=time.monotonic() - start)

    def _verify(
        self, table: Incarnation, blank: TableVerification, upstream: UpstreamSnapshot
    ) -> TableVerification:
        match = match_columns(table.schema, upstream)
        opened = self._open_table(table, self._snapshot)
        compared = start_comparison(opened, match, upstream, self._known.get(table.id))
        self._known[table.id] = compared.progress
        compare_table(compared, self._save, lambda rows: self._show(self._rows + rows))
        self._rows += compared.upstream_rows
        cause = _Causes(self._environment.reader, table)
        sides = compared.lake, compared.upstream
        differences = self._describe(compared, compared.different, sides, cause)
        reason = None if differences else _compare_counts(compared)
        found = replace(
            blank,
            verdict="differs" if differences or reason or not compared.complete else "equal",
            reason=reason,
            lake_rows=compared.lake_rows,
            upstream_rows=compared.upstream_rows,
            different_rows=len(differences),
            complete=compared.complete,
            spans=compared.spans,
            rows_summed=compared.upstream.summed,
            rows_sent=compared.upstream.sent,
            left_out=match.left_out,
            differences=tuple(differences),
        )
        if differences and not upstream.is_tidb:
            return self._recheck(table, found, compared, cause)
        return found

    def _describe(
        self,
        compared: TableComparison,
        different: Sequence[DifferentRow],
        sides: tuple[Side, Side],
        cause: "_Causes",
    ) -> list[Difference]:
        with_values = self._environment.with_values
        return describe_differences(
            compared.comparison, sides, different, cause.find, with_values=with_values
        )

    def _save(self) -> None:
        self.results.progress.keep(self._progress, self._known)

    def _open_table(self, table: Incarnation, snapshot: Snapshot) -> OpenTable:
        """Open a table at its Delta version in a snapshot: in this process if it is small."""
        reader, version = self._environment.reader, snapshot.versions.get(table.id)
        if version is None:
            return SmallLake(None, table.schema)
        stored = StoredRows(reader, f"current/{table.id}", version)
        rows = count_rows(reader, f"current/{table.id}", version)
        is_small = rows <= MANY_ROWS and rows * len(table.schema.columns) <= _MOST_VALUES
        if is_small and stored.size() <= _MOST_BYTES and not stored.unknown_features:
            return SmallLake(stored, table.schema)
        return self._open_with_spark(table, snapshot, rows)

    def _open_with_spark(self, table: Incarnation, snapshot: Snapshot, count: int) -> "SparkLake":
        from ticdc_assets.verify.spark_lake import SparkLake
        from ticdc_assets.views.large_tables import read_there

        if self._session is None:
            self._session = self._environment.open_spark()
        version = snapshot.versions[table.id]
        return SparkLake(*read_there(self._session, table, version, count))

    def _recheck(
        self,
        table: Incarnation,
        found: TableVerification,
        compared: TableComparison,
        cause: "_Causes",
    ) -> TableVerification:
        """Read again the rows that differ, after the next window: what is equal was in flight."""
        snapshot = self._wait_for_window()
        again = snapshot.state.incarnations.get(table.id)
        if snapshot.snapshot_id == self._snapshot.snapshot_id or again != table:
            return found
        comparison = compared.comparison
        places = sorted({row.position for row in compared.different})
        spans = [Span(position, position + 1) for position in places]
        with self._environment.open_upstream(snapshot.ts) as upstream:
            lake = self._open_table(again, snapshot).open(comparison)
            theirs = UpstreamSide(upstream, comparison)
            different = list(compare_entries(lake.list_entries(spans), theirs.list_entries(spans)))
            remaining = self._describe(compared, different, (lake, theirs), cause)
        return replace(
            found,
            verdict="differs" if remaining else "equal",
            different_rows=len(remaining),
            differences=tuple(remaining),
            in_flight=len(found.differences) - len(remaining),
        )

    def _wait_for_window(self) -> Snapshot:
        """Wait for a snapshot that is newer than the one that was compared."""
        until = time.monotonic() + self._environment.wait_seconds
        while True:
            snapshot = read_existing_snapshot(self._environment.reader)
            if snapshot.snapshot_id > self._snapshot.snapshot_id or time.monotonic() >= until:
                return snapshot
            time.sleep(_POLL_INTERVAL)


def _compare_counts(compared: TableComparison) -> str | None:
    """Return why a comparison that names no row finds no equality: the sides count other rows."""
    if compared.lake_rows == compared.upstream_rows:
        return None
    rows = f"rows: {compared.lake_rows:,} in the lake, {compared.upstream_rows:,} upstream"
    return f"{rows}, but none was found that differs: verify again"


class _Causes:
    """Finds the likely cause of differences in a table."""

    def __init__(self, reader: LakeReader, table: Incarnation) -> None:
        self._table = table
        self._reader = reader

    def find(self, what: str, columns: Sequence[ComparedColumn]) -> str:
        """Return the likely cause of a difference."""
        if self._table.shown_status != "live":
            return self._table.shown_status
        if what == "differs" and all(map(_has_limit, columns)):
            return "limit of a type"
        return "quarantined" if self._has_quarantined else "missed"

    @cached_property
    def _has_quarantined(self) -> bool:
        """Whether rows of the table are in the quarantine."""
        schema = self._table.schema
        name = (pc.field("database") == schema.database) & (pc.field("table") == schema.table)
        rows = self._reader.read(self._reader.open("quarantine"), ("batch",), name)
        return bool(rows.num_rows)


def _has_limit(column: ComparedColumn) -> bool:
    """Whether the lake may not know the exact value, because the stream does not state it."""
    return column.kind in ("enum", "set") and column.lake_type.elements is None


def _choose_ts(table: Incarnation, snapshot: Snapshot) -> int:
    """Return the ts up to which a table is right."""
    return (table.complete_ts or 0) if table.is_stopped else snapshot.ts
