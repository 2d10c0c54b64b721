"""A lake in memory: the real plan and the real choice of replays, over plain Python tables.

It does only what the lake does with Spark: keep events and snapshots, and do the work on rows.
States pass through JSON, as they do in the applied log.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from dataclasses import replace as replace_schema
from datetime import UTC, datetime

from msgspec.structs import replace

from tests.plan.arrived import EventLog, group_key, group_rows
from tests.plan.work_in_memory import StoredTable, WorkInMemory, store
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Event, Quarantined, RowChange, SchemaChange, TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.plan.ddl_cuts import find_cuts
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.plan.load import Load, name_loaded_incarnation
from ticdc_assets.plan.plan import (
    Plan,
    WindowEvents,
    make_plan,
    needs_window_at_start,
    record_outcomes,
)
from ticdc_assets.plan.replay import (
    Arrivals,
    Replay,
    ReplayRequest,
    choose_replay,
    choose_tables,
    join_replay,
    skip_requested_ddls,
)
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.state import DdlName, State
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker
from ticdc_assets.stream.rules import StreamRules, make_rules


@dataclass(frozen=True)
class Snapshot:
    """A state as JSON, the last batch it covers, and its tables."""

    state: str
    batch: int
    tables: dict[str, StoredTable]


@dataclass
class Engine:
    """The lake; a replay can start at any of its snapshots."""

    rules: StreamRules = field(default_factory=StreamRules)
    feed: Changefeed | None = None
    now: State = field(default_factory=State)
    problems: list[Problem] = field(default_factory=list)
    undecoded_files: list[UndecodedFiles] = field(default_factory=list)
    replays: int = 0
    loads: list[Load] = field(default_factory=list)
    # The rows of each load, by its incarnation.
    loaded: dict[str, StoredTable] = field(default_factory=dict)
    definitions: list[Definition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = EventLog()
        self.tables: dict[str, StoredTable] = {}
        self.snapshots = {0: Snapshot(write_json(self.now), 0, {})}
        self.resolved_ts: int | None = 0

    @classmethod
    def of(cls, feed: Changefeed) -> "Engine":
        return cls(make_rules(feed), feed)

    @property
    def _batch(self) -> int:
        return self.snapshots[self.now.snapshot_id].batch

    @property
    def is_storage(self) -> bool:
        return self.feed is not None and self.feed.transport == "storage"

    def take(self, events: Iterable[Event]) -> None:
        """Add a batch of events."""
        events = list(events)
        self.log.add_batch(events, self.now.ts)
        for event in events:
            if isinstance(event, Quarantined):
                problem = Problem("quarantined", event.reason, position=event.position)
                self.problems.append(problem)
        if self.feed is not None:
            tracker = ResolvedTsTracker(self.feed)
            tracker.restore(self.now.watermarks)
            tracker.observe(events)
            self.resolved_ts = tracker.resolved_ts
            self.now = replace(self.now, watermarks=tracker.state())

    # Windows

    def advance(self, ts: int | None = None, *, more_may_come: bool | None = None) -> None:
        """Apply everything up to a ts; without one, up to the resolved ts."""
        if ts is None:
            ts, more = self.resolved_ts, not self.is_storage
            if ts is None:
                ts, more = self.log.last_ts(), False
            more_may_come = more if more_may_come is None else more_may_come
        ts, more_may_come = max(ts, self.now.ts), more_may_come is not False
        arrivals = self.log.arrivals(self.now, self._batch, self.undecoded_files)
        late = self._pending_loads(self.now, 0, self.now.ts)
        defined = self._pending_definitions(self.now, self.resolved_ts or ts)
        arrivals = replace(
            arrivals,
            late_loads=late,
            late_definitions=tuple(d for d in defined if d.ts < self.now.ts),
            stated=arrivals.stated | {key_of(d.schema) for d in defined},
        )
        self._replay(choose_replay(self.now, arrivals, None), more_may_come and ts == self.now.ts)
        if needs_window_at_start(self.now, self.log.pending_ddls(self.now), ts):
            self._apply_window(self.now.ts, self._batch, False)
        if self.log.batch > self._batch or ts > self.now.ts:
            self._apply_window(ts, self.log.batch, more_may_come)

    def _apply_window(self, ts: int, batch: int, more_may_come: bool) -> None:
        since, start = self.snapshots[self.now.snapshot_id], self.now
        ddls = self.log.pending_ddls(start)
        plan = self._plan(start, since.batch, ts, batch, ddls, more_may_come)
        plan = self._run(plan, start, since, batch, plan.work)
        self.problems += plan.problems
        self._write_snapshot(plan.state, batch)

    def _plan(
        self,
        start: State,
        since: int,
        ts: int,
        batch: int,
        ddls: Collection[SchemaChange],
        more_may_come: bool,
    ) -> Plan:
        rows = self.log.pending_rows(start, since, ts=ts, through_batch=batch)

        def sample(group: RowGroup) -> RowChange:
            return next(
                row.change
                for row in rows
                if row.place(start.ts) == group.first
                and row.group_key(start.ts)[:3] == group_key(group)[:3]
            )

        in_time = tuple(ddl for ddl in ddls if ddl.commit_ts <= ts)
        loads = self._pending_loads(start, start.ts, ts)
        defined = self._pending_definitions(start, ts)
        cuts = find_cuts(in_time, start.ts, (*loads, *defined))
        window = WindowEvents(
            ts=ts,
            ddls=in_time,
            bootstraps=self.log.pending_bootstraps(start, since),
            row_groups=tuple(
                group_rows(rows, start.ts, cuts, has_checksums=self.rules.has_checksums)
            ),
            loads=loads,
            definitions=defined,
            undecoded_files=tuple(self.undecoded_files),
            more_may_come=more_may_come,
        )
        return make_plan(start, window, self.rules, self.log.find_schema, sample)

    def _run(
        self, plan: Plan, start: State, since: Snapshot, batch: int, ids: Collection[str]
    ) -> Plan:
        """Do the work on copies of tables; a table that cannot continue is as it was."""
        rows = self.log.pending_rows(start, since.batch, ts=plan.state.ts, through_batch=batch)
        work = WorkInMemory(self.rules, plan.work, {**self.loaded, **since.tables})
        work.run(ids, rows, start.ts)
        self.problems += work.problems
        self.tables |= work.finished
        misplaced = [id for id, table in work.finished.items() if table.has_misplaced_rows]
        return record_outcomes(start, plan, work.failed, misplaced)

    def load(self, ts: int, table: ModelTable) -> None:
        """Register rows that a table had upstream at a ts."""
        schema = replace(table.schema, origin="replayed", version=None, table_id=None)
        load = Load(
            id=len(self.loads) + 1,
            ts=ts,
            incarnation=name_loaded_incarnation(schema, ts),
            schema=schema,
            version=0,
            rows=0,
            quarantined=0,
            origin="a test",
            loaded_at=datetime.now(UTC),
        )
        self.loads.append(load)
        self.loaded[load.incarnation] = replace_schema(store(table), schema=schema)

    def define(self, ts: int, schema: TableSchema, version: int | None = None) -> None:
        """Register how upstream defined a table at a ts."""
        schema = replace(schema, origin="replayed", version=version, table_id=None)
        id = len(self.definitions) + 1
        defined = Definition(id=id, ts=ts, schema=schema, read_at=datetime.now(UTC))
        self.definitions.append(defined)

    def _pending_definitions(self, start: State, ts: int) -> tuple[Definition, ...]:
        new = [d for d in self.definitions if d.id not in start.definitions and d.ts <= ts]
        return tuple(new)

    def _pending_loads(self, start: State, after_ts: int, ts: int) -> tuple[Load, ...]:
        return tuple(
            load
            for load in self.loads
            if after_ts < load.ts <= ts and load.incarnation not in start.incarnations
        )

    def _write_snapshot(self, state: State, batch: int) -> None:
        state = replace(state, watermarks=self.now.watermarks)
        text = write_json(state)
        self.now = read_json(text, State)
        assert write_json(self.now) == text
        self.snapshots[state.snapshot_id] = Snapshot(text, batch, dict(self.tables))

    # Replays

    def resume(self, id: str, *skip: tuple[int, DdlName]) -> None:
        """Let a table continue that a person has decided about."""
        stopped = self.now.incarnations[id].stopped_snapshot_id
        request = ReplayRequest(frozenset({id}), stopped or 0, skip)
        self.now = skip_requested_ddls(self.now, request)
        arrivals = Arrivals(undecoded_files=tuple(self.undecoded_files))
        self._replay(choose_replay(self.now, arrivals, request), True)

    def _replay(self, replay: Replay | None, more_may_come: bool) -> None:
        if replay is None:
            return
        number = self._find_start(replay)
        since = self.snapshots[number]
        start = replace(read_json(since.state, State), skipped_ddls=self.now.skipped_ddls)
        if start.ts >= self.now.ts and since.batch >= self._batch:
            return
        self.replays += 1
        # The next window applies the DDLs of the present ts that arrived too late for it.
        ddls = [ddl for ddl in self.log.pending_ddls(start) if self.now.has_applied(ddl)]
        plan = self._plan(start, since.batch, self.now.ts, self._batch, ddls, more_may_come)
        chosen = choose_tables(replay, self.now, plan)
        for id in chosen:
            # As they were, whatever has become of them since.
            if id in since.tables:
                self.tables[id] = since.tables[id]
            else:
                self.tables.pop(id, None)
        plan = self._run(plan, start, since, self._batch, [i for i in plan.work if i in chosen])
        self.problems += [problem for problem in plan.problems if problem not in self.problems]
        state = join_replay(self.now, plan.state, chosen, self.now.snapshot_id + 1)
        self._write_snapshot(state, self._batch)
        now = self.now.snapshot_id
        self.snapshots = {n: s for n, s in self.snapshots.items() if n <= number or n == now}

    def _find_start(self, replay: Replay) -> int:
        """Return the newest snapshot that a replay may start from."""

        def is_early_enough(snapshot: Snapshot) -> bool:
            ts = read_json(snapshot.state, State).ts
            return replay.before_ts is None or ts < replay.before_ts

        numbers = (n for n, kept in self.snapshots.items() if is_early_enough(kept))
        return max((n for n in numbers if n <= replay.snapshot_id), default=0)

    # Results

    def live_tables(self) -> dict[tuple[str, str], StoredTable]:
        """Return the live tables by name."""
        found = {}
        for id in dict(self.now.names).values():
            table = self.now.incarnations[id]
            if table.status == "live":
                assert self.tables[id].schema == table.schema, id
                found[table.schema.database, table.schema.table] = self.tables[id]
        return found

    def stopped(self) -> dict[tuple[str, str], str]:
        """Return status and reason of stopped tables by name."""
        known = (self.now.incarnations[id] for _, id in self.now.names)
        return {
            (t.schema.database, t.schema.table): f"{t.status}: {t.reason}"
            for t in known
            if t.is_stopped
        }
