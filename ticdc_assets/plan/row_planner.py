"""Rows on the way through a window: cut into segments, each read under its table's schema."""

from collections import defaultdict
from collections.abc import Iterable

from ticdc_assets.errors import CONTENT_ERRORS, MissingSchema, describe_content_error
from ticdc_assets.events import Bootstrap, TableSchema
from ticdc_assets.plan.privacy import store_schema
from ticdc_assets.plan.row_group import RowGroup, UndecodedFiles
from ticdc_assets.plan.row_schema import RowSchemas
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.steps import ApplyRows
from ticdc_assets.plan.table_tracker import TableTracker
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.definition import complete_schema
from ticdc_assets.schema.effect import ColumnConverted
from ticdc_assets.schema.inference import find_type_changes
from ticdc_assets.stream.ordering import OrderKey, Phase, point_before
from ticdc_assets.stream.privacy import find_fault, restore_schema
from ticdc_assets.stream.problem import OLD_ROW_MISSING, UNKNOWN_MEMBERS, Problem
from ticdc_assets.stream.rules import StreamRules

# Under these rules, a column has the type that it has upstream.
_TYPED = (None, "null")


class RowPlanner:
    """Plans the rows of a window; a table without a schema for its rows waits."""

    def __init__(self, tables: TableTracker, schemas: RowSchemas, rules: StreamRules) -> None:
        self._tables = tables
        self._schemas = schemas
        self._rules = rules
        self._groups: dict[TableKey, list[RowGroup]] = defaultdict(list)
        start = tables.start
        self._columns_with_unknown_members = dict.fromkeys(start.columns_with_unknown_members)

    @property
    def columns_with_unknown_members(self) -> list[tuple[str, str, str]]:
        return list(self._columns_with_unknown_members)

    def begin_group(self, group: RowGroup) -> None:
        """Note that the rows of a group begin; they may reveal their table, or its columns."""
        try:
            self._begin_group(group)
        except CONTENT_ERRORS as error:
            reason = describe_content_error(error)
            self._tables.pause(group.database, group.table, reason, group.first)

    def _begin_group(self, group: RowGroup) -> None:
        tables = self._tables
        table = tables.find(group.database, group.table)
        self._groups[group.key].append(group)
        if table is None and tables.find_unknown(group.key) is not None:
            return
        try:
            if table is None:
                table = tables.discover(self._schemas.find_first_schema(group), group.first, "rows")
            elif not table.is_stopped:
                self._confirm_schema(table, group)
            table = tables.incarnations[table.id]
            if not table.is_stopped:
                self._schemas.type_group(table.schema, group)
        except MissingSchema as error:
            if table is None:
                tables.add_unknown(group.database, group.table, group.schema_version)
                return
            self.close_segment(table.id, point_before(group.first))
            tables.stop(table.id, "waiting", error.reason, group.first)

    def _confirm_schema(self, table: Incarnation, group: RowGroup) -> None:
        """Adopt what rows show of their columns and no DDL or bootstrap stated."""
        confirmed = self._schemas.confirm_schema(table.schema, group)
        if confirmed is table.schema:
            return
        confirmed = store_schema(self._tables, confirmed)
        steps = self._without_protected(find_type_changes(table.schema, confirmed), confirmed)
        self.close_segment(table.id, point_before(group.first))
        self._tables.alter(table.id, confirmed, steps, group.first_ts, "")
        self._tables.record_version(table.id, group.first_ts, "rows")

    def adopt_definition(self, table: Incarnation, definition: TableSchema, end: OrderKey) -> None:
        """Complete the schema of a table by its definition, for the rows behind `end`."""
        self.close_segment(table.id, end)
        completed, steps = complete_schema(
            restore_schema(table.schema),
            definition,
            has_member_names=self._rules.has_member_names,
        )
        completed = store_schema(self._tables, completed)
        steps = self._without_protected(steps, completed)
        self._tables.alter(table.id, completed, steps, end[0], "")
        self._tables.record_version(table.id, end[0], "upstream")

    def _without_protected(
        self, steps: Iterable[ColumnConverted], schema: TableSchema
    ) -> tuple[ColumnConverted, ...]:
        """Leave out the conversions of columns that the lake does not have as they are upstream."""
        columns = ((step, schema.column(step.name)) for step in steps)
        return tuple(step for step, column in columns if column is None or column.rule in _TYPED)

    def add_bootstrap(self, bootstrap: Bootstrap, place: OrderKey) -> None:
        """Register the table of a bootstrap, unless the schema is one it had in the past."""
        schema = bootstrap.schema
        try:
            if not self._tables.catalog.is_outdated(schema):
                self._tables.discover(schema, place, "bootstrap")
        except CONTENT_ERRORS as error:
            reason = describe_content_error(error)
            self._tables.pause(schema.database, schema.table, reason, place)

    def add_undecoded_files(self, files: UndecodedFiles, place: OrderKey) -> None:
        """Let the table wait for rows that exist and cannot be read yet."""
        table = self._tables.find(files.database, files.table)
        if table is None:
            self._tables.add_unknown(files.database, files.table, files.version)
        elif not table.is_stopped:
            self.close_segment(table.id, place)
            self._tables.stop(table.id, "waiting", files.reason, place)

    def close_segment(self, id: str, end: OrderKey) -> None:
        """End a table's current segment at `end`; the next one begins there."""
        try:
            self._close_segment(id, end)
        except CONTENT_ERRORS as error:
            self._tables.pause_incarnation(id, describe_content_error(error), end)

    def _close_segment(self, id: str, end: OrderKey) -> None:
        tables = self._tables
        table = tables.incarnations[id]
        start = tables.segment_starts.get(id, (tables.start.ts, Phase.ROWS - 1))
        if end <= start:
            return
        if not table.is_stopped:
            self._add_segment(table, start, end)
        if not tables.incarnations[id].is_stopped:
            tables.segment_starts[id] = end

    def _add_segment(self, table: Incarnation, start: OrderKey, end: OrderKey) -> None:
        """Let a table take the rows of a segment; stop it where it cannot."""
        tables, id = self._tables, table.id
        schema = table.schema
        pending = self._groups[table_key(schema.database, schema.table)]
        groups = [group for group in pending if group.first <= end and group.last > start]
        if not groups:
            return
        reason = self._find_pause_reason(schema, groups)
        if reason is not None:
            tables.pause_incarnation(id, reason, end)
            return
        try:
            typed = tuple(self._schemas.type_group(schema, group) for group in groups)
        except MissingSchema as error:
            tables.stop(id, "waiting", error.reason, end)
            return
        for group in groups:
            self._report_unknown_members(schema, group)
        kept = self._rules.list_kept_deletes(schema)
        is_archived = bool(kept) or table.layout.archived
        tables.add_step(
            id, ApplyRows(schema, start, end, typed, is_archived, keeps_deleted="rows" in kept)
        )

    def _find_pause_reason(self, schema: TableSchema, groups: list[RowGroup]) -> str | None:
        """Return why rows cannot be applied as they are in `events`, if they cannot."""
        reason = find_fault(self._rules.privacy, schema)
        if reason is not None:
            return reason
        if any(group.upserts for group in groups):
            reason = self._rules.explain_upserts(schema)
            if reason is not None:
                return reason
        has_any_key = schema.key or schema.unique_keys
        if not has_any_key and any(group.overwrites for group in groups):
            return OLD_ROW_MISSING
        return None

    def close_all_segments(self, end: OrderKey) -> None:
        """End the segments of all tables at the end of the window."""
        for id in self._tables.current_ids():
            self.close_segment(id, end)

    def _report_unknown_members(self, schema: TableSchema, group: RowGroup) -> None:
        """Report, once per column, that the members of an ENUM or SET have no names."""
        if group.member_names:
            return
        for column in schema.columns:
            kind, members = column.type.name, column.type.elements
            name = (*table_key(schema.database, schema.table), column.name)
            is_reported = name in self._columns_with_unknown_members
            if kind in ("enum", "set") and members is None and not is_reported:
                self._columns_with_unknown_members[name] = None
                reason = UNKNOWN_MEMBERS.format(kind.upper(), column.name)
                problem = Problem("approximate", reason, schema.database, schema.table)
                self._tables.problems.append(problem)
