"""Apply: from events to current tables, up to the newest resolved ts.

One window goes from the last line of `applied` to that ts.  Before it, whatever could not go on
and now can is replayed from the line before it stopped: tables that waited for a schema, rows and
DDLs that came too late, and what a person asked for.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from msgspec.structs import replace

from ticdc_assets.events import SchemaChange
from ticdc_assets.lake.apply.control_events import ControlEvents, read_control_events
from ticdc_assets.lake.apply.pending_rows import Window, find_late_rows
from ticdc_assets.lake.apply.quarantined_rows import write_quarantined_rows
from ticdc_assets.lake.apply.table_work import TableOutcome, apply_table_work
from ticdc_assets.lake.apply.window import PreparedWindow, prepare_window
from ticdc_assets.lake.log.applied import (
    Snapshot,
    find_valid_snapshot,
    read_snapshot,
    write_snapshot,
)
from ticdc_assets.lake.log.applied_row import TableCounts
from ticdc_assets.lake.log.schema_history import write_history, write_tables
from ticdc_assets.lake.store.codegen import CODEGEN_MIN_ROWS, codegen
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.plan import join_replay
from ticdc_assets.plan.replay import replay_targets, tables_changed_by, tables_fed_by
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.plan.state import DdlName, State, ddl_name, stop_table
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.problem import Problem

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ApplyResult:
    """What one apply did."""

    resolved_ts: int
    tables: int = 0
    rows: int = 0
    ddls: int = 0
    quarantined: int = 0
    replayed: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class ReplayRequest:
    """What a person asked for: tables to be replayed from a line on, without some DDLs."""

    incarnations: frozenset[str]
    snapshot_id: int
    skip: tuple[tuple[int, DdlName], ...] = ()


def apply(
    lake: LakeSession,
    applied: Snapshot,
    batch: int,
    *,
    decoded: int | None = None,
    missing: Collection[UndecodedFiles] | None = None,
    replay: ReplayRequest | None = None,
    progress: Progress | None = None,
) -> ApplyResult:
    """Bring the current tables up to what the batches up to `batch` resolve.

    `decoded` is the batch up to which no file waits to be decoded, `missing` what those that do
    would tell of; without it that is as it was at the last line.
    """
    through = batch if decoded is None else decoded
    unread = applied.state.undecoded_files if missing is None else missing
    return _Applier(lake, batch, through, unread, progress).run(applied, replay)


class _Applier:
    def __init__(
        self,
        lake: LakeSession,
        batch: int,
        decoded: int,
        missing: Collection[UndecodedFiles],
        progress: Progress | None,
    ) -> None:
        self._lake = lake
        self._batch = batch
        self._decoded = decoded
        self._missing = missing
        self._progress = progress
        self._done = ApplyResult(0)

    def run(self, applied: Snapshot, replay: ReplayRequest | None) -> ApplyResult:
        self._done = ApplyResult(applied.ts)
        control = read_control_events(self._lake, applied, self._batch)
        applied = self._replay_what_can(applied, control, replay)
        at_once = [ddl for ddl in control.ddls if ddl.commit_ts == applied.ts]
        if any(_is_new(ddl, applied.state) for ddl in at_once) and control.resolved_ts > applied.ts:
            # They belong to the picture of a ts that was applied before they came.
            applied = self._advance(applied, control, applied.ts, applied.batch)
        if self._batch > applied.batch or control.resolved_ts > applied.ts:
            applied = self._advance(applied, control, control.resolved_ts, self._batch)
        return dataclasses.replace(self._done, resolved_ts=applied.ts)

    # One window

    def _advance(self, applied: Snapshot, control: ControlEvents, ts: int, batch: int) -> Snapshot:
        way = prepare_window(
            self._lake,
            applied,
            control,
            ts=ts,
            batch=batch,
            missing=self._missing,
        )
        made = way.plan
        with ThreadPoolExecutor(1) as beside:
            # No row depends on it.
            written = beside.submit(write_history, self._lake, made.history, applied.ts)
            versions, counts, state = self._carry_out(way, made.work)
            written.result()
        if batch == self._batch:
            state = replace(state, watermarks=control.watermark_state)
        self._note(made.problems, ddls=len(made.history))
        return self._finish(applied, state, batch, versions, control, counts)

    def _carry_out(
        self, way: PreparedWindow, work: Collection[str]
    ) -> tuple[dict[str, int], list[TableCounts], State]:
        """Carry out the work on tables, several at once; tables that refuse are paused."""
        made, start = way.plan, way.start
        split = not self._lake.feed.output_raw_change_event

        def one(incarnation: str) -> TableOutcome:
            version = start.versions.get(incarnation)
            return apply_table_work(
                way.frames, made.work[incarnation], version, updates_split=split
            )

        outcomes: dict[str, TableOutcome] = {}
        is_much = way.rows > CODEGEN_MIN_ROWS * max(len(work), 1)
        # A table mostly waits, for logs and the store: as many as Python has threads for that.
        with codegen(self._lake.spark, enabled=is_much), ThreadPoolExecutor() as pool:
            for incarnation, outcome in zip(work, pool.map(one, work), strict=True):
                outcomes[incarnation] = outcome
                if self._progress is not None:
                    self._progress(len(outcomes), len(work))
        tables = dict(made.state.incarnations)
        counts: list[TableCounts] = []
        for incarnation, outcome in outcomes.items():
            table = tables[incarnation]
            if outcome.refused is not None:
                tables[incarnation] = stop_table(
                    table, "paused", outcome.refused, (start.ts, start.snapshot_id)
                )
                name = table.schema.database, table.schema.table
                self._note([Problem("paused", outcome.refused, *name, way.span.ts)])
            elif outcome.rows_in_wrong_partitions:
                tables[incarnation] = replace(table, rows_in_wrong_partitions=True)
            counts += outcome.counts
        versions = {i: o.version for i, o in outcomes.items() if o.version is not None}
        refused = [s for o in outcomes.values() if o.refused is None for s in o.segments]
        write_quarantined_rows(self._lake, refused)
        return versions, counts, replace(made.state, incarnations=tables)

    def _finish(
        self,
        applied: Snapshot,
        state: State,
        batch: int,
        versions: Mapping[str, int],
        control: ControlEvents,
        counts: Sequence[TableCounts],
        replayed_from: int | None = None,
    ) -> Snapshot:
        write_tables(self._lake, applied.state, state)
        written = write_snapshot(
            self._lake,
            applied,
            state,
            batch=batch,
            decoded_batch=min(batch, self._decoded),
            versions=versions,
            watermarks=control.watermarks,
            counts=counts,
            replayed_from=replayed_from,
        )
        done = self._done
        self._done = dataclasses.replace(
            done,
            tables=done.tables + len(versions),
            rows=done.rows + sum(count.rows.read for count in counts),
            quarantined=done.quarantined + sum(count.rows.quarantined for count in counts),
        )
        return written

    # Replays

    def _replay_what_can(
        self, applied: Snapshot, control: ControlEvents, asked: ReplayRequest | None
    ) -> Snapshot:
        """Replay tables from the line before they stopped being right."""
        if asked is not None and asked.skip:
            skipped = [*applied.state.skipped_ddls, *asked.skip]
            applied = dataclasses.replace(
                applied, state=replace(applied.state, skipped_ddls=skipped)
            )
        targets, starts = set(asked.incarnations) if asked else set(), []
        if asked is not None:
            starts.append(asked.snapshot_id)
        news = _stated_names(control)
        came = {m.key for m in applied.state.undecoded_files} - {m.key for m in self._missing}
        names: set[TableKey] = set()
        for table in applied.state.incarnations.values():
            # It may have another name by now than its rows and their schema.
            if table.is_waiting and (news or came):
                targets.add(table.id)
                starts.append(table.stopped_snapshot_id or 0)
        for unknown in applied.state.unknown_tables:
            name = table_key(unknown.database, unknown.table)
            if name in news or name in came:
                names.add(name)
                starts.append(unknown.stopped_snapshot_id)
        late = self._late(applied) if applied.snapshot_id else []
        least = [ts for _, _, ts in late] + [ddl.commit_ts for ddl in control.late]
        if least:
            starts.append(find_valid_snapshot(self._lake, applied.snapshot_id, min(least)))
        if not starts:
            return applied
        return self._replay(applied, control, targets, names, late, min(starts))

    def _late(self, applied: Snapshot) -> list[tuple[str, str, int]]:
        """Tables that are wrong for rows that came too late, and since when."""
        span = Window(applied.ts, applied.batch, applied.ts, self._batch)
        return find_late_rows(self._lake, span)

    def _replay(
        self,
        applied: Snapshot,
        control: ControlEvents,
        targets: Collection[str],
        names: Collection[TableKey],
        late: Collection[tuple[str, str, int]],
        snapshot_id: int,
    ) -> Snapshot:
        snapshot_id = find_valid_snapshot(self._lake, snapshot_id)
        then = read_snapshot(self._lake, snapshot_id)
        if then.ts >= applied.ts and then.batch >= applied.batch:
            return applied
        past = read_control_events(self._lake, then, self._batch)
        way = prepare_window(
            self._lake,
            then,
            past,
            ts=applied.ts,
            batch=applied.batch,
            ddls=_in_window(past.ddls, applied),
            skipped=applied.state.skipped_ddls,
            missing=self._missing,
        )
        made = way.plan
        asked = set(targets)
        for name in names:
            asked |= tables_fed_by(made, name, (0, Phase.ROWS))
        for database, table, ts in late:
            asked |= tables_fed_by(made, table_key(database, table), (ts, Phase.ROWS))
        for ddl in control.late:
            asked |= tables_changed_by(made, ddl)
        chosen = replay_targets(applied.state, made, asked)
        to_do = [id for id in made.work if id in chosen]
        versions, counts, after = self._carry_out(way, to_do)
        state = join_replay(applied.state, replace(made, state=after), chosen, applied.snapshot_id)
        changed = [v for v in made.history if v.incarnation in chosen]
        write_history(self._lake, changed, then.ts)
        self._note(made.problems)
        self._done = dataclasses.replace(self._done, replayed=self._done.replayed + len(chosen))
        return self._finish(
            applied, state, applied.batch, versions, control, counts, replayed_from=snapshot_id
        )

    def _note(self, problems: Iterable[Problem], *, ddls: int = 0) -> None:
        done = self._done
        self._done = dataclasses.replace(
            done, problems=[*done.problems, *problems], ddls=done.ddls + ddls
        )


def _stated_names(control: ControlEvents) -> set[TableKey]:
    """The tables of which something new was stated."""
    schemas = [ddl.schema for ddl in control.ddls] + [b.schema for _, b in control.bootstraps]
    return {table_key(s.database, s.table) for s in schemas if s is not None}


def _is_new(ddl: SchemaChange, state: State) -> bool:
    return ddl_name(ddl) not in state.applied_ddls


def _in_window(ddls: Iterable[SchemaChange], applied: Snapshot) -> list[SchemaChange]:
    """The DDLs up to what was applied; those of just that ts only as far as they were done."""
    return [
        ddl
        for ddl in ddls
        if ddl.commit_ts < applied.ts
        or (ddl.commit_ts == applied.ts and not _is_new(ddl, applied.state))
    ]
