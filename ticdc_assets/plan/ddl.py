"""DDLs on the way through a window: what they make of tables and their rows."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ticdc_assets.errors import CONTENT_ERRORS, TableCannotContinue, describe_content_error
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.privacy import store_schema
from ticdc_assets.plan.row_planner import RowPlanner
from ticdc_assets.plan.state import Incarnation, StoppedStatus, UnknownTable, mark_partial
from ticdc_assets.plan.steps import EmptyPartitions, Exchange, HandOver
from ticdc_assets.plan.table_tracker import TableTracker
from ticdc_assets.schema import effect as effects
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import table_key
from ticdc_assets.schema.effect import Effect
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.privacy import OTHER_RULES
from ticdc_assets.stream.privacy_ddl import protect_effects
from ticdc_assets.stream.problem import (
    LOADED_IN_DDL,
    ROWS_IN_WRONG_PARTITIONS,
    ROWS_OF_PARTIAL_TABLE,
    Problem,
    list_approximations,
)
from ticdc_assets.stream.rules import StreamRules

_WAITS_WITH_ROWS = "rows of {}.{} arrived before any schema of it, and wait for their schema"


class DdlApplier:
    """Applies DDLs to the tables of a tracker; ends their segments of rows first."""

    def __init__(self, tables: TableTracker, rows: RowPlanner, rules: StreamRules) -> None:
        self._tables = tables
        self._rows = rows
        self._privacy = rules.privacy
        self._rules = rules

    def apply(self, change: SchemaChange, ts: int) -> None:
        """Apply one DDL to names and schemas, and note what it does to rows."""
        tables = self._tables
        keys = affected_names(change)
        concerned = {id for key in keys if (id := tables.find_id(key)) is not None}
        unknown = next((u for key in keys if (u := tables.find_unknown(key)) is not None), None)
        ended: set[str] = set()
        for effect in self._find_effects(change, ts):
            schemas = _schemas_in(effect)
            existing = self._find_existing(effect)
            for id in existing:
                self._rows.close_segment(id, (ts, Phase.ROWS))
            concerned.update(existing)
            reveals_table = isinstance(effect, effects.TableAltered) and not existing
            try:
                self._apply_effect(effect, ts, change.sql)
            except CONTENT_ERRORS as error:
                if not schemas:
                    raise
                for schema in schemas:
                    reason = f"{describe_content_error(error)}: {change.sql}"
                    tables.pause(schema.database, schema.table, reason, (ts, Phase.ROWS))
            if unknown is not None and reveals_table:
                self._wait_with(unknown, schemas)
            if isinstance(effect, effects.TableDropped | effects.TableTruncated):
                ended |= {id for id in concerned if tables.incarnations[id].dropped_ts == ts}
            found = (tables.find(schema.database, schema.table) for schema in schemas)
            concerned |= {table.id for table in found if table is not None}
        tables.record_ddl(change, ts, concerned, ended)

    def _find_effects(self, change: SchemaChange, ts: int) -> Iterator[Effect]:
        tables = self._tables

        def find(database: str, table: str) -> TableSchema | None:
            known = tables.find(database, table)
            return None if known is None else known.schema

        return protect_effects(self._privacy, apply_ddl(change, tables.catalog), ts, find)

    def skip(self, change: SchemaChange, ts: int) -> None:
        """Leave out a DDL: from here on rows may know more of its tables' columns than the plan."""
        for key in affected_names(change):
            id = self._tables.find_id(key)
            if id is None:
                continue
            self._rows.close_segment(id, (ts, Phase.ROWS))
            table = self._tables.incarnations[id]
            if table.schema.origin == "replayed" and not table.is_stopped:
                uncertain = store_schema(self._tables, replace(table.schema, origin="inferred"))
                self._tables.alter(id, uncertain, (), ts, change.sql)

    def _find_existing(self, effect: Effect) -> list[str]:
        """Return the existing tables that an effect moves, changes or ends."""
        names: list[tuple[str, str]] = [(s.database, s.table) for s in _schemas_in(effect)]
        match effect:
            case effects.TableDropped(database, table) | effects.TablePaused(database, table):
                names.append((database, table))
            case effects.TableRenamed(database, table):
                names.append((database, table))
            case effects.AllTablesPaused():
                return self._tables.current_ids()
        known = (self._tables.find(*name) for name in names)
        return [table.id for table in known if table is not None]

    def _apply_effect(self, effect: Effect, ts: int, sql: str) -> None:
        tables = self._tables
        match effect:
            case effects.TableCreated(schema):
                tables.create(schema, (ts, Phase.ROWS))
            case effects.TableDropped(database, name):
                tables.drop(table_key(database, name), ts)
            case effects.TableTruncated():
                self._truncate(effect, ts)
            case effects.TableRenamed(database, name, schema):
                tables.move(tables.release_name(table_key(database, name)), schema, ts, sql)
            case effects.TableAltered(schema, steps):
                table = tables.find_or_create(schema, ts)
                self._report_approximations(table, steps, ts)
                tables.alter(table.id, schema, steps, ts, sql)
            case effects.PartitionsEmptied():
                self._empty_partitions(effect, ts, sql)
            case effects.PartitionExchanged():
                self._exchange(effect, ts, sql)
            case effects.TableRecovered(database, name, schema, drops_ago):
                dropped = tables.find_dropped(table_key(database, name), drops_ago)
                tables.move(dropped, schema, ts, sql)
            case effects.TablePaused():
                self._pause(effect, ts)
            case effects.AllTablesPaused(reason):
                tables.pause_all(reason, ts)

    def _pause(self, effect: effects.TablePaused, ts: int) -> None:
        table = self._tables.find(effect.database, effect.table)
        reason = effect.reason
        if effect.contradicts and table is not None and table.is_loaded:
            reason = LOADED_IN_DDL.format(reason, table.created_ts)
        if table is not None and table.status == "paused" and reason.startswith(OTHER_RULES):
            # Without its events decoded again, nothing else that a person decides helps it.
            self._tables.change(table.id, reason=reason)
        self._tables.pause(effect.database, effect.table, reason, (ts, Phase.ROWS))

    def _truncate(self, effect: effects.TableTruncated, ts: int) -> None:
        schema = effect.schema
        known = self._tables.find(schema.database, schema.table)
        self._tables.drop(table_key(schema.database, schema.table), ts)
        table = self._tables.create(schema, (ts, Phase.ROWS))
        if known is None:
            return
        kept = self._rules.list_kept_deletes(schema)
        is_archived = bool(kept) or known.layout.archived
        # Of a stopped table, nobody knows which rows are to be kept.
        if known.is_stopped and (is_archived or not effect.ends_pause):
            status: StoppedStatus = "waiting" if known.status == "waiting" else "paused"
            place = ts, Phase.AFTER_DDLS
            self._tables.stop(table.id, status, known.reason or "", place, known)
        elif is_archived:
            self._hand_over(known, table, ts, keeps_deleted="truncate" in kept)

    def _hand_over(
        self, ended: Incarnation, begun: Incarnation, ts: int, *, keeps_deleted: bool
    ) -> None:
        """Let the table that begins have the kept rows of the one that ends."""
        tables = self._tables
        counts = {each.id: tables.count_steps(each.id) for each in (ended, begun)}
        for table, other, receives in ((ended, begun, False), (begun, ended, True)):
            step = HandOver(
                tables.incarnations[table.id].schema,
                receives,
                other.id,
                counts[other.id],
                ts,
                keeps_deleted,
            )
            tables.add_step(table.id, step)

    def _empty_partitions(self, effect: effects.PartitionsEmptied, ts: int, sql: str) -> None:
        table = self._tables.find_or_create(effect.schema, ts)
        if table.is_stopped:
            return
        if table.rows_in_wrong_partitions:
            raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)
        kept = self._rules.list_kept_deletes(effect.schema)
        step = EmptyPartitions(
            effect.schema,
            effect.partitioning,
            effect.names,
            ts,
            sql,
            effect.context,
            keeps_deleted="drop-partition" in kept,
        )
        self._tables.add_step(table.id, step)
        self._tables.change(table.id, schema=effect.schema)

    # Exchanges

    def _exchange(self, effect: effects.PartitionExchanged, ts: int, sql: str) -> None:
        tables = self._tables
        self._register_unknown(effect, ts)
        partitioned = tables.find_or_create(effect.schema, ts)
        other = tables.find_or_create(effect.other, ts)
        if not self._can_exchange(partitioned, other, ts):
            return
        counts = tables.count_steps(partitioned.id), tables.count_steps(other.id)
        for table, partner, count, schema in (
            (partitioned, other, counts[1], effect.schema),
            (other, partitioned, counts[0], other.schema),
        ):
            step = Exchange(
                schema=schema,
                partitioned=table is partitioned,
                partitioning=effect.partitioning,
                partition=effect.partition,
                schema_before=partitioned.schema,
                other=partner.id,
                other_steps=count,
                commit_ts=ts,
                sql=sql,
                context=effect.context,
            )
            tables.add_step(table.id, step)
            tables.change(table.id, schema=schema)
        _exchange_partial(tables, *(tables.incarnations[t.id] for t in (partitioned, other)))

    def _can_exchange(self, partitioned: Incarnation, other: Incarnation, ts: int) -> bool:
        """Whether two tables can swap rows now; a waiting one makes the other one wait with it."""
        for table in (partitioned, other):
            if table.status == "paused":
                reason = f"the DDL exchanges rows with a paused table: {table.reason}"
                raise TableCannotContinue(reason)
        for table, partner in ((partitioned, other), (other, partitioned)):
            if table.status == "waiting":
                if not partner.is_stopped:
                    place = ts, Phase.ROWS
                    self._tables.stop(partner.id, "waiting", table.reason or "", place, table)
                return False
        if partitioned.rows_in_wrong_partitions:
            raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)
        return True

    def _register_unknown(self, effect: effects.PartitionExchanged, ts: int) -> None:
        """Register the tables of an exchange of which nothing but waiting rows is known."""
        for schema in _schemas_in(effect):
            unknown = self._tables.find_unknown(table_key(schema.database, schema.table))
            if unknown is not None and self._tables.find(schema.database, schema.table) is None:
                self._tables.find_or_create(schema, ts)
                self._wait_with(unknown, [schema])

    # Rows that were there before

    def _wait_with(self, unknown: UnknownTable, schemas: Sequence[TableSchema]) -> None:
        """Let tables wait for the schema of rows that arrived before any schema of theirs."""
        reason = _WAITS_WITH_ROWS.format(unknown.database, unknown.table)
        for schema in schemas:
            table = self._tables.find(schema.database, schema.table)
            if table is not None and not table.is_stopped:
                self._tables.stop(table.id, "waiting", reason, since=unknown)

    def _report_approximations(
        self, table: Incarnation, steps: Sequence[effects.ColumnChange], ts: int
    ) -> None:
        """Report columns whose existing values depend on what the stream does not have."""
        if table.is_stopped or not self._tables.may_have_rows(table.id):
            return
        name = table.schema.database, table.schema.table
        for reason in list_approximations(steps):
            self._tables.problems.append(Problem("approximate", reason, *name, ts))


def _schemas_in(effect: Effect) -> list[TableSchema]:
    """Return the schemas of tables whose rows an effect moves or changes."""
    match effect:
        case effects.PartitionExchanged(schema=schema, other=other):
            return [schema, other]
        case effects.TableDropped() | effects.TablePaused() | effects.AllTablesPaused():
            return []
    return [effect.schema]


def _exchange_partial(tables: TableTracker, partitioned: Incarnation, other: Incarnation) -> None:
    """Take along, with the rows that two tables exchange, that some of them are missing.

    The partitioned table keeps the rows of its other partitions; the other table keeps none.
    """
    reasons = {
        one.id: ROWS_OF_PARTIAL_TABLE.format(one.schema.database, one.schema.table)
        for one in (partitioned, other)
        if one.partial_reason is not None
    }
    tables.incarnations[other.id] = replace(other, partial_reason=reasons.get(partitioned.id))
    if other.id in reasons:
        tables.incarnations[partitioned.id] = mark_partial(partitioned, reasons[other.id])
