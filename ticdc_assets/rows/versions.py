"""The versions of a table's rows in a window: every state of every row, and when it held.

A version begins with the event or DDL that made it, and ends with the one that replaced or removed
it; each is a mark.  `version_chains` says what events do, this what DDLs do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import TicdcError
from ticdc_assets.events import TableSchema
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    EmptyPartitions,
    Exchange,
    HandOver,
    TableStep,
    TableWork,
)
from ticdc_assets.rows.alteration import alter_rows
from ticdc_assets.rows.blocks import read_blocks
from ticdc_assets.rows.column_moves import can_widen, keeps_values, map_columns
from ticdc_assets.rows.columns import fold_case, list_delta_columns
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.rows.partitions import find_inside
from ticdc_assets.rows.parts import have_one_identity
from ticdc_assets.rows.table import (
    RowSource,
    build_table,
    require_columns,
)
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_no_rows
from ticdc_assets.rows.version_chains import (
    MARK,
    OpenVersions,
    Operation,
    Versions,
    apply_by_key,
    apply_copies,
    keep_versions,
    make_marks,
)
from ticdc_assets.schema.effect import ColumnChange


class StepVersions(NamedTuple):
    """The versions of a table that were open at some time in one step, under its schema then.

    Rows before them have the schema `before`; `column_changes` took its columns to those after.
    """

    schema: TableSchema
    before: TableSchema
    versions: Versions
    column_changes: Sequence[ColumnChange] = ()


def begin_versions(rows: Rows, ts: pa.Array, operation: pa.Array | str | None) -> OpenVersions:
    """Return the open versions of rows that began before a window."""
    if not isinstance(operation, pa.Array):
        operation = pa.repeat(pa.scalar(operation, pa.string()), len(ts))
    return OpenVersions(rows, make_marks(ts, operation))


def list_versions(
    work: Mapping[str, TableWork], id: str, source: RowSource, start: OpenVersions | None
) -> Iterator[StepVersions]:
    """Take a table through a window; `start` are its versions before it, None if it is new.

    `work` has the tables that it exchanges rows with, too.
    """
    builder = _Builder(work, source, work[id].before, start)
    yield from builder.take()
    for step in merge_steps(work[id].before, work[id].steps):
        builder.add(step)
        yield from builder.take()


def list_schemas(work: TableWork) -> list[TableSchema]:
    """List the schemas of a table's versions, the one at the start first."""
    return [work.before, *(step.schema for step in merge_steps(work.before, work.steps))]


def keeps_versions(before: TableSchema, step: Alter, *, has_rows: bool) -> bool:
    """Whether the versions of existing rows outlast a DDL: it adds NULLs, or widens types."""
    if has_rows and not keeps_values(step.steps, step.commit_ts):
        return False
    after = {column.name: column.type for column in list_delta_columns(step.schema)}
    moves = map_columns(before, step.steps, step.schema)
    return all(
        (new := moves.get(column.name)) is not None
        and fold_case(new) == fold_case(column.name)
        and can_widen(column.type, after[new])
        for column in list_delta_columns(before)
    )


def is_by_row(work: TableWork) -> bool:
    """Whether only versions of rows with events begin or end."""
    steps = merge_steps(work.before, work.steps)
    if not have_one_identity(list_schemas(work)) or (not work.before.key and len(steps) > 1):
        return False
    schema = work.before
    for step in steps:
        if isinstance(step, Alter) and not _always_keeps_versions(schema, step):
            return False
        if not isinstance(step, Alter | ApplyRows):
            return False
        schema = step.schema
    return True


def _always_keeps_versions(before: TableSchema, step: Alter) -> bool:
    try:
        return keeps_versions(before, step, has_rows=True)
    except TicdcError:
        # It is possible in a table without rows.
        return False


def end_versions(versions: Versions, dropped_ts: int) -> Versions:
    """Let the DROP of a table end its open versions."""
    count = len(versions.until)
    either = pa.concat_arrays([versions.until, _mark_ddl(dropped_ts, "delete", "", 1)])
    places = pc.if_else(versions.until.is_null(), count, pa.array(range(count), pa.int64()))
    return replace(versions, until=either.take(places))


class _Builder:
    """Takes the versions of a table through steps."""

    def __init__(
        self,
        work: Mapping[str, TableWork],
        source: RowSource,
        before: TableSchema,
        start: OpenVersions | None,
    ) -> None:
        self._work = work
        self._source = source
        self._schema = before
        if start is None:
            start = OpenVersions(make_no_rows(before), pa.array([], MARK))
        self._open = start
        self._found: list[StepVersions] = []
        self._put(before, keep_versions(start))

    def take(self) -> Iterable[StepVersions]:
        """Return what has been found since the last time."""
        found, self._found = self._found, []
        return found

    def add(self, step: TableStep) -> None:
        """Take the versions through a step."""
        match step:
            case ApplyRows():
                self._put(step.schema, self._apply(step))
            case Alter():
                self._alter(step)
            case EmptyPartitions():
                self._end_some(find_inside(self._open.rows, self._schema, step, step.names), step)
                self._put(step.schema, keep_versions(self._alter_open(step)))
            case Exchange():
                self._exchange(step)
            case HandOver():
                # Of rows that have no version any more.
                self._put(step.schema, keep_versions(self._alter_open(step)))
        self._schema = step.schema

    def _put(
        self, schema: TableSchema, versions: Versions, changes: Sequence[ColumnChange] = ()
    ) -> None:
        self._found.append(StepVersions(schema, self._schema, versions, changes))
        still_open = OpenVersions(versions.rows, versions.since)
        if versions.until.null_count < len(versions.until):
            still_open = still_open.filter(versions.until.is_null())
        self._open = still_open

    def _alter_open(self, step: TableStep) -> OpenVersions:
        return replace(self._open, rows=alter_rows(self._open.rows, self._schema, step))

    # DDL

    def _alter(self, step: Alter) -> None:
        before, count = self._open, len(self._open.rows)
        altered = self._alter_open(step)
        if keeps_versions(self._schema, step, has_rows=count > 0):
            self._put(step.schema, keep_versions(altered), step.steps)
            return
        made = _mark_ddl(step.commit_ts, "update", step.sql, count)
        self._put(self._schema, keep_versions(before, made))
        places = pa.array(range(count), pa.int64())
        is_new = pa.repeat(pa.scalar(True), count)
        new = Versions(altered.rows, made, pa.nulls(count, MARK), is_new, places, before.rows)
        self._put(step.schema, new, step.steps)

    def _end_some(self, goes: pa.Array, step: EmptyPartitions | Exchange) -> None:
        """Let a DDL remove some of the open rows."""
        until = _mark_ddl(step.commit_ts, "delete", step.sql, 1)
        until = until.take(pc.if_else(goes, pa.scalar(0), pa.scalar(None, pa.int64())))
        self._put(self._schema, keep_versions(self._open, until))

    def _exchange(self, step: Exchange) -> None:
        rows = self._open.rows
        other = build_table(self._work, step.other, step.other_steps, self._source)
        if step.partitioned:
            goes = find_inside(rows, self._schema, step, (step.partition,))
        else:
            goes = pa.repeat(pa.scalar(True), len(rows))
            inside = find_inside(other, step.schema_before, step, (step.partition,))
            other = other.filter(inside)
        self._end_some(goes, step)
        kept = self._alter_open(step)
        received = alter_rows(other.rename_like(self._schema), self._schema, step)
        came = _mark_ddl(step.commit_ts, "insert", step.sql, len(received))
        both = OpenVersions(
            concat_rows([kept.rows, received]), pa.concat_arrays([kept.since, came])
        )
        is_new = pa.array([False] * len(kept.rows) + [True] * len(received), pa.bool_())
        self._put(step.schema, replace(keep_versions(both), is_new=is_new))

    # Events

    def _apply(self, step: ApplyRows) -> Versions:
        require_columns(self._schema, step)
        source = self._source
        changes = read_blocks(source.read_events(step), step, source.redecode).changes
        before = replace(self._open, rows=self._open.rows.rename_like(step.schema))
        if step.schema.key:
            return apply_by_key(before, changes, step, source.part)
        return apply_copies(before, changes, step, source)


def _mark_ddl(ts: int, operation: Operation, ddl: str, count: int) -> pa.Array:
    """Return the mark of a DDL, as often as it is needed."""
    one = make_marks(pa.array([ts], pa.int64()), pa.array([operation]), ddl)
    return one.take(pa.repeat(pa.scalar(0, pa.int64()), count))
