"""Apply events to the current tables, up to the resolved ts: windows, and replays before them.

`_Applier.run` is the story; the package's docstring states the order of one window.
"""

import dataclasses
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from msgspec.structs import replace

from ticdc_assets.lake.apply.below_fold import leave_out_below, quarantine_below
from ticdc_assets.lake.apply.control_events import ControlEvents, read_control_events
from ticdc_assets.lake.apply.definitions import fetch_definitions
from ticdc_assets.lake.apply.late_rows import find_late_rows
from ticdc_assets.lake.apply.quarantined_rows import (
    LifeOfName,
    Replayed,
    write_quarantined_rows,
)
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.lake.apply.window import PreparedWindow, has_files, prepare_window
from ticdc_assets.lake.apply.window_work import WindowWork
from ticdc_assets.log.applied import write_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.applied_row import RowCounts, TableCounts
from ticdc_assets.log.folds import find_valid_snapshot, read_first_snapshot
from ticdc_assets.log.schema_history import write_history, write_tables
from ticdc_assets.log.snapshot import Snapshot, decide_as
from ticdc_assets.plan.gaps import mark_gaps
from ticdc_assets.plan.plan import Plan, needs_layouts, needs_window_at_start, record_outcomes
from ticdc_assets.plan.replay import (
    Arrivals,
    ReplayRequest,
    choose_replay,
    choose_tables,
    join_replay,
    skip_requested_ddls,
    stated_tables,
)
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.rules import make_rules
from ticdc_assets.upstream.snapshot import OpenUpstream

# Called after each table with how many are done, and how many there are.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DecodedBatches:
    """The batches to apply: the newest one, and what of them is not decoded yet."""

    newest: int
    # No file of the batches up to this one waits to be decoded.
    complete_through: int
    undecoded_files: Collection[UndecodedFiles] = ()


@dataclass(frozen=True)
class ApplyResult:
    """What one apply did; `tables`, `rows` and `ddls` count work, including that of replays."""

    resolved_ts: int
    tables: int = 0
    rows: int = 0
    ddls: int = 0
    quarantined: int = 0
    replayed: int = 0
    problems: list[Problem] = field(default_factory=list)
    # The last one.
    snapshot: Snapshot = field(default_factory=Snapshot)


# Parameters: the lake, where it is, what is there; what a person or the owner adds, is optional.
def apply(
    lake: LakeSession,
    snapshot: Snapshot,
    batches: DecodedBatches,
    *,
    open_upstream: OpenUpstream | None = None,
    replay: ReplayRequest | None = None,
    progress: Progress | None = None,
) -> ApplyResult:
    """Bring the current tables from the last snapshot to the resolved ts of the batches.

    `open_upstream` opens the database upstream, where it is declared.
    """
    return _Applier(lake, batches, progress).run(snapshot, replay, open_upstream)


class _Applier:
    def __init__(
        self, lake: LakeSession, batches: DecodedBatches, progress: Progress | None
    ) -> None:
        self._lake = lake
        self._batches = batches
        self._progress = progress
        self._result = ApplyResult(0)

    def run(
        self,
        snapshot: Snapshot,
        request: ReplayRequest | None,
        open_upstream: OpenUpstream | None,
    ) -> ApplyResult:
        newest = self._batches.newest
        control = read_control_events(
            self._lake,
            snapshot,
            newest,
            self._batches.undecoded_files,
            only_new=request is None,
        )
        if open_upstream is not None:
            control, problems = fetch_definitions(self._lake, snapshot, control, open_upstream)
            self._result.problems.extend(problems)
        late_ddls = control.late_ddls
        control, problems = leave_out_below(control)
        self._result.problems.extend(problems)
        snapshot = self._replay(snapshot, control, request)
        control = dataclasses.replace(control, late_ddls=late_ddls)
        ts = control.resolved_ts
        if needs_window_at_start(snapshot.state, control.ddls, ts):
            snapshot = self._apply_window(snapshot, control, snapshot.ts, snapshot.batch)
        knows_more = request is not None and control.watermark_state != snapshot.state.watermarks
        layouts = self._lake.feed.layouts
        rules = make_rules(self._lake.feed)
        is_outdated = request is None and needs_layouts(snapshot.state, layouts, rules)
        if newest > snapshot.batch or ts > snapshot.ts or knows_more or is_outdated:
            snapshot = self._apply_window(snapshot, control, ts, newest)
        return dataclasses.replace(self._result, resolved_ts=snapshot.ts, snapshot=snapshot)

    def _apply_window(
        self, snapshot: Snapshot, control: ControlEvents, ts: int, batch: int
    ) -> Snapshot:
        """Apply everything from a snapshot to a ts, and write the next snapshot."""
        window = prepare_window(self._lake, snapshot, control, ts, batch, is_written=True)
        plan = window.plan
        with ThreadPoolExecutor(1) as beside:
            # The schema history depends on no row, so it is written meanwhile.
            history = beside.submit(write_history, self._lake, plan.history, snapshot.ts)
            work = self._apply_work(window, plan.work)
            history.result()
        below, ddls = quarantine_below(self._lake, control, snapshot, batch)
        work = work.with_counts(below)
        state = work.plan.state
        if batch == self._batches.newest:
            state = replace(state, watermarks=control.watermark_state)
        done = self._result
        self._result = dataclasses.replace(
            done, ddls=done.ddls + len(plan.history), quarantined=done.quarantined + ddls
        )
        return self._write_snapshot(snapshot, control, state, batch, work)

    def _replay(
        self, snapshot: Snapshot, control: ControlEvents, request: ReplayRequest | None
    ) -> Snapshot:
        """Replay what can continue now, or was applied without late events, up to the snapshot."""
        now = skip_requested_ddls(snapshot.state, request)
        snapshot = dataclasses.replace(snapshot, state=now)
        replay = choose_replay(now, self._find_arrivals(snapshot, control), request)
        if replay is None:
            return snapshot
        base_id = find_valid_snapshot(self._lake, replay.snapshot_id, replay.before_ts)
        base = read_snapshot(LakeReader(self._lake.location), base_id)
        if base.ts >= snapshot.ts and base.batch >= snapshot.batch:
            return snapshot
        window = self._prepare_replay(base, snapshot)
        chosen = choose_tables(replay, now, window.plan)
        if any(id in chosen and not has_files(self._lake, base, id) for id in base.versions):
            # Of a table that a load began, the work says what is missing.
            base = read_first_snapshot(LakeReader(self._lake.location))
            base_id = base.snapshot_id
            window = self._prepare_replay(base, snapshot)
            chosen = choose_tables(replay, now, window.plan)
        ids = [id for id in window.plan.work if id in chosen]
        work = self._apply_work(window, ids, replayed_after=base.ts)
        known = [now.incarnations[id] for id in sorted(chosen & now.incarnations.keys())]
        work = dataclasses.replace(
            work,
            outcomes=work.outcomes | {t.id: _replace_counts(t, work, base) for t in known},
            replayed_from=base_id,
        )
        state = join_replay(now, work.plan.state, chosen, snapshot.snapshot_id)
        history = [version for version in window.plan.history if version.incarnation in chosen]
        write_history(self._lake, history, base.ts)
        self._result = dataclasses.replace(
            self._result, replayed=self._result.replayed + len(chosen)
        )
        return self._write_snapshot(snapshot, control, state, snapshot.batch, work)

    def _prepare_replay(self, base: Snapshot, snapshot: Snapshot) -> PreparedWindow:
        """Prepare the window from an old snapshot up to the last one."""
        base = decide_as(base, snapshot)
        past = read_control_events(
            self._lake, base, self._batches.newest, self._batches.undecoded_files
        )
        # DDLs of the snapshot's own ts that arrived later are for the next window.
        ddls = tuple(ddl for ddl in past.ddls if snapshot.state.has_applied(ddl))
        past = dataclasses.replace(past, ddls=ddls)
        ts, batch = snapshot.ts, snapshot.batch
        return prepare_window(self._lake, base, past, ts, batch, is_written=True)

    def _find_arrivals(self, snapshot: Snapshot, control: ControlEvents) -> Arrivals:
        is_first = not snapshot.snapshot_id
        newest = self._batches.newest
        return Arrivals(
            stated=stated_tables(control.ddls, (b for _, b in control.bootstraps))
            | {key_of(each.schema) for each in (*control.definitions, *control.late_definitions)},
            late_rows=() if is_first else tuple(find_late_rows(control, snapshot, newest)),
            late_ddls=control.late_ddls,
            late_loads=control.late_loads,
            late_definitions=control.late_definitions,
            undecoded_files=control.undecoded_files,
        )

    def _apply_work(
        self, window: PreparedWindow, ids: Collection[str], replayed_after: int | None = None
    ) -> "_AppliedWork":
        """Do the work of tables; pause those that cannot continue."""
        done = 0

        def report() -> None:
            nonlocal done
            done += 1
            if self._progress is not None:
                self._progress(done, len(ids))

        outcomes = WindowWork(self._lake, window, report).run(ids)
        applied = [outcome for outcome in outcomes.values() if outcome.pause_reason is None]
        replayed = None
        if replayed_after is not None:
            replayed = Replayed(_list_lives(window.plan, outcomes), replayed_after)
        write_quarantined_rows(self._lake, applied, replayed)
        plan = record_outcomes(
            window.start.state,
            window.plan,
            {id: o.pause_reason for id, o in outcomes.items() if o.pause_reason is not None},
            [id for id, o in outcomes.items() if o.rows_in_wrong_partitions],
        )
        return _AppliedWork(plan, outcomes)

    # Parameters: what a snapshot consists of.
    def _write_snapshot(
        self,
        before: Snapshot,
        control: ControlEvents,
        state: State,
        batch: int,
        work: "_AppliedWork",
    ) -> Snapshot:
        state = mark_gaps(state, control.gaps)
        write_tables(self._lake, before, state, work.versions)
        snapshot = write_snapshot(
            self._lake,
            before,
            state,
            batch=batch,
            decoded_batch=min(batch, self._batches.complete_through),
            versions=work.versions,
            watermarks=control.watermarks,
            counts=work.counts,
            replayed_from=work.replayed_from,
        )
        done = self._result
        self._result = dataclasses.replace(
            done,
            tables=done.tables + len(work.versions),
            rows=done.rows + sum(count.rows.read for count in work.counts),
            quarantined=done.quarantined + sum(count.rows.quarantined for count in work.counts),
            problems=[*done.problems, *work.plan.problems],
        )
        return snapshot


@dataclass(frozen=True)
class _AppliedWork:
    """The plan with what the work showed, and what became of each table."""

    plan: Plan
    outcomes: dict[str, TableOutcome]
    # The snapshot that a replay started from.
    replayed_from: int | None = None

    def with_counts(self, counts: list[TableCounts]) -> "_AppliedWork":
        """Return the same with counts of events that are of no table."""
        if not counts:
            return self
        return dataclasses.replace(
            self, outcomes={**self.outcomes, "": TableOutcome(counts=counts)}
        )

    @property
    def versions(self) -> dict[str, int]:
        """Return the new Delta version of each table."""
        return {id: o.version for id, o in self.outcomes.items() if o.version is not None}

    @property
    def counts(self) -> list[TableCounts]:
        return [count for outcome in self.outcomes.values() for count in outcome.counts]


def _list_lives(plan: Plan, ids: Collection[str]) -> frozenset[LifeOfName]:
    """List under which names tables get rows, each with the time in which the table is there."""
    lives = set()
    for id in ids:
        table = plan.state.incarnations[id]
        for database, name in plan.work[id].event_names:
            lives.add(LifeOfName(database, name, table.created_ts, table.dropped_ts))
    return frozenset(lives)


def _replace_counts(table: Incarnation, work: _AppliedWork, base: Snapshot) -> TableOutcome:
    """Return the outcome of a replay for a table that has counts of former windows, if only zero.

    Without any work, whatever was applied to the table since is undone.
    """
    outcome = work.outcomes.get(table.id, TableOutcome(base.versions.get(table.id)))
    name = make_table_name(table.schema.database, table.schema.table) or ""
    return dataclasses.replace(
        outcome, counts=outcome.counts or [TableCounts(table.id, name, RowCounts())]
    )
