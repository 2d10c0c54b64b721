"""The rows of a table, column by column, under the names that its columns have upstream.

A Delta table has them under Delta's names, and the texts that its columns cannot hold in one map.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.layout import PLAIN, Layout, exceeds_bigint
from ticdc_assets.rows.columns import (
    COMMIT_TS,
    DELETED_TS,
    INEXACT,
    choose_delta_names,
    find_name_of_deletes,
    fold_case,
    get_arrow_type,
    list_stored_columns,
    make_row_schema,
)
from ticdc_assets.rows.stored import Stored, concat_stored

_MAP = pa.map_(pa.string(), pa.string())
MAX_BIGINT = (1 << 63) - 1
# A TSO is a time in milliseconds, and a counter.
_COUNTER_BITS = 18
_TOO_LARGE = (
    "column {}: a value ({}) is above 9223372036854775807, and bigint-unsigned of"
    ' [[changefeed.layout]] makes the column a BIGINT: set it to "decimal" for this table, then'
    " resume the table"
)
_NAME_OF_DELETES = (
    "it has a column {}, and [[changefeed.archive]] adds a column of this name: leave the table out"
    " there, then resume it, or rename the column upstream"
)


class TooLarge(TableCannotContinue):
    """A value of a BIGINT UNSIGNED in a table that keeps it as BIGINT."""

    def __init__(self, column: str, value: int, commit_ts: int) -> None:
        self.column = column
        self.value = value
        self.commit_ts = commit_ts
        super().__init__(_TOO_LARGE.format(column, f"commit ts {commit_ts}"))

    def at(self, position: str) -> TableCannotContinue:
        """Return the error with the position of the event that has the value."""
        place = f"commit ts {self.commit_ts}, {position}"
        return TableCannotContinue(_TOO_LARGE.format(self.column, place))


@dataclass(frozen=True)
class Rows:
    """Rows with the commit ts of the last change of each.

    `deleted_ts`: that of the delete of rows that are kept nevertheless (`rows.kept`), NULL for
    those that are there upstream; None if all are.
    """

    columns: Mapping[str, Stored]
    commit_ts: pa.Array
    deleted_ts: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.commit_ts)

    def take(self, places: pa.Array) -> Self:
        """Return the rows at some places."""
        columns = {name: stored.take(places) for name, stored in self.columns.items()}
        deleted = None if self.deleted_ts is None else self.deleted_ts.take(places)
        return type(self)(columns, self.commit_ts.take(places), deleted)

    def filter(self, chosen: pa.Array) -> Self:
        """Return the rows that are chosen."""
        return self.take(pc.indices_nonzero(chosen))

    def select(self, names: Iterable[str]) -> Self:
        """Return some of the columns."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def rename_like(self, schema: TableSchema) -> Self:
        """Return the rows with their columns as a schema has them: in its order and spelling."""
        by_name = {fold_name(name): stored for name, stored in self.columns.items()}
        columns = {}
        for column in list_stored_columns(schema):
            stored = by_name.get(fold_name(column.name))
            columns[column.name] = stored or make_nulls(len(self), column.type)
        return replace(self, columns=columns)


def make_nulls(count: int, type: ColumnType) -> Stored:
    """Return NULLs of a type."""
    return Stored(pa.nulls(count, get_arrow_type(type)))


def make_no_rows(schema: TableSchema) -> Rows:
    """Return no rows of a table."""
    columns = {c.name: make_nulls(0, c.type) for c in list_stored_columns(schema)}
    return Rows(columns, pa.array([], pa.int64()))


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows with the same columns."""
    first, *others = parts
    if not others:
        return first
    columns = {
        name: concat_stored([part.columns[name] for part in parts]) for name in first.columns
    }
    commit_ts = pa.concat_arrays([part.commit_ts for part in parts])
    return Rows(columns, commit_ts, _concat_deleted(parts))


def _concat_deleted(parts: Sequence[Rows]) -> pa.Array | None:
    if all(part.deleted_ts is None for part in parts):
        return None
    return pa.concat_arrays(
        [
            pa.nulls(len(part), pa.int64()) if part.deleted_ts is None else part.deleted_ts
            for part in parts
        ]
    )


# --- Delta tables ------------------------------------------------------------


def read_table(table: pa.Table, schema: TableSchema) -> Rows:
    """Read the rows of a Delta table."""
    arrays = dict(zip(table.column_names, table.columns, strict=True))
    deleted_ts = find_deleted_ts(arrays, schema)
    return Rows(read_columns(arrays, schema), join_chunks(table[COMMIT_TS]), deleted_ts)


def find_deleted_ts(
    block: Mapping[str, pa.Array | pa.ChunkedArray], schema: TableSchema
) -> pa.Array | None:
    """Return the commit ts of deletes of a block of a Delta table; None if it has no kept row."""
    found = block.get(DELETED_TS)
    # A table that has such a column upstream is not archived.
    if found is None or found.null_count == len(found) or find_name_of_deletes(schema) is not None:
        return None
    return join_chunks(found)


def leave_out_kept(block: Mapping[str, pa.Array], schema: TableSchema) -> Mapping[str, pa.Array]:
    """Return a block of a Delta table without the rows that were deleted and are kept."""
    deleted_ts = find_deleted_ts(block, schema)
    if deleted_ts is None:
        return block
    is_there = pc.is_null(deleted_ts)
    return {name: array.filter(is_there) for name, array in block.items()}


def read_columns(
    block: Mapping[str, pa.Array | pa.ChunkedArray], schema: TableSchema
) -> dict[str, Stored]:
    """Read the columns of a Delta table; one without the map has no inexact value."""
    arrays = {fold_case(name): array for name, array in block.items()}
    names = choose_delta_names(schema)
    exact = _read_map(arrays.get(fold_case(INEXACT)), names)
    columns = {}
    for column in list_stored_columns(schema):
        values = join_chunks(arrays[fold_case(names[column.name])])
        # Files that are older than a change of the type have narrower values.
        columns[column.name] = Stored(
            values.cast(get_arrow_type(column.type)), exact.get(column.name)
        )
    return columns


def write_table(rows: Rows, schema: TableSchema, layout: Layout = PLAIN) -> pa.Table:
    """Write rows as their Delta table has them, with the map; raise `TooLarge` if it cannot."""
    if layout.archived and (name := find_name_of_deletes(schema)) is not None:
        raise TableCannotContinue(_NAME_OF_DELETES.format(name))
    assert layout.archived or rows.deleted_ts is None, "kept rows would be taken for others"
    names = choose_delta_names(schema)
    arrays = [
        _write_bigints(rows, column.name)
        if layout.bigints and exceeds_bigint(column.type)
        else rows.columns[column.name].values
        for column in list_stored_columns(schema)
    ]
    exact = {names[name]: stored.exact for name, stored in rows.columns.items()}
    map_array = _write_map(
        {name: texts for name, texts in exact.items() if texts is not None}, len(rows)
    )
    own = [rows.commit_ts, *(_write_deletes(rows) if layout.archived else ()), map_array]
    return pa.Table.from_arrays([*arrays, *own], schema=make_row_schema(schema, layout))


def _write_deletes(rows: Rows) -> tuple[pa.Array, pa.Array]:
    """Return the times and the commit ts of deletes."""
    deleted_ts = rows.deleted_ts
    if deleted_ts is None:
        deleted_ts = pa.nulls(len(rows), pa.int64())
    return get_time(deleted_ts), deleted_ts


def get_time(ts: pa.Array) -> pa.Array:
    """Return the time of a TSO."""
    milliseconds = pc.shift_right(ts, _COUNTER_BITS).cast(pa.timestamp("ms", "UTC"))
    return milliseconds.cast(pa.timestamp("us", "UTC"))


def leave_out_too_large(rows: Rows, schema: TableSchema, layout: Layout) -> Rows:
    """Leave out the rows that a Delta table of a layout cannot have, so that none is stored."""
    for column in list_stored_columns(schema):
        if layout.bigints and exceeds_bigint(column.type):
            is_too_large = _find_too_large(rows.columns[column.name].values)
            rows = rows.filter(pc.invert(is_too_large))
    return rows


def _find_too_large(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(values, pa.scalar(MAX_BIGINT, values.type)), False)


def _write_bigints(rows: Rows, name: str) -> pa.Array:
    values = rows.columns[name].values
    is_too_large = _find_too_large(values)
    if pc.any(is_too_large).as_py():
        place = pc.index(is_too_large, True).as_py()
        raise TooLarge(name, int(values[place].as_py()), rows.commit_ts[place].as_py())
    return values.cast(pa.int64())


def join_chunks(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column in one piece."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def _read_map(maps: pa.ChunkedArray | None, names: Mapping[str, str]) -> dict[str, pa.Array]:
    """Return the exact texts of the columns that have some, by their names upstream."""
    if maps is None or maps.null_count == len(maps):
        return {}
    texts = [dict(entries or ()) for entries in maps.to_pylist()]
    stated = {name for row in texts for name in row}
    return {
        column: pa.array([row.get(name) for row in texts], pa.string())
        for column, name in names.items()
        if name in stated
    }


def _write_map(texts: Mapping[str, pa.Array], count: int) -> pa.Array:
    if not texts:
        return pa.nulls(count, _MAP)
    names = sorted(texts)
    rows: Iterable[tuple[str | None, ...]] = zip(
        *(texts[name].to_pylist() for name in names), strict=True
    )
    entries = (
        [(name, text) for name, text in zip(names, row, strict=True) if text is not None]
        for row in rows
    )
    return pa.array([pairs or None for pairs in entries], _MAP)
