"""Follows the tables through a window: what DDL makes of them and of their rows.

Which events there are and in which order they go is `plan`'s.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_assets.errors import TicdcError, UnsupportedDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.state import Incarnation, Status, StoppedStatus, UnknownTable
from ticdc_assets.plan.steps import ApplyRows, EmptyPartitions, Exchange, SchemaVersion
from ticdc_assets.plan.table_tracker import Tables
from ticdc_assets.schema import effect as effects
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import table_key
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import TruncateTable
from ticdc_assets.schema.effect import ColumnAdded, Effect
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.stream.ordering import Phase
from ticdc_assets.stream.problem import ROWS_IN_WRONG_PARTITIONS, TIME_OF_DDL, Problem

_BEHIND = "rows of {}.{} came before the first that tells its columns, and wait for their schema"


class Follower(Tables):
    """The tables of a changefeed, moved on from a state by DDL too."""

    def carry_out(self, change: SchemaChange, ts: int) -> None:
        """Carry out one DDL on names and schemas; note what it does to rows."""
        keys = affected_names(change)
        named = {id for key in keys if (id := self._names.get(key))}
        behind = next((self._unknown[key] for key in keys if key in self._unknown), None)
        ends = set()
        for effect in apply_ddl(change, self.catalog):
            for concerned in self._concerned(effect):
                self._cut(concerned, (ts, Phase.ROWS))
                named.add(concerned)
            first_told = self._first_told(effect)
            if isinstance(effect, effects.PartitionExchanged):
                self._know_waiting(effect, ts)
            try:
                self._effect(effect, ts, change.sql)
            except TicdcError as error:
                for schema in _schemas(effect):
                    self.pause(schema.database, schema.table, f"{error}: {change.sql}", ts)
            if behind is not None and first_told and not _empties(change):
                self._wait_behind(behind, _schemas(effect))
            if isinstance(effect, effects.TableDropped | effects.TableTruncated):
                ends |= {id for id in named if self._tables[id].dropped_ts == ts}
            if not isinstance(effect, effects.TableDropped | effects.AllTablesPaused):
                named |= {t.id for s in _schemas(effect) if (t := self._get(s.database, s.table))}
        for id in sorted(named):
            self._remember(id, ts, "ddl", change, ends=id in ends)
        if not named:
            schema = TableSchema(change.database, change.table, ())
            version = SchemaVersion(
                incarnation="",
                schema=schema,
                valid_from=ts,
                origin="ddl",
                ddl_type=change.ddl_type,
                sql=change.sql,
                ends=True,
            )
            self.history.append(version)

    def _first_told(self, effect: Effect) -> bool:
        """Whether the effect is the first that tells of a table which was there before."""
        return isinstance(effect, effects.TableAltered) and not self._concerned(effect)

    def _know_waiting(self, effect: effects.PartitionExchanged, ts: int) -> None:
        """Know the tables of an exchange of which nothing is known but rows that wait."""
        for schema in _schemas(effect):
            unknown = self._unknown.get(table_key(schema.database, schema.table))
            if unknown is not None and self._get(schema.database, schema.table) is None:
                self._of(schema, ts)
                self._wait_behind(unknown, [schema])

    def _wait_behind(self, unknown: UnknownTable, schemas: Sequence[TableSchema]) -> None:
        """Let tables wait with rows that came before, and that nobody can read yet."""
        reason = _BEHIND.format(unknown.database, unknown.table)
        for schema in schemas:
            table = self._get(schema.database, schema.table)
            if table is not None and not table.is_stopped:
                self._stop(table.id, "waiting", reason, unknown)

    def _concerned(self, effect: Effect) -> list[str]:
        """The tables that are there and that an effect moves, changes or ends."""
        names: list[tuple[str, str]] = [(s.database, s.table) for s in _schemas(effect)]
        match effect:
            case effects.TableDropped(database, table) | effects.TablePaused(database, table):
                names.append((database, table))
            case effects.TableRenamed(database, table):
                names.append((database, table))
            case effects.AllTablesPaused():
                return list(self._names.values())
        known = (self._get(*name) for name in names)
        return [table.id for table in known if table is not None]

    def _effect(self, effect: Effect, ts: int, sql: str) -> None:
        match effect:
            case effects.TableCreated(schema):
                self._new(schema, (ts, Phase.ROWS))
            case effects.TableDropped(database, name):
                self._forget(table_key(database, name), ts)
            case effects.TableTruncated(schema):
                self._truncate(schema, ts)
            case effects.TableRenamed(database, name, schema):
                old = self._names.pop(table_key(database, name), None)
                self._rename(old, schema, ts, sql)
            case effects.TableAltered(schema, steps):
                table = self._of(schema, ts)
                self._say_time_of_ddl(table, steps, ts)
                self._take_on(table.id, schema, steps, ts, sql)
            case effects.PartitionsEmptied(schema):
                self._empty(self._of(schema, ts), effect, ts, sql)
            case effects.PartitionExchanged():
                self._exchange(effect, ts, sql)
            case effects.TableRecovered(database, name, schema, ago):
                dropped = self._dropped[table_key(database, name)]
                self._rename(dropped[-ago] if ago <= len(dropped) else None, schema, ts, sql)
            case effects.TablePaused(database, name, reason):
                self.pause(database, name, reason, ts)
            case effects.AllTablesPaused(reason):
                self.problems.append(Problem("paused", reason, commit_ts=ts))
                self._doubt = self._doubt or reason
                for id in self._names.values():
                    if not self._tables[id].is_stopped:
                        self._stop(id, "paused", reason)

    def _truncate(self, schema: TableSchema, ts: int) -> None:
        known = self._of(schema, ts)
        self._forget(table_key(schema.database, schema.table), ts)
        table = self._new(schema, (ts, Phase.ROWS))
        # Without rows a table is right again, if its columns are sure.
        if known.is_stopped and schema.origin != "stated":
            how: StoppedStatus = "waiting" if known.status == "waiting" else "paused"
            self._stop(table.id, how, known.reason or "", known)

    def _rename(self, id: str | None, schema: TableSchema, ts: int, sql: str) -> None:
        """Put a table, or an empty one, under the name that its schema has now."""
        if id is None:
            self._new(schema, (ts, Phase.ROWS), doubt=self._doubt)
            return
        table = self._tables[id]
        if table.status == "dropped":
            status: Status = table.status_before_drop or "live"
            self._tables[id] = replace(
                table, status=status, dropped_ts=None, status_before_drop=None
            )
        self._give_name(table_key(schema.database, schema.table), id, ts)
        self._low[id] = (ts, Phase.ROWS)
        self._take_on(id, schema, (), ts, sql)

    def _empty(
        self, table: Incarnation, effect: effects.PartitionsEmptied, ts: int, sql: str
    ) -> None:
        if table.is_stopped:
            return
        if table.rows_in_wrong_partitions:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, "")
        step = EmptyPartitions(effect.schema, effect.partitioning, effect.names, ts, sql)
        self._add(table.id, step)
        self._tables[table.id] = replace(table, schema=effect.schema)

    def _exchange(self, effect: effects.PartitionExchanged, ts: int, sql: str) -> None:
        one, two = self._of(effect.schema, ts), self._of(effect.other, ts)
        for side in (one, two):
            if side.status == "paused":
                raise UnsupportedDdl(f"rows change places with a paused table: {side.reason}", "")
        for side, partner in ((one, two), (two, one)):
            if side.status == "waiting":
                # They go on together.
                self._stop(partner.id, "waiting", side.reason or "", side)
                return
        if one.rows_in_wrong_partitions:
            raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, "")
        counts = [len(self._steps.get(table.id, ())) for table in (one, two)]
        for table, other, count, schema in (
            (one, two, counts[1], effect.schema),
            (two, one, counts[0], two.schema),
        ):
            step = Exchange(
                schema=schema,
                partitioned=table is one,
                partitioning=effect.partitioning,
                partition=effect.partition,
                schema_before=one.schema,
                other=other.id,
                other_steps=count,
                commit_ts=ts,
                sql=sql,
            )
            self._add(table.id, step)
            self._tables[table.id] = replace(table, schema=schema)

    def _say_time_of_ddl(
        self, table: Incarnation, steps: Sequence[effects.ColumnChange], ts: int
    ) -> None:
        added = [s.column for s in steps if isinstance(s, ColumnAdded)]
        now = [column.name for column in added if column.default_is_expression]
        if now and not table.is_stopped and self._may_have_rows(table.id):
            reason = TIME_OF_DDL + ", ".join(now)
            name = table.schema.database, table.schema.table
            self.problems.append(Problem("approximate", reason, *name, ts))

    def _may_have_rows(self, id: str) -> bool:
        steps = self._steps.get(id, ())
        return id in self._start.incarnations or any(
            isinstance(s, ApplyRows | Exchange) for s in steps
        )


def _empties(change: SchemaChange) -> bool:
    """Whether a readable statement leaves its table without rows."""
    return any(isinstance(statement, TruncateTable) for statement in read_ddl(change.sql))


def _schemas(effect: Effect) -> list[TableSchema]:
    """The schemas of tables whose rows an effect moves or changes."""
    match effect:
        case effects.PartitionExchanged(schema=schema, other=other):
            return [schema, other]
        case effects.TableDropped() | effects.TablePaused() | effects.AllTablesPaused():
            return []
    return [effect.schema]
