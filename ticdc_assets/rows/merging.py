"""What a window leaves of the rows that it concerns: for a table too large to be written again.

The work is that of `table`, on those rows alone.  A table with a key does it without their values,
unless its stream lacks old rows; one without a key needs all copies of the rows concerned.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import TicdcError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.plan.steps import Alter, ApplyRows, TableStep, TableWork
from ticdc_assets.rows.changes import read_segment
from ticdc_assets.rows.column_moves import keeps_values
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.identity import are_among, identify, number_rows
from ticdc_assets.rows.keyed import find_key, keep_last_per_key
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.rows.parts import have_one_identity, list_identifying
from ticdc_assets.rows.table import RowSource, TableResult
from ticdc_assets.rows.table_rows import (
    Rows,
    concat_rows,
    leave_out_too_large,
    make_no_rows,
    write_table,
)
from ticdc_assets.schema.effect import ColumnAdded, ColumnRenamed

# The column that says whether a row is put, or gone.  No column of a table has such a name.
PUT = "⌗put"
# Each look at rows concerned costs as much as all that events state.
_ROWS_AT_ONCE = 250_000


def can_be_merged(work: TableWork) -> bool:
    """Whether a window changes a table's rows by their events alone."""
    steps = merge_steps(work.before, work.steps)
    schemas = [work.before, *(step.schema for step in steps)]
    if not all(map(_keeps_values, steps)) or any(map(_joins_columns, schemas, steps)):
        return False
    if not work.before.key:
        # Rows concerned have the columns of their events, or there are no events.
        has_rows = any(isinstance(step, ApplyRows) for step in steps)
        return (len(steps) == 1 or not has_rows) and not work.after.key
    return have_one_identity(schemas)


def _keeps_values(step: TableStep) -> bool:
    match step:
        case ApplyRows():
            return True
        case Alter():
            try:
                return keeps_values(step.steps, step.commit_ts)
            except TicdcError:
                # The work on the rows states what is impossible.
                return False
    return False


def _joins_columns(before: TableSchema, step: TableStep) -> bool:
    """Whether a DDL makes a column that rows have shown already."""
    for change in step.steps if isinstance(step, Alter) else ():
        match change:
            case ColumnAdded(column) if before.column(column.name) is not None:
                return True
            case ColumnRenamed(old, new) if fold_name(old) != fold_name(new):
                if before.column(new) is not None:
                    return True
    return False


def needs_rows(work: TableWork, source: RowSource) -> bool:
    """Whether a merge needs the values of the rows that it concerns."""
    segments = [step for step in work.steps if isinstance(step, ApplyRows)]
    if not work.before.key:
        return bool(segments)
    if any(step.is_archived and not step.inserts_only for step in segments):
        # Those that are deleted are kept as they were.
        return True
    return not source.updates_split and any(map(_overwrites, work.steps))


def _overwrites(step: TableStep) -> bool:
    return isinstance(step, ApplyRows) and any(t.group.overwrites for t in step.row_groups)


class Concerned:
    """Chooses the rows of a table that its events concern."""

    def __init__(self, work: TableWork, source: RowSource) -> None:
        steps = [step for step in work.steps if isinstance(step, ApplyRows)]
        self._before = work.before
        self._names = _list_telling(work.before, steps)
        listed = (_list_rows(step, source).rename_like(work.before) for step in steps)
        every = [make_no_rows(work.before), *listed]
        self._stated = concat_rows([rows.select(self._names) for rows in every])

    def find(self, blocks: Iterable[Rows]) -> Rows:
        """Find the rows that are concerned in blocks of rows."""
        found, held, count = [make_no_rows(self._before)], [], 0
        for block in blocks:
            held.append(block)
            count += len(block)
            if count >= _ROWS_AT_ONCE:
                found.append(self._take(held))
                held, count = [], 0
        return concat_rows([*found, self._take(held)] if held else found)

    def _take(self, blocks: Sequence[Rows]) -> Rows:
        rows = concat_rows(blocks)
        return rows.filter(self.choose(rows))

    def choose(self, rows: Rows) -> pa.Array:
        """Return which rows are concerned."""
        names = self._names
        return are_among(*identify([rows.select(names), self._stated], names))


def _list_telling(before: TableSchema, steps: Sequence[ApplyRows]) -> tuple[str, ...]:
    """List the columns by which events tell which rows they concern."""
    if before.key or not any(map(_overwrites, steps)):
        return list_identifying(before)
    unique = {fold_name(n) for step in steps for key in step.schema.unique_keys for n in key}
    telling = (c.name for c in list_stored_columns(before) if fold_name(c.name) in unique)
    return tuple(telling) or list_identifying(before)


def _list_rows(step: ApplyRows, source: RowSource) -> Rows:
    """List the rows, old and new, that events of a segment state."""
    stated = []
    for block in source.read_events(step):
        changes = read_segment(block, step, source.redecode).changes
        old, new = changes.old.filter(changes.has_old), changes.new.filter(changes.has_new)
        # Of an old row, a table with a key has the key alone.
        stated += [old, new.select(old.columns)]
    return concat_rows(stated)


def list_merge(
    result: TableResult, concerned: Rows | None, schema: TableSchema, layout: Layout = PLAIN
) -> pa.Table:
    """List the rows that a table gets, and those that it has no longer.

    With a key, these are keys, and no row that is put has one of them.  Without one, they are all
    rows concerned, each of which stands for all of its copies.
    """
    put, key = result.all_rows, find_key(schema)
    gone = [*result.gone] if concerned is None else [*result.gone, concerned]
    if key:
        # Other columns may have had other types.
        keys = [make_no_rows(schema).select(key), *(_select_key(rows, key) for rows in gone)]
        removed = concat_rows(keys)
        stays = are_among(*identify([removed, put.select(key)], key))
        removed = keep_last_per_key(removed.filter(pc.invert(stays)), key).rename_like(schema)
    else:
        every = [make_no_rows(schema), *(rows.rename_like(schema) for rows in gone)]
        removed = _keep_distinct(concat_rows(every))
    # Such a row may have come and gone within the window.
    removed = leave_out_too_large(removed, schema, layout)
    tables = [write_table(rows, schema, layout) for rows in (put, removed)]
    is_put = pa.array([True] * len(put) + [False] * len(removed), pa.bool_())
    return pa.concat_tables(tables).append_column(PUT, is_put)


def _select_key(rows: Rows, key: Sequence[str]) -> Rows:
    """Return the key columns, under the names that they have now."""
    by_name = {fold_name(name): stored for name, stored in rows.columns.items()}
    return Rows({name: by_name[fold_name(name)] for name in key}, rows.commit_ts)


def _keep_distinct(rows: Rows) -> Rows:
    if not len(rows):
        return rows
    (identity,) = identify([rows], rows.columns)
    numbers = number_rows(identity).to_pylist()
    places = dict(zip(numbers, range(len(numbers)), strict=True))
    return rows.take(pa.array(places.values(), pa.int64()))
