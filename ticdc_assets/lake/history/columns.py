"""The columns of values of a history, and of images: those that the table had at any time.

A version has the values of the columns that its table had while it was open.  A column keeps its
name and takes the wider type if a DDL widens it.  Where a DDL gives a name to values of a type that
the old ones do not fit, the old ones move to `name@type`.  So of all columns with one name, a
version has a value in one at most.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import TableSchema
from ticdc_assets.rows.column_moves import can_widen
from ticdc_assets.rows.columns import (
    DeltaColumn,
    fold_case,
    list_delta_columns,
    read_delta_type,
)
from ticdc_assets.rows.table_rows import join_chunks
from ticdc_assets.store.contracts import HISTORY

_OWN = frozenset(map(fold_case, HISTORY))


@dataclass(frozen=True)
class HistoryColumn:
    """A column of values; `sources` are the stored columns whose values it takes over."""

    name: str
    type: str
    comment: str = ""
    sources: tuple[str, ...] = field(default=(), compare=False)

    @property
    def arrow_type(self) -> pa.DataType:
        return read_delta_type(self.type)


def make_history_name(column: DeltaColumn) -> str:
    """Make the name of a column in a history: none is one of ours, or has a type behind an @."""
    name = column.name.replace("@", "@@")
    return f"{name}_" if fold_case(name).rstrip("_") in _OWN else name


def fit_columns(stored: Iterable[HistoryColumn], schema: TableSchema) -> list[HistoryColumn]:
    """Return the columns of a history once it has rows of a schema, in that schema's order."""
    columns = {fold_case(column.name): column for column in stored}
    placed = {}
    for delta in list_delta_columns(schema):
        name = make_history_name(delta)
        fitted = HistoryColumn(name, delta.type, delta.comment)
        old = columns.pop(fold_case(name), None)
        aside = columns.pop(fold_case(_name_aside(name, delta.type)), None)
        if old is not None and aside is None and can_widen(delta.type, old.type):
            fitted = replace(old, name=name, comment=delta.comment)
        elif old is not None and can_widen(old.type, delta.type):
            sources = (*old.sources, *(() if aside is None else aside.sources))
            fitted = replace(fitted, sources=sources)
        elif aside is not None or old is not None:
            fitted = replace(fitted, sources=() if aside is None else aside.sources)
            if old is not None:
                moved = replace(old, name=_name_aside(name, old.type))
                known = columns.get(fold_case(moved.name))
                if known is not None:
                    moved = replace(moved, sources=(*known.sources, *moved.sources))
                columns[fold_case(moved.name)] = moved
        placed[fold_case(name)] = fitted
    return [*placed.values(), *columns.values()]


def _name_aside(name: str, type: str) -> str:
    """Name the column of the values that had a type once."""
    return f"{name}@{re.sub('[^a-z0-9]+', '_', type).strip('_')}"


def fit_all(stored: Iterable[HistoryColumn], schemas: Iterable[TableSchema]) -> list[HistoryColumn]:
    """Return the columns of a history once it has rows of some schemas."""
    return reduce(fit_columns, schemas, list(stored))


def only_adds(stored: Iterable[HistoryColumn], fitted: Iterable[HistoryColumn]) -> bool:
    """Whether a history gets its new columns without a change to those that it has."""
    by_name = {column.name: column for column in fitted}
    return all(
        column.name in by_name
        and (by_name[column.name].type, by_name[column.name].sources)
        == (column.type, column.sources)
        for column in stored
    )


def store_columns(
    columns: Sequence[HistoryColumn], schema: TableSchema, rows: pa.Table
) -> list[pa.Array]:
    """Return the values of a history's columns for rows of a schema, as Delta has these."""
    values = {}
    for delta in list_delta_columns(schema):
        place = _find_places(columns, delta)[0]
        values[place.name] = rows[delta.name]
    return [
        pa.nulls(rows.num_rows, column.arrow_type)
        if column.name not in values
        else join_chunks(values[column.name]).cast(column.arrow_type)
        for column in columns
    ]


def take_over_columns(
    columns: Iterable[HistoryColumn], stored: Mapping[str, pa.Array], count: int
) -> list[pa.Array]:
    """Return the values of a history's columns from what is stored."""
    return [
        _coalesce([stored[name] for name in column.sources if name in stored], column, count)
        for column in columns
    ]


def read_columns(
    columns: Sequence[HistoryColumn], schema: TableSchema, stored: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """Return the values of a schema's Delta columns, of versions that were open under it."""
    count = len(next(iter(stored.values())))
    return {
        delta.name: _coalesce(
            [stored[place.name] for place in _find_places(columns, delta)], delta, count
        )
        for delta in list_delta_columns(schema)
    }


def _coalesce(
    parts: Iterable[pa.Array], column: HistoryColumn | DeltaColumn, count: int
) -> pa.Array:
    """Return the first value that is not NULL, in the type of a column."""
    type = read_delta_type(column.type)
    fitting = [part.cast(type) for part in parts]
    return pc.coalesce(*fitting) if fitting else pa.nulls(count, type)


def _find_places(columns: Iterable[HistoryColumn], delta: DeltaColumn) -> list[HistoryColumn]:
    """List the columns that may have values of a column, the one to write first."""
    name = fold_case(make_history_name(delta))
    namesakes = [
        column
        for column in columns
        if (folded := fold_case(column.name)) == name
        or (folded.startswith(f"{name}@") and not folded.startswith(f"{name}@@"))
    ]
    fitting = [column for column in namesakes if can_widen(delta.type, column.type)]
    return sorted(fitting, key=lambda column: column.type != delta.type)


def read_stored_columns(fields: Mapping[str, str]) -> list[HistoryColumn]:
    """Return the columns of values of a stored history, by their names and types."""
    return [
        HistoryColumn(name, type, sources=(name,))
        for name, type in fields.items()
        if name not in _OWN
    ]
