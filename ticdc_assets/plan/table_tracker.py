"""The tables of a changefeed, moved on through a window: by name, with what each goes through.

Here are names, rows that come and tables that cannot go on; what DDL does to them is `follow`'s.
"""

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_assets.errors import MissingSchema
from ticdc_assets.events import Bootstrap, SchemaChange, TableSchema
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.row_schema import FindSchema, RowSchemas, SampleRow, StreamRules
from ticdc_assets.plan.state import (
    DdlName,
    Incarnation,
    State,
    StoppedStatus,
    UnknownTable,
    incarnation_id,
    stop_table,
)
from ticdc_assets.plan.steps import Alter, ApplyRows, SchemaVersion, TableStep, TableWork
from ticdc_assets.schema.catalog import SchemaCatalog, TableKey, table_key
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.schema.inference import find_type_changes
from ticdc_assets.stream.ordering import OrderKey, Phase
from ticdc_assets.stream.problem import OLD_ROW_MISSING, UNKNOWN_MEMBERS, Problem


class Tables:
    """The tables of a changefeed, moved on from a state."""

    def __init__(
        self, state: State, rules: StreamRules, stated: FindSchema, sample: SampleRow
    ) -> None:
        self.problems: list[Problem] = []
        self.history: list[SchemaVersion] = []
        self.catalog = SchemaCatalog(rules.declared_keys)
        self.catalog.restore(state.catalog)
        self._row_schemas = RowSchemas(rules, stated, sample)
        self._start = state
        self._tables = dict(state.incarnations)
        self._names = dict(state.names)
        self._dropped = defaultdict(list, {key: list(ids) for key, ids in state.dropped})
        self._unknown = {
            table_key(known.database, known.table): known for known in state.unknown_tables
        }
        self._doubt = state.pause_reason
        self._steps: dict[str, list[TableStep]] = {}
        self._before: dict[str, TableSchema] = {}
        self._low: dict[str, OrderKey] = {}
        # Rows that have begun to come, by the name they come under.
        self._coming: dict[TableKey, list[RowGroup]] = defaultdict(list)
        self._unnamed = dict.fromkeys(state.columns_with_unknown_members)
        self._missing: list[UndecodedFiles] = []

    # What has become of everything

    def work(self) -> dict[str, TableWork]:
        return {
            id: TableWork(id, self._before[id], id not in self._start.incarnations, tuple(steps))
            for id, steps in self._steps.items()
            if (steps or id not in self._start.incarnations) and self._before[id].columns
        }

    def state(
        self, *, ts: int, applied_ddls: list[DdlName], bootstraps: list[tuple[int, Bootstrap]]
    ) -> State:
        start = self._start
        return State(
            ts=ts,
            snapshot_id=start.snapshot_id + 1,
            catalog=self.catalog.state(),
            incarnations=self._tables,
            names=list(self._names.items()),
            dropped=[(key, ids) for key, ids in self._dropped.items() if ids],
            unknown_tables=list(self._unknown.values()),
            pause_reason=self._doubt,
            applied_ddls=applied_ddls,
            bootstraps=bootstraps,
            watermarks=start.watermarks,
            skipped_ddls=start.skipped_ddls,
            columns_with_unknown_members=list(self._unnamed),
            undecoded_files=self._missing,
        )

    def finish(self, high: OrderKey) -> None:
        for id in self._names.values():
            self._cut(id, high)

    # Rows

    def see(self, group: RowGroup) -> None:
        """Rows begin to come; their table waits where nothing has told their columns."""
        key = table_key(group.database, group.table)
        table = self._get(group.database, group.table)
        self._coming[key].append(group)
        if table is None and key in self._unknown:
            return
        try:
            if table is None:
                table = self._meet(self._row_schemas.first(group), group.first, "rows")
            elif not table.is_stopped:
                self._confirm(table, group)
            table = self._tables[table.id]
            if not table.is_stopped:
                self._row_schemas.read_by(table.schema, group)
        except MissingSchema as error:
            if table is None:
                self._not_known(group.database, group.table, group.schema_version)
                return
            self._cut(table.id, _before(group.first))
            self._stop(table.id, "waiting", error.reason)

    def miss(self, missing: UndecodedFiles, place: OrderKey) -> None:
        """Rows are there that cannot be read, and whose table would be wrong without them."""
        table = self._get(missing.database, missing.table)
        self._missing.append(missing)
        if table is None:
            self._not_known(missing.database, missing.table, missing.version)
        elif not table.is_stopped:
            self._cut(table.id, place)
            self._stop(table.id, "waiting", missing.reason)

    def _not_known(self, database: str, table: str, version: int | None) -> None:
        start = self._start.ts, self._start.snapshot_id
        key = table_key(database, table)
        self._unknown.setdefault(key, UnknownTable(database, table, version, *start))

    def _confirm(self, table: Incarnation, group: RowGroup) -> None:
        """Take on what rows show of their columns that statements did not."""
        confirmed = self._row_schemas.confirmed(table.schema, group)
        if confirmed is table.schema:
            return
        confirmed = self.catalog.replace(confirmed)
        steps = find_type_changes(table.schema, confirmed)
        self._cut(table.id, _before(group.first))
        self._take_on(table.id, confirmed, steps, group.first_ts, "")
        self._remember(table.id, group.first_ts, "rows")

    def _cut(self, id: str, high: OrderKey) -> None:
        """End the segment of a table that has gone on until here; the next one begins."""
        table = self._tables[id]
        low = self._low.get(id, (self._start.ts, Phase.ROWS - 1))
        if high <= low:
            return
        self._low[id] = high
        if table.is_stopped:
            return
        key = table_key(table.schema.database, table.schema.table)
        due = [s for s in self._coming[key] if s.first <= high and s.last > low]
        if not due:
            return
        if not (table.schema.key or table.schema.unique_keys) and any(s.overwrites for s in due):
            self._pause(id, OLD_ROW_MISSING, high[0])
            return
        try:
            row_groups = tuple(self._row_schemas.read_by(table.schema, group) for group in due)
        except MissingSchema as error:
            self._stop(id, "waiting", error.reason)
            return
        for group in due:
            self._say_members_unknown(table.schema, group)
        self._add(id, ApplyRows(table.schema, low, high, row_groups))

    # Tables by name

    def _get(self, database: str, table: str) -> Incarnation | None:
        id = self._names.get(table_key(database, table))
        return None if id is None else self._tables[id]

    def _of(self, schema: TableSchema, ts: int) -> Incarnation:
        """The table of a schema's name; one that a statement is the first to tell of, if none."""
        known = self._get(schema.database, schema.table)
        return (
            known if known is not None else self._new(schema, (ts, Phase.ROWS), doubt=self._doubt)
        )

    def _meet(self, schema: TableSchema, place: OrderKey, origin: str) -> Incarnation:
        """Know a table that no statement of this changefeed created."""
        known = self._get(schema.database, schema.table)
        if known is None:
            schema = self.catalog.register(schema)
            # When it is met is a matter of what arrives when, its name must not be.
            known = self._new(schema, _before(place), birth=0, doubt=self._doubt)
            self._remember(known.id, place[0], origin)
        return known

    def bootstrap(self, bootstrap: Bootstrap, place: OrderKey) -> None:
        if not self.catalog.is_outdated(bootstrap.schema):
            self._meet(bootstrap.schema, place, "bootstrap")

    def _new(
        self,
        schema: TableSchema,
        low: OrderKey,
        *,
        birth: int | None = None,
        doubt: str | None = None,
    ) -> Incarnation:
        id = incarnation_id(schema.database, schema.table, low[0] if birth is None else birth)
        while id in self._tables:
            id += "-"
        self._tables[id] = Incarnation(id=id, schema=schema, created_ts=low[0])
        self._give_name(table_key(schema.database, schema.table), id, low[0])
        self._low[id] = low
        self._before[id] = schema
        self._steps[id] = []
        if doubt is not None:
            doubtful = [
                t for t in self._tables.values() if t.reason == doubt and t.stopped_snapshot_id
            ]
            since = min(doubtful, key=lambda t: t.stopped_snapshot_id or 0, default=None)
            self._stop(id, "paused", doubt, since)
        return self._tables[id]

    def _add(self, id: str, step: TableStep) -> None:
        if id not in self._before:
            self._before[id] = self._start.incarnations[id].schema
        self._steps.setdefault(id, []).append(step)

    def _give_name(self, key: TableKey, id: str, ts: int) -> None:
        before = self._names.get(key)
        if before is not None and before != id:
            # Its end was never told.
            self._end(before, ts)
        self._names[key] = id

    def _forget(self, key: TableKey, ts: int) -> None:
        id = self._names.pop(key, None)
        if id is not None:
            self._dropped[key].append(id)
            self._end(id, ts)

    def _end(self, id: str, ts: int) -> None:
        table = self._tables[id]
        held = table.status if table.status in ("waiting", "paused") else table.status_before_drop
        self._tables[id] = replace(table, status="dropped", dropped_ts=ts, status_before_drop=held)

    def _take_on(
        self, id: str, schema: TableSchema, steps: Sequence[ColumnChange], ts: int, sql: str
    ) -> None:
        table = self._tables[id]
        if table.is_stopped:
            renamed = table.schema.renamed(schema.database, schema.table)
            self._tables[id] = replace(table, schema=renamed)
            return
        recut = _cut_of(schema) != _cut_of(table.schema)
        if steps or recut or schema != table.schema:
            self._add(id, Alter(schema, tuple(steps), ts, sql, recut))
        self._tables[id] = replace(
            table,
            schema=schema,
            rows_in_wrong_partitions=table.rows_in_wrong_partitions and not recut,
        )

    # Tables that cannot go on

    def pause(self, database: str, table: str, reason: str, ts: int) -> None:
        """Change nothing of a table any more; an unknown one is known from now on."""
        schema = TableSchema(database, table, (), origin="inferred")
        self._pause(self._of(schema, ts).id, reason, ts)

    def _pause(self, id: str, reason: str, ts: int) -> None:
        table = self._tables[id]
        if table.status != "paused":
            name = table.schema.database, table.schema.table
            self.problems.append(Problem("paused", reason, *name, ts))
            self._stop(id, "paused", reason, table if table.is_stopped else None)

    def _stop(
        self,
        id: str,
        how: StoppedStatus,
        reason: str,
        since: Incarnation | UnknownTable | None = None,
    ) -> None:
        """Let a table go no further: for what happened in this window, or to another before."""
        place = (self._start.ts, self._start.snapshot_id)
        if (
            since is not None
            and since.stopped_ts is not None
            and since.stopped_snapshot_id is not None
        ):
            place = since.stopped_ts, since.stopped_snapshot_id
        self._tables[id] = stop_table(self._tables[id], how, reason, place)

    # What has to be said and kept

    def _remember(
        self,
        id: str,
        ts: int,
        origin: str,
        change: SchemaChange | None = None,
        *,
        ends: bool = False,
    ) -> None:
        version = SchemaVersion(
            incarnation=id,
            schema=self._tables[id].schema,
            valid_from=ts,
            origin=origin,
            ddl_type=change.ddl_type if change is not None else "",
            sql=change.sql if change is not None else "",
            ends=ends,
        )
        self.history.append(version)

    def _say_members_unknown(self, schema: TableSchema, group: RowGroup) -> None:
        """Say it if members of an ENUM or SET cannot be named."""
        if group.member_names:
            return
        for column in schema.columns:
            kind, members = column.type.name, column.type.elements
            doubt = (*table_key(schema.database, schema.table), column.name)
            if kind in ("enum", "set") and members is None and doubt not in self._unnamed:
                self._unnamed[doubt] = None
                reason = UNKNOWN_MEMBERS.format(kind.upper(), column.name)
                self.problems.append(Problem("approximate", reason, schema.database, schema.table))


def _before(place: OrderKey) -> OrderKey:
    """The place that comes just before."""
    ts, phase = place
    return (ts, phase - 1) if phase > Phase.ROWS else (ts - 1, Phase.DDLS + 1)


def _cut_of(schema: TableSchema) -> tuple[object, ...]:
    """How the partitions of a table are chosen, whichever there are."""
    by = schema.partitioning
    return () if by is None else (by.kind, by.expression, by.columns)
