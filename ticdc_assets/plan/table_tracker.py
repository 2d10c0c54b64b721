"""The tables of a changefeed on their way through a window: names, lives, status and steps.

`row_planner` and `ddl` decide what happens; they change tables only through this tracker.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.layout import PLAIN, Layout, is_written_anew
from ticdc_assets.plan.state import (
    Incarnation,
    State,
    Status,
    StoppedStatus,
    UnknownTable,
    choose_incarnation_id,
    find_first_paused,
    mark_partial,
    stop_table,
)
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    Exchange,
    SchemaVersion,
    TableStep,
    TableWork,
    is_repartitioned,
    may_keep_rows,
)
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.stream.ordering import OrderKey, Phase, point_before
from ticdc_assets.stream.privacy import protect_schema
from ticdc_assets.stream.problem import CREATE_NOT_SENT, REPLACED_BY_LOAD, Problem
from ticdc_assets.stream.rules import StreamRules


class TableTracker:
    """Tracks the tables from a state on; `catalog` follows their schemas."""

    def __init__(self, start: State, rules: StreamRules) -> None:
        self.start = start
        self.catalog = rules.make_catalog()
        self.catalog.restore(start.catalog)
        self.protect = partial(protect_schema, rules.privacy)
        self.incarnations = dict(start.incarnations)
        self.history: list[SchemaVersion] = []
        self.problems: list[Problem] = []
        # Each table's rows up to here are in its steps.
        self.segment_starts: dict[str, OrderKey] = {}
        self._names = dict(start.names)
        self._dropped = defaultdict(list, {key: list(ids) for key, ids in start.dropped})
        self._unknown = {table_key(u.database, u.table): u for u in start.unknown_tables}
        self._pause_reason = start.pause_reason
        self._steps: dict[str, list[TableStep]] = {}
        self._schemas_before: dict[str, TableSchema] = {}

    # Results

    def work(self) -> dict[str, TableWork]:
        """Return the steps of every table that has any, or is new."""
        every = map(self._make_work, self._steps)
        return {
            work.incarnation: work
            for work in every
            if (work.steps or work.is_new or work.is_laid_out_anew) and work.before.columns
        }

    def _make_work(self, id: str) -> TableWork:
        known = self.start.incarnations.get(id)  # Loads know of no other layout.
        layouts = PLAIN if known is None else known.layout, self.incarnations[id].layout
        steps = tuple(self._steps[id])
        return TableWork(id, self._schemas_before[id], known is None, steps, *layouts)

    def state_at(self, ts: int) -> State:
        """Return the state after the window, as far as tables make it up."""
        return replace(
            self.start,
            ts=ts,
            snapshot_id=self.start.snapshot_id + 1,
            catalog=self.catalog.state(),
            incarnations=self.incarnations,
            names=list(self._names.items()),
            dropped=[(key, ids) for key, ids in self._dropped.items() if ids],
            unknown_tables=list(self._unknown.values()),
            pause_reason=self._pause_reason,
        )

    # Finding tables

    def find(self, database: str, table: str) -> Incarnation | None:
        """Return the table that has this name now."""
        id = self.find_id(table_key(database, table))
        return None if id is None else self.incarnations[id]

    def find_id(self, key: TableKey) -> str | None:
        """Return the id of the table that has this name now."""
        return self._names.get(key)

    def find_unknown(self, key: TableKey) -> UnknownTable | None:
        """Return the unknown table of this name."""
        return self._unknown.get(key)

    def find_dropped(self, key: TableKey, drops_ago: int) -> str | None:
        """Return the id of a table that was dropped under this name: 1 is the last one."""
        dropped = self._dropped[key]
        return dropped[-drops_ago] if drops_ago <= len(dropped) else None

    def current_ids(self) -> list[str]:
        """Return the ids of all tables that have a name now."""
        return list(self._names.values())

    def find_or_create(self, schema: TableSchema, ts: int) -> Incarnation:
        """Return the table of a schema's name; create it if this DDL is the first to mention it."""
        known = self.find(schema.database, schema.table)
        if known is None:
            return self.create(schema, (ts, Phase.ROWS), is_older=True)
        return known

    def may_have_rows(self, id: str) -> bool:
        """Whether a table may have rows after the steps so far."""
        has_rows = id in self.start.incarnations or self.incarnations[id].is_loaded
        steps = self._steps.get(id, ())
        return has_rows or any(isinstance(step, ApplyRows | Exchange) for step in steps)

    def count_steps(self, id: str) -> int:
        """Return how many steps a table has so far."""
        return len(self._steps.get(id, ()))

    # Names and lives

    def create(
        self,
        schema: TableSchema,
        start: OrderKey,
        *,
        birth: int | None = None,
        is_older: bool = False,
    ) -> Incarnation:
        """Begin an incarnation; its rows start after `start`.

        `is_older` says that the table existed before, with rows that nobody has seen.
        """
        known, older = self.incarnations, self.start.older_ids
        id = choose_incarnation_id(schema, start[0] if birth is None else birth, known, older)
        self._begin(Incarnation(id=id, schema=schema, created_ts=start[0]), start)
        if is_older:
            self.incarnations[id] = mark_partial(self.incarnations[id], CREATE_NOT_SENT)
        if is_older and self._pause_reason is not None:
            reason = self._pause_reason
            self.stop(id, "paused", reason, since=find_first_paused(self.incarnations, reason))
        return self.incarnations[id]

    def begin_loaded(self, table: Incarnation, start: OrderKey) -> None:
        """Begin an incarnation with the rows of a load; the one that has its name ends."""
        replaced = self.find_id(table_key(table.schema.database, table.schema.table))
        self._begin(table, start)
        if replaced is not None:
            reason = REPLACED_BY_LOAD.format(start[0])
            ended = self.incarnations[replaced]
            self.incarnations[replaced] = replace(ended, is_replaced=True, reason=reason)

    def find_or_recall(self, schema: TableSchema) -> Incarnation | None:
        """Return the table of a schema's name; of an unknown one, a table that has waited."""
        key = table_key(schema.database, schema.table)
        unknown = self._unknown.pop(key, None)
        if unknown is not None and key not in self._names:
            waiting = self.create(schema, (0, Phase.ROWS), is_older=True)
            self.stop(waiting.id, "waiting", "", since=unknown)
        return self.find(schema.database, schema.table)

    def _begin(self, table: Incarnation, start: OrderKey) -> None:
        schema = table.schema
        self.incarnations[table.id] = table
        self.assign_name(table_key(schema.database, schema.table), table.id, start[0])
        self.segment_starts[table.id] = start
        self._schemas_before[table.id] = schema
        self._steps[table.id] = []

    def discover(self, schema: TableSchema, place: OrderKey, origin: str) -> Incarnation:
        """Register a table that no observed DDL created."""
        known = self.find(schema.database, schema.table)
        if known is not None:
            return known
        schema = self.protect(self.catalog.register(require_known_types(schema)))
        # The id must not depend on what arrived first, and the ts of discovery does.
        start = point_before(place)
        known = self.create(schema, start, birth=0, is_older=True)
        self.record_version(known.id, place[0], origin)
        return known

    def drop(self, key: TableKey, ts: int) -> None:
        """End the table of this name; it can be recovered."""
        id = self._names.pop(key, None)
        if id is not None:
            self._dropped[key].append(id)
            self._end(id, ts)

    def release_name(self, key: TableKey) -> str | None:
        """Take the name from the table that has it now, and return the table's id."""
        return self._names.pop(key, None)

    def move(self, id: str | None, schema: TableSchema, ts: int, sql: str) -> None:
        """Give a table, dropped or not, its schema's name; create it if there is none."""
        if id is None:
            self.create(schema, (ts, Phase.ROWS), is_older=True)
            return
        table = self.incarnations[id]
        if table.status == "dropped":
            status: Status = table.status_before_drop or "live"
            self.incarnations[id] = replace(
                table, status=status, dropped_ts=None, status_before_drop=None
            )
        self.assign_name(table_key(schema.database, schema.table), id, ts)
        self.segment_starts[id] = (ts, Phase.ROWS)
        self.alter(id, schema, (), ts, sql)

    def assign_name(self, key: TableKey, id: str, ts: int) -> None:
        """Give a table a name; a table that still has it ends, as its DROP was never sent."""
        before = self._names.get(key)
        if before is not None and before != id:
            self._end(before, ts)
        self._names[key] = id

    def _end(self, id: str, ts: int) -> None:
        table = self.incarnations[id]
        status = table.status if table.status in ("waiting", "paused") else table.status_before_drop
        self.incarnations[id] = replace(
            table, status="dropped", dropped_ts=ts, status_before_drop=status
        )

    # Steps

    def add_step(self, id: str, step: TableStep) -> None:
        """Add a step to a table's work; from one on that may keep deleted rows, it is archived."""
        if may_keep_rows(step):
            self.change(id, layout=replace(self.incarnations[id].layout, archived=True))
        if id not in self._schemas_before:
            self._schemas_before[id] = self.start.incarnations[id].schema
        self._steps.setdefault(id, []).append(step)

    def alter(
        self, id: str, schema: TableSchema, steps: Sequence[ColumnChange], ts: int, sql: str
    ) -> None:
        """Take a table to a new schema; of a stopped one only the name changes."""
        table = self.incarnations[id]
        if table.is_stopped:
            renamed = table.schema.with_name(schema.database, schema.table)
            self.incarnations[id] = replace(table, schema=renamed)
            return
        repartitions = is_repartitioned(table.schema, schema)
        if steps or repartitions or schema != table.schema:
            self.add_step(id, Alter(schema, tuple(steps), ts, sql, repartitions))
        misplaced = table.rows_in_wrong_partitions and not repartitions
        self.incarnations[id] = replace(table, schema=schema, rows_in_wrong_partitions=misplaced)

    def change(self, id: str, **fields: Any) -> None:
        """Change fields of a table, as they are after the step added last."""
        self.incarnations[id] = replace(self.incarnations[id], **fields)

    def set_layout(self, id: str, layout: Layout) -> None:
        """Give a table, as it is after its steps, another layout."""
        table = self.incarnations[id]
        self.incarnations[id] = replace(table, layout=layout)
        if id not in self._steps and is_written_anew(table.schema, table.layout, layout):
            self._steps[id], self._schemas_before[id] = [], table.schema

    # Status

    def add_unknown(self, database: str, table: str, version: int | None) -> None:
        """Register a name with rows whose columns nothing has stated."""
        start = self.start
        unknown = UnknownTable(database, table, version, start.ts, start.snapshot_id)
        self._unknown.setdefault(table_key(database, table), unknown)

    def pause(self, database: str, table: str, reason: str, place: OrderKey) -> None:
        """Pause the table of this name at a place; register it if it is unknown."""
        schema = TableSchema(database, table, (), origin="inferred")
        self.pause_incarnation(self.find_or_create(schema, place[0]).id, reason, place)

    def pause_incarnation(self, id: str, reason: str, place: OrderKey) -> None:
        """Pause a table, before a place, and report it."""
        table = self.incarnations[id]
        if table.status != "paused":
            name = table.schema.database, table.schema.table
            self.problems.append(Problem("paused", reason, *name, place[0]))
            before, since = (None, table) if table.is_stopped else (place, None)
            self.stop(id, "paused", reason, before, since)

    def pause_all(self, reason: str, ts: int) -> None:
        """Pause all tables, and those that turn out later to have existed."""
        self.problems.append(Problem("paused", reason, commit_ts=ts))
        self._pause_reason = self._pause_reason or reason
        for id in self._names.values():
            if not self.incarnations[id].is_stopped:
                self.stop(id, "paused", reason, (ts, Phase.ROWS))

    def stop(
        self,
        id: str,
        status: StoppedStatus,
        reason: str,
        place: OrderKey | None = None,
        since: Incarnation | UnknownTable | None = None,
    ) -> None:
        """Stop a table before a place; by default, and for replays, where `since` stopped."""
        table, start = self.incarnations[id], self.start
        snapshot: tuple[int, int] = start.ts, start.snapshot_id
        ts: int | None = start.ts
        if since and since.stopped_ts is not None and since.stopped_snapshot_id is not None:
            ts, snapshot = since.complete_ts, (since.stopped_ts, since.stopped_snapshot_id)
        # Of a table whose older rows nobody saw, none may be there.
        if place is not None and (table.partial_reason is None or self.may_have_rows(id)):
            applied, _ = self.segment_starts.get(id, (start.ts, Phase.ROWS))
            ts = min(applied, point_before(place)[0])
        self.incarnations[id] = stop_table(table, status, reason, snapshot, ts)

    # Schema history

    def record_version(self, id: str, ts: int, origin: str, *, ends: bool = False) -> None:
        """Record that something else than a DDL showed a table's schema, or ended the table."""
        schema = self.incarnations[id].schema
        self.history.append(SchemaVersion(id, schema, ts, origin, ends=ends))

    def record_ddl(
        self, change: SchemaChange, ts: int, ids: Iterable[str], ended: Iterable[str]
    ) -> None:
        """Record a DDL for each table it concerns, or once if there is none."""
        for id in sorted(ids) or [""]:
            known = self.incarnations.get(id)
            schema = known.schema if known else TableSchema(change.database, change.table, ())
            version = SchemaVersion(
                incarnation=id,
                schema=schema,
                valid_from=ts,
                origin="ddl",
                ddl_type=change.ddl_type,
                sql=change.sql,
                ends=not id or id in ended,
            )
            self.history.append(version)
