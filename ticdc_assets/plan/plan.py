"""From one resolved ts to the next: which table goes through what, and what is known afterwards.

The order is the reference model's (`reference.model`).  The plan sees no rows, only row groups
(`RowGroup`): each spans the order keys from its first row to its last, and DDLs cut it into
segments.
"""

from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.errors import TicdcError
from ticdc_assets.events import Bootstrap, SchemaChange
from ticdc_assets.plan.ddl import Follower
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.row_schema import FindSchema, SampleRow, StreamRules
from ticdc_assets.plan.state import State, ddl_name
from ticdc_assets.plan.steps import SchemaVersion, TableWork
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.ordering import OrderKey, Phase
from ticdc_assets.stream.problem import Problem

_Item = Bootstrap | UndecodedFiles | SchemaChange | RowGroup
_SKIPPED = "a person decided to go on without this statement"


class WindowEvents(Struct, frozen=True, kw_only=True):
    """What is due from one resolved ts to the next."""

    ts: int
    ddls: tuple[SchemaChange, ...] = ()
    bootstraps: tuple[tuple[int, Bootstrap], ...] = ()
    row_groups: tuple[RowGroup, ...] = ()
    undecoded_files: tuple[UndecodedFiles, ...] = ()
    # Whether DDLs of `ts` itself may still come.
    more_may_come: bool = True


class Plan(Struct, frozen=True):
    """`state` holds once all work is done; work is in an order that can be followed."""

    state: State
    work: dict[str, TableWork]
    history: list[SchemaVersion]
    problems: list[Problem]


def make_plan(
    state: State, window: WindowEvents, rules: StreamRules, stated: FindSchema, sample: SampleRow
) -> Plan:
    """Plan the window from `state` to `window.ts`."""
    return _Planner(state, window, rules, stated, sample).run()


class _Planner:
    def __init__(
        self,
        state: State,
        window: WindowEvents,
        rules: StreamRules,
        stated: FindSchema,
        sample: SampleRow,
    ) -> None:
        self._state = state
        self._window = window
        self._follower = Follower(state, rules, stated, sample)
        self._done = list(state.applied_ddls) if window.ts == state.ts else []
        self._later: list[tuple[int, Bootstrap]] = []

    def run(self) -> Plan:
        for (ts, phase), together in groupby(sorted(self._due(), key=_place), key=_place):
            items = [item for _, item in together]
            if phase == Phase.DDLS:
                self._carry_out(ts, [i for i in items if isinstance(i, SchemaChange)])
                continue
            for item in items:
                if isinstance(item, Bootstrap):
                    self._follower.bootstrap(item, (ts, phase))
                elif isinstance(item, RowGroup):
                    self._see(item)
                elif isinstance(item, UndecodedFiles):
                    self._follower.miss(item, (ts, phase))
        self._follower.finish((self._window.ts, Phase.AFTER_DDLS))
        follower = self._follower
        state = follower.state(
            ts=self._window.ts,
            applied_ddls=self._done,
            bootstraps=self._later,
        )
        return Plan(state, follower.work(), follower.history, follower.problems)

    def _due(self) -> Iterable[tuple[OrderKey, _Item]]:
        """Everything of the window, each with its place."""
        window = self._window
        told = set()
        for change in window.ddls:
            name = change.commit_ts, ddl_name(change)
            if name not in told and not (
                change.commit_ts == self._state.ts and ddl_name(change) in self._state.applied_ddls
            ):
                told.add(name)
                yield (change.commit_ts, Phase.DDLS), change
        for ts, bootstrap in (*self._state.bootstraps, *window.bootstraps):
            if ts > window.ts:
                self._later.append((ts, bootstrap))
            else:
                yield (ts, Phase.AFTER_DDLS), bootstrap
        for group in window.row_groups:
            yield group.first, group
        for missing in window.undecoded_files:
            if missing.version <= window.ts:
                yield (max(missing.version, self._state.ts), Phase.AFTER_DDLS), missing

    def _carry_out(self, ts: int, changes: list[SchemaChange]) -> None:
        more = self._window.more_may_come and ts == self._window.ts
        for change in order_ddls(changes, self._follower.catalog, more_may_come=more):
            if ts == self._window.ts:
                self._done.append(ddl_name(change))
            if (ts, ddl_name(change)) in self._state.skipped_ddls:
                where = (change.database, change.table, ts, change.position)
                problem = Problem("approximate", f"{_SKIPPED}: {change.sql}", *where)
                self._follower.problems.append(problem)
                continue
            self._follower.carry_out(change, ts)

    def _see(self, group: RowGroup) -> None:
        """Rows begin to come that are alike."""
        try:
            self._follower.see(group)
        except TicdcError as error:
            self._follower.pause(group.database, group.table, str(error), group.first_ts)


def _place(due: tuple[OrderKey, _Item]) -> OrderKey:
    return due[0]


def join_replay(now: State, then: Plan, targets: Iterable[str], snapshot_id: int) -> State:
    """Join the present state with what a replay made of some tables.

    The replay saw at least what was seen the first time, so what it knows of names and schemas
    holds; tables that were not replayed are as they are.
    """
    chosen = set(targets)
    kept = {
        known: incarnation
        for known, incarnation in now.incarnations.items()
        if known not in chosen and known in then.state.incarnations
    }
    incarnations = {**then.state.incarnations, **kept}
    return replace(
        then.state,
        incarnations=incarnations,
        watermarks=now.watermarks,
        snapshot_id=snapshot_id,
        skipped_ddls=now.skipped_ddls,
    )
