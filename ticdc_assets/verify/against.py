"""Compare tables of the lake, as of one ts, with a copy that another pipeline has filled.

The copy is examined, and the lake is what it is compared with: a row that the copy lacks is
missing, one that only the copy has is extra.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.log.copy_progress import CopyProgress, CopyRun, CopyTableProgress
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.snapshot import TableUnreadable
from ticdc_assets.verify.batch_side import BatchSide
from ticdc_assets.verify.batches import Copy, SqlTable
from ticdc_assets.verify.columns import KeyHidden, NotComparable
from ticdc_assets.verify.copy_columns import CopyMatch, match_batches, match_sql
from ticdc_assets.verify.copy_table import (
    SLICES,
    CopyComparison,
    Tally,
    choose_ranges,
    choose_spans,
    compare_copy,
)
from ticdc_assets.verify.lake_rows import LakeRows, OnlySpark
from ticdc_assets.verify.rows import describe_differences
from ticdc_assets.verify.upstream_side import UpstreamSide
from ticdc_assets.views.asof import AsOfView, as_of
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.tables_at import TablesAt

_NO_TABLE = "the copy has no table of this name"
_CAUSE = "`why` shows how the lake came to have its row"
Show = Callable[[int], None]


@dataclass(frozen=True)
class AgainstEnvironment:
    """What a run works on: the lake and the copy, as of which ts, and how much of it.

    Without `ts`, it is that of the newest snapshot; `share` is that of the keys to compare.
    """

    lake: LakeSession
    copy: Copy
    ts: int | None = None
    share: float = 1.0
    with_values: bool = True


def verify_copy(
    environment: AgainstEnvironment, names: Sequence[str], show: Show
) -> Iterator[TableVerification]:
    """Compare tables, by default all, and yield what was found; continue a run that was killed."""
    run = _Run(environment, names, show)
    yield from run.compare_all()
    run.progress.end()


class _Run:
    """One run over a copy."""

    def __init__(self, environment: AgainstEnvironment, names: Sequence[str], show: Show) -> None:
        self._environment = environment
        self._show = show
        # It raises an error before anything is written to a lake that is not for this program.
        newest = as_of(environment.lake, environment.ts)
        tables = self._select(newest, names)
        self.results = Results(environment.lake.location)
        self.results.prepare()
        self.progress = CopyProgress(environment.lake.location)
        self._run, self._known, self._view = self._choose(newest, tables)
        self._rows = 0

    def _select(self, view: AsOfView, given: Sequence[str]) -> list[str]:
        """Return the tables of these names, or all, by id."""
        lake = self._environment.lake
        names = LakeNames.open(LakeReader(lake.location), lake.declaration)
        return names.select(TablesAt(view.ts, view.state), given, "--table")

    def _choose(
        self, newest: AsOfView, tables: list[str]
    ) -> tuple[CopyRun, dict[str, CopyTableProgress], AsOfView]:
        """Continue the run that was killed, if it compared the same; else start one."""
        environment = self._environment
        run, known = self.progress.read()
        count = _count_slices(environment.share)
        copy, names = environment.copy.shown, [*map(str, environment.copy.templates)]
        if run is not None and (run.against, run.names, run.tables) == (copy, names, tables):
            is_as_large = (None if run.slices is None else len(run.slices)) == count
            if is_as_large and environment.ts in (None, run.ts):
                self.results.may_repeat = True
                view = newest if run.ts == newest.ts else as_of(environment.lake, run.ts)
                return run, known, view
        slices = None if count is None else sorted(random.sample(range(SLICES), count))
        id = f"{newest.ts}-{secrets.token_hex(4)}"
        run = CopyRun(id, copy, newest.ts, tables, slices, names)
        self.progress.keep(run, {})
        return run, {}, newest

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
            resolved_ts=self._view.ts,
            verdict="skipped",
            against=self._run.against,
            share=1.0 if slices is None else len(slices) / SLICES,
        )
        try:
            found = self._open_and_compare(table, blank)
        except (KeyHidden, OnlySpark, NotComparable) as error:
            found = replace(blank, reason=str(error))
        except (TableUnreadable, ConfigError) as error:
            found = replace(blank, reason=error.reason)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            found = replace(blank, reason=describe_error(error))
        return replace(found, seconds=time.monotonic() - start)

    def _open_and_compare(self, table: Incarnation, blank: TableVerification) -> TableVerification:
        if table.is_stopped:
            at = describe_ts(self._view.ts)
            return replace(blank, reason=f"it is {table.status}, so the lake lacks rows of {at}")
        database, name = table.schema.database, table.schema.table
        with self._environment.copy.open(database, name) as theirs:
            if theirs is None:
                return replace(blank, verdict="differs", reason=_NO_TABLE)
            ours = LakeRows(self._view, table)
            if isinstance(theirs, SqlTable):
                match = match_sql(table.schema, ours, theirs)
                side = UpstreamSide(theirs.snapshot, match.comparison)
                return self._compare(table, blank, match, (ours, side))
            match = match_batches(table.schema, ours, theirs)
            assert match.theirs is not None
            batches = BatchSide(theirs, match.comparison, match.theirs)
            found = self._compare(table, blank, match, (ours, batches))
            return replace(found, bytes_read=theirs.bytes_read)

    def _compare(
        self,
        table: Incarnation,
        blank: TableVerification,
        match: CopyMatch,
        sides: tuple[LakeRows, BatchSide | UpstreamSide],
    ) -> TableVerification:
        ours, theirs = sides
        spans = choose_spans(self._run.slices)
        compared = CopyComparison(
            match.comparison,
            BatchSide(ours, match.comparison, match.ours),
            theirs,
            spans,
            choose_ranges(self._view.count(table), spans),
            Tally(ours.state),
            Tally(theirs.source.state if isinstance(theirs, BatchSide) else None),
        )
        compared.take_up(self._known.pop(table.id, None))

        def save() -> None:
            self.progress.keep(self._run, {table.id: compared.encode()})

        compare_copy(compared, save, lambda rows: self._show(self._rows + rows))
        self._rows += compared.their_rows
        return _describe(compared, blank, match, with_values=self._environment.with_values)


def _describe(
    compared: CopyComparison, blank: TableVerification, match: CopyMatch, *, with_values: bool
) -> TableVerification:
    differences = describe_differences(
        match.comparison,
        (compared.ours, compared.theirs),
        compared.different,
        lambda what, columns: _CAUSE,
        with_values=with_values,
    )
    sides = compared.our_rows, compared.their_rows
    reason = None
    if not differences and sides[0] != sides[1]:
        reason = "the copy has another number of rows, and changed while it was read"
    by_server = compared.theirs if isinstance(compared.theirs, UpstreamSide) else None
    return replace(
        blank,
        verdict="differs" if differences or reason or not compared.complete else "equal",
        reason=reason,
        lake_rows=compared.our_rows,
        upstream_rows=compared.their_rows,
        different_rows=len(differences),
        complete=compared.complete,
        spans=compared.ranges,
        rows_summed=compared.their_rows if by_server is None else by_server.summed,
        rows_sent=0 if by_server is None else by_server.sent,
        left_out=match.left_out,
        differences=tuple(differences),
    )


def _count_slices(share: float) -> int | None:
    """Return how many ranges of hashes are compared; None for all."""
    return None if share >= 1 else max(round(share * SLICES), 1)
