"""A lake in memory: carries plans out on plain Python tables, window after window.

Which rows, DDLs and schemas are due is decided as the lake's stages decide it; everything that is
kept between windows goes through JSON.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from tests.plan.arrived import Arrived, alike_of, seen_of
from tests.plan.carry_out import Job
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.plan.plan import Plan, WindowEvents, join_replay, make_plan
from ticdc_assets.plan.replay import replay_targets, tables_changed_by, tables_fed_by
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.row_schema import StreamRules
from ticdc_assets.plan.state import State, ddl_name, stop_table
from ticdc_assets.protocols.registry import get_traits
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker


@dataclass
class Engine:
    """The lake; `lines` are those that a replay can start from."""

    rules: StreamRules = field(default_factory=StreamRules)
    updates_split: bool = True
    feed: Changefeed | None = None
    now: State = field(default_factory=State)
    problems: list[Problem] = field(default_factory=list)
    # What is there and cannot be read yet.
    missing: list[UndecodedFiles] = field(default_factory=list)
    replays: int = 0

    def __post_init__(self) -> None:
        self.batch = self.seq = 0
        self.rows: list[Arrived] = []
        self.ddls: list[tuple[int, SchemaChange]] = []
        self.bootstraps: list[tuple[int, int, Bootstrap]] = []
        self.schemas: dict[tuple[str, str, int | None], TableSchema] = {}
        self.tables: dict[str, ModelTable] = {}
        # State, last batch and tables of each line.
        self.lines: dict[int, tuple[str, int, dict[str, ModelTable]]] = {
            0: (write_json(self.now), 0, {})
        }
        self._applied_batch = self._upto = 0
        self._heard: dict[tuple[str, int], int] = defaultdict(int)
        self._passes: dict[tuple[str, int, TableKey], tuple[int, int]] = {}
        self._contents: set[tuple[object, ...]] = set()
        self._late_rows: list[Arrived] = []
        self._late_ddls: list[SchemaChange] = []
        self._news = False
        self.resolved_ts: int | None = 0

    @classmethod
    def of(cls, feed: Changefeed) -> "Engine":
        rules = StreamRules(feed.keys, get_traits(feed).redecode)
        return cls(rules, updates_split=not feed.output_raw_change_event, feed=feed)

    # What arrives

    def take(self, events: Iterable[Event]) -> None:
        """Take a batch in."""
        self.batch += 1
        events = list(events)
        for event in events:
            self.seq += 1
            match event:
                case RowChange():
                    self._take_row(event)
                case SchemaChange():
                    self._take_ddl(event)
                case Bootstrap():
                    self._take_bootstrap(event)
                case Watermark():
                    self._hear(event.position, event.ts)
                case Quarantined():
                    self.problems.append(
                        Problem("quarantined", event.reason, position=event.position)
                    )
        if self.feed is not None:
            progress = ResolvedTsTracker(self.feed)
            progress.restore(self.now.watermarks)
            progress.observe(events)
            self.resolved_ts = progress.resolved_ts
            self.now = replace(self.now, watermarks=progress.state())

    def _take_row(self, change: RowChange) -> None:
        arrived = Arrived(self.seq, self.batch, self._pass_of(change), change)
        if arrived.exact and change.commit_ts <= self.now.ts:
            if arrived.content in self._contents:
                return
            self._late_rows.append(arrived)
        self._contents.add(arrived.content)
        self.rows.append(arrived)

    def _take_ddl(self, change: SchemaChange) -> None:
        self._hear(change.position, change.commit_ts)
        for schema in (change.schema, change.pre_schema):
            self._remember(schema)
        name = change.commit_ts, ddl_name(change)
        known = any((c.commit_ts, ddl_name(c)) == name for _, c in self.ddls)
        self.ddls.append((self.batch, change))
        if change.commit_ts < self.now.ts and not known:
            self._late_ddls.append(change)

    def _take_bootstrap(self, bootstrap: Bootstrap) -> None:
        if not self._remember(bootstrap.schema):
            return
        position = bootstrap.position
        if isinstance(position, FilePosition):
            since = bootstrap.schema.version or 0
        else:
            since = self._heard[position.topic, position.partition]
        self.bootstraps.append((self.batch, since, bootstrap))

    def _remember(self, schema: TableSchema | None) -> bool:
        if schema is None or not schema.table:
            return False
        name = (*table_key(schema.database, schema.table), schema.version)
        self._news |= name not in self.schemas
        return self.schemas.setdefault(name, schema) is schema

    def stated(self, database: str, table: str, version: int | None) -> TableSchema | None:
        return self.schemas.get((*table_key(database, table), version))

    def _hear(self, position: FilePosition | TopicPosition, ts: int) -> None:
        if isinstance(position, TopicPosition):
            sender = position.topic, position.partition
            self._heard[sender] = max(self._heard[sender], ts)

    def _pass_of(self, change: RowChange) -> int:
        table = table_key(change.database, change.table)
        match change.position:
            case TopicPosition(topic, partition):
                sender = (topic, partition, table)
            case FilePosition():
                sender = (f"{change.schema_version}/{change.table_id}", 0, table)
        last, number = self._passes.get(sender, (0, 0))
        number += change.commit_ts < last
        self._passes[sender] = (change.commit_ts, number)
        return number

    # Windows

    @property
    def is_storage(self) -> bool:
        return self.feed is not None and self.feed.transport == "storage"

    def advance(self, ts: int | None = None, *, more_may_come: bool | None = None) -> None:
        """Apply all that is due up to a ts; without one, up to what is resolved."""
        if ts is None:
            ts, more = self.resolved_ts, not self.is_storage
            if ts is None:
                due = [r.change.commit_ts for r in self.rows] + [d.commit_ts for _, d in self.ddls]
                ts, more = max(due, default=0), False
            more_may_come = more if more_may_come is None else more_may_come
        self._mend(more_may_come is not False)
        self._upto = self.batch
        ts = max(ts, self.now.ts)
        window = self._window(ts, self._applied_batch, self.now, more_may_come is not False)
        if ts == self.now.ts and not (window.ddls or window.row_groups):
            return
        planned = self._plan(self.now, window, self._applied_batch)
        outcome = self._carry_out(planned, self.now, self.tables, planned.work)
        self.problems += planned.problems
        self._write(outcome, self.now.snapshot_id + 1)

    def _plan(self, start: State, window: WindowEvents, batch: int) -> Plan:
        def sample(group: RowGroup) -> RowChange:
            return next(
                row.change
                for row in self._due(window.ts, batch, start.ts)
                if seen_of([row], start.ts)[0].first == group.first
                and row.alike(start.ts)[:3] == alike_of(group)[:3]
            )

        return make_plan(start, window, self.rules, self.stated, sample)

    def _write(self, state: State, seq: int) -> None:
        text = write_json(replace(state, snapshot_id=seq, watermarks=self.now.watermarks))
        self.now = read_json(text, State)
        assert write_json(self.now) == text
        self._applied_batch = self._upto
        self.lines[seq] = (text, self._upto, dict(self.tables))

    def _window(self, ts: int, batch: int, start: State, more: bool) -> WindowEvents:
        ddls = tuple(
            change
            for _, change in self.ddls
            if change.commit_ts > start.ts
            or (change.commit_ts == start.ts and ddl_name(change) not in start.applied_ddls)
            if change.commit_ts <= ts
        )
        bootstraps = tuple(
            (max(since, start.ts + 1), bootstrap)
            for number, since, bootstrap in self.bootstraps
            if number > batch
        )
        groups = tuple(seen_of(self._due(ts, batch, start.ts), start.ts))
        return WindowEvents(
            ts=ts,
            ddls=ddls,
            bootstraps=bootstraps,
            row_groups=groups,
            undecoded_files=tuple(self.missing),
            more_may_come=more,
        )

    def _due(self, ts: int, batch: int, after: int) -> list[Arrived]:
        """The rows that are due; a replay leaves inexact ones that are new to the next window."""
        return [
            row
            for row in self.rows
            if row.change.commit_ts <= ts
            and (row.change.commit_ts > after or (not row.exact and row.batch > batch))
            and (row.exact or row.batch <= self._upto)
        ]

    # Replays

    def _mend(self, more: bool) -> None:
        """Replay what is known better now than when it was applied."""
        stopped = [t for t in self.now.incarnations.values() if t.is_waiting]
        came = {m.key for m in self.now.undecoded_files} - {m.key for m in self.missing}
        waiting = [*stopped, *self.now.unknown_tables] if self._news or came else []
        if self._late_rows or self._late_ddls or waiting:
            late = [row.change.commit_ts for row in self._late_rows]
            late += [change.commit_ts for change in self._late_ddls]
            before = [ts - 1 for ts in late]
            seqs = [table.stopped_snapshot_id for table in waiting]
            self.replay(before, seqs, {t.id for t in stopped}, more)
        self._late_rows, self._late_ddls, self._news = [], [], False

    def resume(self, id: str) -> None:
        """Go on with a table that a person has decided about."""
        self.replay([], [self.now.incarnations[id].stopped_snapshot_id], {id}, True)

    def replay(self, before: list[int], seqs: list[int], asked: set[str], more: bool) -> None:
        self.replays += 1
        loaded = {seq: read_json(text, State) for seq, (text, _, _) in self.lines.items()}
        seq = max(
            number
            for number, state in loaded.items()
            if all(state.ts <= ts for ts in before) and all(number <= s for s in seqs)
        )
        _, batch, tables = self.lines[seq]
        start = replace(loaded[seq], skipped_ddls=self.now.skipped_ddls)
        window = self._window(self.now.ts, batch, start, more)
        then = self._plan(start, window, batch)
        asked = set(asked)
        for row in self._late_rows:
            asked |= tables_fed_by(then, row.key, row.place(0))
        for change in self._late_ddls:
            asked |= tables_changed_by(then, change)
        chosen = replay_targets(self.now, then, asked)
        work = {id: work for id, work in then.work.items() if id in chosen}
        for id in chosen:
            # As they were, whatever has become of them since.
            if id in tables:
                self.tables[id] = tables[id]
            else:
                self.tables.pop(id, None)
        outcome = self._carry_out(then, start, self.tables, work, batch)
        self.problems += [p for p in then.problems if p not in self.problems]
        joined = join_replay(
            self.now, replace(then, state=outcome), chosen, self.now.snapshot_id + 1
        )
        self.lines = {n: line for n, line in self.lines.items() if n <= seq}
        self._write(joined, self.now.snapshot_id + 1)

    # Carrying out

    def _carry_out(
        self,
        planned: Plan,
        start: State,
        tables: dict[str, ModelTable],
        work,
        batch: int | None = None,
    ) -> State:
        """Do the work on copies; what cannot be done leaves its table as it was, and paused."""
        batch = self._applied_batch if batch is None else batch
        due = self._due(planned.state.ts, batch, start.ts)
        job = Job(self, planned, due, start.ts, work, tables)
        state = planned.state
        incarnations = dict(state.incarnations)
        for id in work:
            job.run(id, len(work[id].steps))
        for id, table in job.tables.items():
            if id in job.failed:
                place = (start.ts, start.snapshot_id)
                incarnations[id] = stop_table(incarnations[id], "paused", job.failed[id], place)
                known = incarnations[id]
                self.problems.append(
                    Problem("paused", job.failed[id], known.schema.database, known.schema.table)
                )
            else:
                tables[id] = table
                incarnations[id] = replace(
                    incarnations[id], rows_in_wrong_partitions=table.has_misplaced_rows
                )
        return replace(state, incarnations=incarnations)

    # What comes out

    def shown(self) -> dict[tuple[str, str], ModelTable]:
        """The tables that are kept right, by name."""
        found = {}
        for id in dict(self.now.names).values():
            table = self.now.incarnations[id]
            if table.status == "live":
                assert self.tables[id].schema == table.schema, id
                found[table.schema.database, table.schema.table] = self.tables[id]
        return found

    def stopped(self) -> dict[tuple[str, str], str]:
        """Why tables are not kept right, by name."""
        known = (self.now.incarnations[id] for _, id in self.now.names)
        return {
            (t.schema.database, t.schema.table): f"{t.status}: {t.reason}"
            for t in known
            if t.is_stopped
        }
