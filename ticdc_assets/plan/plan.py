"""Plan one window: what each table goes through, and the state afterwards.

The plan takes everything of the window in the order of `stream.ordering`, as the reference model
does.  It sees no rows, only row groups: each spans the order from its first row to its last, and
DDLs cut it into segments.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.errors import CONTENT_ERRORS, describe_content_error
from ticdc_assets.events import Bootstrap, SchemaChange
from ticdc_assets.plan.ddl import DdlApplier
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.plan.layout import PLAIN, Layout, choose_layout
from ticdc_assets.plan.load import Load
from ticdc_assets.plan.privacy import note_unnamed
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.row_planner import RowPlanner
from ticdc_assets.plan.row_schema import FindSchema, RowSchemas, SampleRow
from ticdc_assets.plan.state import DdlName, Incarnation, State, ddl_name, stop_table
from ticdc_assets.plan.steps import SchemaVersion, TableWork
from ticdc_assets.plan.table_tracker import TableTracker
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.ordering import OrderKey, Phase
from ticdc_assets.stream.privacy import RULES_CHANGED, restore_schema
from ticdc_assets.stream.problem import NOT_COVERED, NOT_DEFINED, ROWS_NOT_LOADED, Problem
from ticdc_assets.stream.rules import StreamRules

_Item = Bootstrap | UndecodedFiles | SchemaChange | RowGroup | Load | Definition
_SKIPPED = "skipped by a person's decision"


class WindowEvents(Struct, frozen=True, kw_only=True):
    """The pending events of a window that ends at `ts`."""

    ts: int
    ddls: tuple[SchemaChange, ...] = ()
    bootstraps: tuple[tuple[int, Bootstrap], ...] = ()
    row_groups: tuple[RowGroup, ...] = ()
    undecoded_files: tuple[UndecodedFiles, ...] = ()
    # After the window's start, and not after its end.
    loads: tuple[Load, ...] = ()
    # Not before the window's start, and not after its end.
    definitions: tuple[Definition, ...] = ()
    # The changefeed has every change after this ts.
    covered_from: int = 0
    # DDLs of `ts` itself may still arrive.
    more_may_come: bool = True
    # What is declared of the layout of tables; None where no table is written.
    layouts: tuple[TableLayout, ...] | None = None


class Plan(Struct, frozen=True):
    """The work of each table, in an order that can be followed; `state` holds once it is done."""

    state: State
    work: dict[str, TableWork]
    history: list[SchemaVersion]
    problems: list[Problem]


def make_plan(
    start: State,
    window: WindowEvents,
    rules: StreamRules,
    find_schema: FindSchema,
    sample: SampleRow,
) -> Plan:
    """Plan the window from the state `start` to `window.ts`."""
    tables = TableTracker(start, rules)
    rows = RowPlanner(tables, RowSchemas(rules, find_schema, sample), rules)
    return _Planner(window, tables, rows, rules).plan()


def needs_window_at_start(start: State, ddls: Iterable[SchemaChange], ts: int) -> bool:
    """Whether DDLs of the start's own ts arrived after it was applied, and `ts` is later.

    They belong to the snapshot of that ts, so they get a window that ends there.
    """
    return ts > start.ts and any(
        change.commit_ts == start.ts and not start.has_applied(change) for change in ddls
    )


def needs_layouts(start: State, layouts: Collection[TableLayout], rules: StreamRules) -> bool:
    """Whether tables have other layouts than those that are declared for them."""
    return any(True for _ in list_new_layouts(start.incarnations, layouts, rules))


def list_new_layouts(
    tables: Mapping[str, Incarnation], layouts: Collection[TableLayout], rules: StreamRules
) -> Iterator[tuple[str, Layout]]:
    """Yield the layouts that tables which are up to date do not have yet."""
    for id, table in tables.items():
        if not table.is_stopped and table.status != "dropped":
            is_archived = table.layout.archived or bool(rules.list_kept_deletes(table.schema))
            layout = replace(choose_layout(layouts, table.schema), archived=is_archived)
            if layout != table.layout:
                yield id, layout


def record_outcomes(
    start: State, plan: Plan, pause_reasons: Mapping[str, str], misplaced: Collection[str]
) -> Plan:
    """Record what the work on rows showed: tables that cannot continue, and misplaced rows.

    A table that cannot continue is as it was at `start`; `misplaced` are tables with rows in
    wrong partitions.
    """
    incarnations = dict(plan.state.incarnations)
    problems, snapshot = [], (start.ts, start.snapshot_id)
    for id, reason in pause_reasons.items():
        table = incarnations[id]
        before = start.incarnations.get(id)
        # A load, which no earlier snapshot has, knows of no layout.
        table = replace(table, layout=PLAIN if before is None else before.layout)
        incarnations[id] = stop_table(table, "paused", reason, snapshot, start.ts)
        name = table.schema.database, table.schema.table
        problems.append(Problem("paused", reason, *name, plan.state.ts))
    for id in misplaced:
        incarnations[id] = replace(incarnations[id], rows_in_wrong_partitions=True)
    state = replace(plan.state, incarnations=incarnations)
    return replace(plan, state=state, problems=[*problems, *plan.problems])


class _Planner:
    def __init__(
        self, window: WindowEvents, tables: TableTracker, rows: RowPlanner, rules: StreamRules
    ) -> None:
        self._start = tables.start
        self._window = window
        self._tables = tables
        self._rows = rows
        self._privacy = rules.privacy
        self._rules = rules
        self._ddls = DdlApplier(tables, rows, rules)
        self._applied_ddls: list[DdlName] = []
        if window.ts == self._start.ts:
            self._applied_ddls += self._start.applied_ddls

    def plan(self) -> Plan:
        window, tables, rows, start = self._window, self._tables, self._rows, self._start
        for (ts, phase), group in groupby(sorted(self._place_events(), key=_place), key=_place):
            items = [item for _, item in group]
            if phase == Phase.DDLS:
                self._apply_ddls(ts, [item for item in items if isinstance(item, SchemaChange)])
                continue
            for item in items:
                match item:
                    case Bootstrap():
                        rows.add_bootstrap(item, (ts, phase))
                    case RowGroup():
                        rows.begin_group(item)
                    case UndecodedFiles():
                        rows.add_undecoded_files(item, (ts, phase))
                    case Load():
                        self._load(item)
                    case Definition():
                        self._define(item)
        rows.close_all_segments((window.ts, Phase.AFTER_DDLS))
        if window.layouts is not None:
            self._lay_out(window.layouts)
            note_unnamed(tables, start.incarnations, self._privacy, window.ts)
        state = replace(
            tables.state_at(window.ts),
            applied_ddls=self._applied_ddls,
            bootstraps=[(ts, later) for ts, later in self._all_bootstraps() if ts > window.ts],
            columns_with_unknown_members=rows.columns_with_unknown_members,
            undecoded_files=[f for f in window.undecoded_files if f.version <= window.ts],
            definitions=[*start.definitions, *(each.id for each in window.definitions)],
        )
        return Plan(state, tables.work(), tables.history, tables.problems)

    def _place_events(self) -> Iterator[tuple[OrderKey, _Item]]:
        """Yield everything of the window with its place in the order."""
        window, start = self._window, self._start
        for change in self._new_ddls():
            yield (change.commit_ts, Phase.DDLS), change
        for ts, bootstrap in self._all_bootstraps():
            if ts <= window.ts:
                yield (ts, Phase.AFTER_DDLS), bootstrap
        for group in window.row_groups:
            yield group.first, group
        for files in window.undecoded_files:
            if files.version <= window.ts:
                yield (max(files.version, start.ts), Phase.AFTER_DDLS), files
        for load in window.loads:
            yield (load.ts, Phase.LOADS), load
        for definition in window.definitions:
            yield (definition.ts, Phase.DEFINITIONS), definition

    def _new_ddls(self) -> list[SchemaChange]:
        """Return each DDL of the window once, without those that `start` has applied."""
        ddls: dict[tuple[int, DdlName], SchemaChange] = {}
        for change in self._window.ddls:
            if not self._start.has_applied(change):
                ddls.setdefault((change.commit_ts, ddl_name(change)), change)
        return list(ddls.values())

    def _all_bootstraps(self) -> list[tuple[int, Bootstrap]]:
        return [*self._start.bootstraps, *self._window.bootstraps]

    def _load(self, load: Load) -> None:
        """Begin a table with loaded rows; the one that had its name ends, and so does its wait."""
        tables = self._tables
        schema = tables.protect(tables.catalog.create(restore_schema(load.schema)))
        place = load.ts, Phase.AFTER_DDLS
        replaced = tables.find_or_recall(schema)
        if replaced is not None:
            self._rows.close_segment(replaced.id, place)
        reasons = []
        if load.ts < self._window.covered_from:
            reasons.append(NOT_COVERED.format(load.ts, self._window.covered_from))
        if load.quarantined:
            reasons.append(ROWS_NOT_LOADED.format(load.quarantined, load.ts))
        table = Incarnation(
            id=load.incarnation,
            schema=schema,
            created_ts=load.ts,
            is_loaded=True,
            partial_reason="; ".join(reasons) or None,
        )
        tables.begin_loaded(table, place)
        if schema.columns != load.schema.columns:
            tables.pause_incarnation(table.id, RULES_CHANGED, (load.ts, Phase.LOADS))
        if replaced is not None:
            tables.record_version(replaced.id, load.ts, "load", ends=True)
        tables.record_version(load.incarnation, load.ts, "load")

    def _define(self, definition: Definition) -> None:
        """Register a table by its definition, or complete what is known of its schema.

        A stopped table stopped at something before: only a replay from there helps it.
        """
        tables, schema, place = self._tables, definition.schema, (definition.ts, Phase.DEFINITIONS)
        known = tables.find(schema.database, schema.table)
        if known is not None and not known.lacks_definition:
            return
        try:
            if known is None:
                known = tables.discover(schema, place, "upstream")
            elif not known.is_stopped:
                self._rows.adopt_definition(known, schema, place)
        except CONTENT_ERRORS as error:
            name = schema.database, schema.table
            reason = NOT_DEFINED.format(describe_content_error(error))
            tables.problems.append(Problem("definition", reason, *name, place[0]))
        if known is not None:
            tables.change(known.id, is_defined=True)

    def _lay_out(self, layouts: Collection[TableLayout]) -> None:
        """Give every table that is up to date the layout that is declared for it."""
        tables = self._tables
        for id, layout in [*list_new_layouts(tables.incarnations, layouts, self._rules)]:
            table = tables.incarnations[id]
            tables.set_layout(id, layout)
            if layout.fault is not None and layout.fault != table.layout.fault:
                name = table.schema.database, table.schema.table
                tables.problems.append(Problem("layout", layout.fault, *name, self._window.ts))

    def _apply_ddls(self, ts: int, changes: list[SchemaChange]) -> None:
        at_end = ts == self._window.ts
        more_may_come = self._window.more_may_come and at_end
        for change in order_ddls(changes, self._tables.catalog, more_may_come=more_may_come):
            name = ddl_name(change)
            if at_end:
                self._applied_ddls.append(name)
            if (ts, name) in self._start.skipped_ddls:
                place = (change.database, change.table, ts, change.position)
                problem = Problem("approximate", f"{_SKIPPED}: {change.sql}", *place)
                self._tables.problems.append(problem)
                self._ddls.skip(change, ts)
            else:
                self._ddls.apply(change, ts)


def _place(item: tuple[OrderKey, _Item]) -> OrderKey:
    return item[0]
