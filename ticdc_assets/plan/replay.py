"""Choose what to replay, and from where, when events arrive that earlier windows should have had.

The order of a replay: `choose_replay` says from where to plan again and why; the caller plans from
there up to the present ts; `choose_tables` picks the tables whose work of that plan is done; and
`join_replay` joins the outcome with the present state.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import Bootstrap, SchemaChange
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.plan.layout import PLAIN
from ticdc_assets.plan.load import Load
from ticdc_assets.plan.plan import Plan
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.plan.state import DdlName, Incarnation, State
from ticdc_assets.plan.steps import ApplyRows, list_partners
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey, Phase


class ReplayRequest(Struct, frozen=True):
    """Tables that a person wants replayed from a snapshot on, and DDLs to leave out."""

    incarnations: frozenset[str]
    snapshot_id: int
    skip: tuple[tuple[int, DdlName], ...] = ()


class LateRows(NamedTuple):
    """A table with rows that arrived after their commit ts was applied, and the first such ts."""

    database: str
    table: str
    first_ts: int


class Arrivals(Struct, frozen=True, kw_only=True):
    """What arrived since the last snapshot and may concern earlier windows."""

    # Tables that new DDLs, bootstraps or definitions state a schema of.
    stated: frozenset[TableKey] = frozenset()
    late_rows: tuple[LateRows, ...] = ()
    late_ddls: tuple[SchemaChange, ...] = ()
    late_loads: tuple[Load, ...] = ()
    late_definitions: tuple[Definition, ...] = ()
    # Files that still cannot be decoded.
    undecoded_files: tuple[UndecodedFiles, ...] = ()


class Replay(Struct, frozen=True, kw_only=True):
    """What to replay: tables by id, by the name of their rows, or by what arrived late.

    It starts at the newest valid snapshot up to `snapshot_id` whose ts is below `before_ts`.
    """

    incarnations: frozenset[str]
    names: frozenset[TableKey]
    late_rows: tuple[LateRows, ...]
    late_ddls: tuple[SchemaChange, ...]
    snapshot_id: int
    before_ts: int | None


def choose_replay(now: State, arrivals: Arrivals, request: ReplayRequest | None) -> Replay | None:
    """Choose what can continue now or was applied without late events; None if nothing was."""
    incarnations = set() if request is None else set(request.incarnations)
    starts = [] if request is None else [request.snapshot_id]
    decoded = {f.key for f in now.undecoded_files} - {f.key for f in arrivals.undecoded_files}
    stated = arrivals.stated | decoded | stated_tables(arrivals.late_ddls, ())
    if stated:
        # A table may have another name by now than its rows and their schema, so all may continue.
        waiting = [table for table in now.incarnations.values() if table.is_waiting]
        incarnations |= {table.id for table in waiting}
        starts += [table.stopped_snapshot_id or 0 for table in waiting]
    names = set()
    for unknown in now.unknown_tables:
        key = table_key(unknown.database, unknown.table)
        if key in stated:
            names.add(key)
            starts.append(unknown.stopped_snapshot_id)
    late = [rows.first_ts for rows in arrivals.late_rows]
    late += [ddl.commit_ts for ddl in arrivals.late_ddls]
    late += [load.ts for load in arrivals.late_loads]
    # A definition comes behind everything of its ts, so a snapshot of that ts will do.
    late += [definition.ts + 1 for definition in arrivals.late_definitions]
    if not starts and not late:
        return None
    return Replay(
        incarnations=frozenset(incarnations),
        names=frozenset(names),
        late_rows=arrivals.late_rows,
        late_ddls=arrivals.late_ddls,
        snapshot_id=min(starts, default=now.snapshot_id),
        before_ts=min(late, default=None),
    )


def stated_tables(
    ddls: Iterable[SchemaChange], bootstraps: Iterable[Bootstrap]
) -> frozenset[TableKey]:
    """Return the tables that DDLs and bootstraps state a schema of."""
    schemas = [ddl.schema for ddl in ddls] + [bootstrap.schema for bootstrap in bootstraps]
    return frozenset(table_key(s.database, s.table) for s in schemas if s is not None)


def skip_requested_ddls(now: State, request: ReplayRequest | None) -> State:
    """Add the DDLs that a person wants left out to those left out already."""
    if request is None or not request.skip:
        return now
    return replace(now, skipped_ddls=[*now.skipped_ddls, *request.skip])


def choose_tables(replay: Replay, now: State, plan: Plan) -> set[str]:
    """Choose the tables whose work of a replay's plan is to be done.

    They are the tables that the replay is for, those that the plan knows otherwise than the
    present does or not at all, and all that exchange rows with any of them.
    """
    chosen = set(replay.incarnations)
    for name in replay.names:
        chosen |= _tables_fed_by(plan, name, (0, Phase.ROWS))
    for rows in replay.late_rows:
        name = table_key(rows.database, rows.table)
        chosen |= _tables_fed_by(plan, name, (rows.first_ts, Phase.ROWS))
    for ddl in replay.late_ddls:
        chosen |= _tables_changed_by(plan, ddl)
    chosen |= now.incarnations.keys() - plan.state.incarnations.keys()
    for id, table in plan.state.incarnations.items():
        known = now.incarnations.get(id)
        if known is None or _without_history(table) != _without_history(known):
            chosen.add(id)
    return _with_exchange_partners(plan, chosen)


def join_replay(now: State, replayed: State, chosen: Collection[str], snapshot_id: int) -> State:
    """Join the present state with the outcome of a replay of the chosen tables.

    The replay saw at least what the first pass saw, so its names and schemas hold; tables that
    were not replayed do not change.
    """
    kept = {
        id: incarnation
        for id, incarnation in now.incarnations.items()
        if id not in chosen and id in replayed.incarnations
    }
    return replace(
        replayed,
        incarnations={**replayed.incarnations, **kept},
        watermarks=now.watermarks,
        snapshot_id=snapshot_id,
        skipped_ddls=now.skipped_ddls,
        older_ids=[],
    )


def _tables_fed_by(plan: Plan, name: TableKey, first: OrderKey) -> set[str]:
    """Return the tables that take rows of this name from a point in the order on."""
    return {
        work.incarnation
        for work in plan.work.values()
        for step in work.steps
        if isinstance(step, ApplyRows)
        and step.high >= first
        and table_key(step.schema.database, step.schema.table) == name
    }


def _tables_changed_by(plan: Plan, change: SchemaChange) -> set[str]:
    """Return the tables that a DDL created, changed or ended."""
    return {
        version.incarnation
        for version in plan.history
        if (version.valid_from, version.sql) == (change.commit_ts, change.sql)
        and version.incarnation
    }


def _with_exchange_partners(plan: Plan, ids: Iterable[str]) -> set[str]:
    """Return tables with all that exchange rows with them, directly or not."""
    chosen = set(ids)
    while True:
        partners = {
            other for id in chosen & plan.work.keys() for other in list_partners(plan.work[id])
        }
        if partners <= chosen:
            return chosen
        chosen |= partners


def _without_history(table: Incarnation) -> Incarnation:
    """Return a table without what depends on where a plan started, and on rows.

    A layout that is declared otherwise now is for the next window: its rows are the same.
    """
    return replace(
        table,
        layout=PLAIN,
        stopped_ts=None,
        true_ts=None,
        stopped_snapshot_id=None,
        reason=None,
        rows_in_wrong_partitions=False,
        created_ts=0,
    )
