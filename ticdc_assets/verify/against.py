"""Compare a copy that another pipeline has filled with the lake, or with the database upstream.

The copy is examined, and the original, as of one ts, is what it should equal: a row that the copy
lacks is missing, one that only the copy has is extra.  Tables and their names are the lake's.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from ticdc_assets.errors import ConfigError
from ticdc_assets.log.copy_progress import CopyProgress, CopyRun, CopyTableProgress
from ticdc_assets.log.verifications import Results, TableVerification, Verdict
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.snapshot import (
    SnapshotTooOld,
    TableUnreadable,
    TooMuchMemory,
    UpstreamError,
    UpstreamSnapshot,
)
from ticdc_assets.verify.batch_side import BatchSide
from ticdc_assets.verify.batches import Copy, SqlTable
from ticdc_assets.verify.columns import KeyHidden, NotComparable
from ticdc_assets.verify.copy_columns import CopyMatch, match_batches, match_sql
from ticdc_assets.verify.copy_table import (
    SLICES,
    CopyComparison,
    choose_ranges,
    choose_spans,
    compare_copy,
)
from ticdc_assets.verify.lake_rows import OnlySpark
from ticdc_assets.verify.original import LakeOriginal, Original, OriginalTable
from ticdc_assets.verify.rows import describe_differences
from ticdc_assets.verify.side import UnitSide
from ticdc_assets.verify.upstream_original import UpstreamOriginal, UpstreamRows
from ticdc_assets.verify.upstream_side import UpstreamSide
from ticdc_assets.views.asof import AsOfView, as_of
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.tables_at import TablesAt

_NO_TABLE = "the copy has no table of this name"
_NO_ORIGINAL = "upstream has no such table at this TSO, or the user may not read it"
Show = Callable[[int], None]
OpenSnapshot = Callable[[int | None], AbstractContextManager[UpstreamSnapshot]]


@dataclass(frozen=True)
class AgainstEnvironment:
    """What a run works on: the lake and the copy, as of which ts, and how much of it.

    Without `ts`, it is that of the newest snapshot; `share` is that of the keys to compare.  With
    `open_upstream`, the copy is compared with that database, without `ts` as it is now.
    """

    lake: LakeSession
    copy: Copy
    ts: int | None = None
    share: float = 1.0
    with_values: bool = True
    open_upstream: OpenSnapshot | None = None


def verify_copy(
    environment: AgainstEnvironment, names: Sequence[str], show: Show
) -> Iterator[TableVerification]:
    """Compare tables, by default all, and yield what was found; continue a run that was killed."""
    with ExitStack() as opened:
        run = _Run(environment, names, show, opened)
        yield from run.compare_all()
        run.progress.end()


class _Run:
    """One run over a copy."""

    def __init__(
        self,
        environment: AgainstEnvironment,
        names: Sequence[str],
        show: Show,
        opened: ExitStack,
    ) -> None:
        self._environment = environment
        self._show = show
        self._opened = opened
        # It raises an error before anything is written to a lake that is not for this program.
        self._view = as_of(environment.lake, None if self._is_direct else environment.ts)
        tables = self._select(self._view, names)
        self.results = Results(environment.lake.location)
        self.progress = CopyProgress(environment.lake.location)
        self._run, self._known, self._original = self._choose(tables)
        self._rows = 0

    @property
    def _is_direct(self) -> bool:
        """Whether the copy is compared with the database."""
        return self._environment.open_upstream is not None

    def _select(self, view: AsOfView, given: Sequence[str]) -> list[str]:
        """Return the tables of these names, or all, by id."""
        lake = self._environment.lake
        names = LakeNames.open(LakeReader(lake.location), lake.declaration)
        return names.select(TablesAt(view.ts, view.state), given, "--table")

    def _choose(self, tables: list[str]) -> tuple[CopyRun, dict[str, CopyTableProgress], Original]:
        """Continue the run that was killed, if it compared the same; else start one."""
        environment = self._environment
        run, known = self.progress.read()
        count = _count_slices(environment.share)
        copy, names = environment.copy.shown, [*map(str, environment.copy.templates)]
        same = (copy, names, tables, self._is_direct)
        if run is not None and (run.against, run.names, run.tables, run.upstream) == same:
            is_as_large = (None if run.slices is None else len(run.slices)) == count
            if is_as_large and environment.ts in (None, run.ts):
                original = self._open_again(run.ts)
                if original is not None:
                    self.results.prepare()
                    self.results.may_repeat = True
                    return run, known, original
        original = self._open(environment.ts)
        self.results.prepare()
        slices = None if count is None else sorted(random.sample(range(SLICES), count))
        id = f"{original.ts}-{secrets.token_hex(4)}"
        run = CopyRun(id, copy, original.ts, tables, slices, names, self._is_direct)
        self.progress.keep(run, {})
        return run, {}, original

    def _open_again(self, ts: int) -> Original | None:
        """Open what a run that was killed compared; None if TiDB no longer has it."""
        try:
            return self._open(ts)
        except SnapshotTooOld:
            return None

    def _open(self, ts: int | None) -> Original:
        """Open what the copy is compared with."""
        open_upstream = self._environment.open_upstream
        if open_upstream is not None:
            snapshot = self._opened.enter_context(open_upstream(ts))
            return UpstreamOriginal(snapshot, self._environment.lake.feed)
        if ts not in (None, self._view.ts):
            self._view = as_of(self._environment.lake, ts)
        return LakeOriginal(self._view)

    def compare_all(self) -> Iterator[TableVerification]:
        found_before = self.results.read_run(self._run.run)
        yield from found_before
        done = {found.incarnation for found in found_before}
        for id in self._run.tables:
            if id not in done:
                found = self._compare_or_skip(self._view.state.incarnations[id])
                self.results.add(found)
                yield found

    def _compare_or_skip(self, table: Incarnation) -> TableVerification:
        start = time.monotonic()
        slices = self._run.slices
        blank = TableVerification(
            run=self._run.run,
            incarnation=table.id,
            database=table.schema.database,
            table=table.schema.table,
            resolved_ts=self._original.ts,
            verdict="skipped",
            against=self._run.against,
            compared_with="upstream" if self._is_direct else "lake",
            share=1.0 if slices is None else len(slices) / SLICES,
        )
        try:
            found = self._open_and_compare(table, blank)
        except (KeyHidden, OnlySpark, NotComparable) as error:
            found = replace(blank, reason=str(error))
        except (TableUnreadable, ConfigError) as error:
            # Errors of a copy name an option, and those of upstream a setting.
            is_of_copy = (error.setting or "").startswith("--")
            is_of_table = isinstance(error, TableUnreadable | TooMuchMemory)
            is_lost = isinstance(error, UpstreamError) and not is_of_table
            if is_lost and not is_of_copy:
                # Upstream is lost for all tables: the next run continues this one.
                raise
            found = replace(blank, reason=error.reason)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            found = replace(blank, reason=describe_error(error))
        if found.verdict == "differs" and (ddl := self._original.explain(table)):
            found = replace(blank, reason=ddl)
        return replace(found, seconds=time.monotonic() - start)

    def _open_and_compare(self, table: Incarnation, blank: TableVerification) -> TableVerification:
        database, name = table.schema.database, table.schema.table
        with self._environment.copy.open(database, name) as theirs:
            by_server = isinstance(theirs, SqlTable)
            ours = self._original.open(table, by_server=by_server)
            if ours is None:
                verdict: Verdict = "skipped" if theirs is None else "differs"
                return replace(blank, verdict=verdict, reason=_NO_ORIGINAL)
            if theirs is None:
                return replace(blank, verdict="differs", reason=_NO_TABLE)
            side: UnitSide
            if isinstance(theirs, SqlTable):
                match = match_sql(ours, theirs)
                side = UpstreamSide(theirs.snapshot, match.comparison)
            else:
                match = match_batches(ours, theirs)
                side = BatchSide(theirs, match.comparison, match.theirs)
            compared = self._compare(table, match, ours, side)
            found = _describe(compared, blank, match, self._original.cause, self._environment)
            if isinstance(theirs, SqlTable):
                return found
            return replace(found, bytes_read=theirs.bytes_read)

    def _compare(
        self, table: Incarnation, match: CopyMatch, ours: OriginalTable, theirs: UnitSide
    ) -> CopyComparison:
        our_side, rows = ours.open(match.comparison, match.ours), ours.count()

        def begin(slices: Sequence[int] | None) -> CopyComparison:
            spans = choose_spans(slices)
            parts = choose_ranges(rows, spans)
            return CopyComparison(match.comparison, our_side, theirs, spans, parts)

        def show(rows: int) -> None:
            self._show(self._rows + rows)

        compared = begin(self._run.slices)
        compared.take_up(self._known.pop(table.id, None))
        compare_copy(
            compared, lambda: self.progress.keep(self._run, {table.id: compared.encode()}), show
        )
        if self._run.slices is not None and not compared.our_rows + compared.their_rows:
            # It has few rows, if any, and none in the sample.
            compared = begin(None)
            compare_copy(compared, lambda: None, show)
        self._rows += compared.their_rows
        return compared


def _describe(
    compared: CopyComparison,
    blank: TableVerification,
    match: CopyMatch,
    cause: str,
    environment: AgainstEnvironment,
) -> TableVerification:
    differences = describe_differences(
        match.comparison,
        (compared.ours, compared.theirs),
        compared.different,
        lambda what, columns: cause,
        with_values=environment.with_values,
    )
    sides = compared.our_rows, compared.their_rows
    reason = None
    if not differences and sides[0] != sides[1]:
        reason = "the copy has another number of rows, and changed while it was read"
    summed, sent = _count_cost(compared)
    return replace(
        blank,
        verdict="differs" if differences or reason or not compared.complete else "equal",
        reason=reason,
        share=1.0 if compared.is_whole else blank.share,
        lake_rows=compared.our_rows,
        upstream_rows=compared.their_rows,
        different_rows=len(differences),
        complete=compared.complete,
        spans=compared.ranges,
        rows_summed=summed,
        rows_sent=sent,
        left_out=match.left_out,
        differences=tuple(differences),
    )


def _count_cost(compared: CopyComparison) -> tuple[int, int]:
    """Count the rows that a server read for sums, and those that it sent: upstream, or the copy."""
    for side in (compared.ours, compared.theirs):
        if isinstance(side, UpstreamSide):
            return side.summed, side.sent
        if isinstance(side, BatchSide) and isinstance(side.source, UpstreamRows):
            return 0, side.source.sent
    return compared.their_rows, 0


def _count_slices(share: float) -> int | None:
    """Return how many ranges of hashes are compared; None for all."""
    return None if share >= 1 else max(round(share * SLICES), 1)
