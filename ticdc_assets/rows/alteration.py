"""What the column changes of a DDL do to rows; a column that keeps its values is not touched."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import CONTENT_ERRORS, InvalidValue, TableCannotContinue
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import Alter, TableStep
from ticdc_assets.rows.column_moves import keeps_values
from ticdc_assets.rows.columns import get_arrow_type, list_stored_columns
from ticdc_assets.rows.stored import (
    Stored,
    fill_stored,
    find_values,
    read_stored,
    store_values,
)
from ticdc_assets.rows.table_rows import Rows, make_nulls
from ticdc_assets.rows.typing import refit
from ticdc_assets.schema.conversion.convert import backfill, make_converter
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.types.value import Value
from ticdc_assets.stream.problem import TWO_VALUES


def alter_rows(rows: Rows, before: TableSchema, step: TableStep) -> Rows:
    """Take rows to the columns of a step's schema; raise a `TicdcError` if one cannot go."""
    altered = _ColumnsInWork(rows, before)
    if isinstance(step, Alter):
        for change in step.steps:
            altered.apply(change, step.commit_ts)
    return altered.fit(step.schema)


def show_rows(
    rows: Rows, before: TableSchema, changes: Iterable[ColumnChange], after: TableSchema
) -> Rows:
    """Show rows of the past with the columns of a later schema.

    A column that they did not have yet is NULL, and so is a value that cannot be converted.
    """
    shown = _ColumnsToShow(rows, before)
    for change in changes:
        shown.apply(change, 0)
    return shown.fit(after)


def alter_kept(rows: Rows, before: TableSchema, step: TableStep) -> Rows:
    """Take kept rows to the columns of a step's schema.

    They are in no table upstream, so a value may be one that the DDL cannot convert: it is NULL.
    """
    altered = _KeptColumns(rows, before)
    if isinstance(step, Alter):
        for change in step.steps:
            altered.apply(change, step.commit_ts)
    return replace(rows, columns=altered.fit(step.schema).columns)


class _ColumnsInWork:
    """The columns of rows, and what their types are, after some column changes."""

    def __init__(self, rows: Rows, schema: TableSchema) -> None:
        self._commit_ts = rows.commit_ts
        self._columns = dict(rows.columns)
        self._types = {column.name: column.type for column in list_stored_columns(schema)}

    def apply(self, change: ColumnChange, commit_ts: int) -> None:
        """Apply one change."""
        match change:
            case ColumnAdded(column):
                stored = self._take_shown(column.name, column.type)
                if stored is None or not pc.all(find_values(stored)).as_py():
                    added = self._make_backfill(change, commit_ts)
                    stored = added if stored is None else fill_stored(stored, added)
                self._columns[column.name] = stored
                self._types[column.name] = column.type
            case ColumnDropped(name):
                self._columns.pop(name, None)
                self._types.pop(name, None)
            case ColumnRenamed(old, new) if old in self._columns:
                stored, type = self._columns.pop(old), self._types.pop(old)
                shown = self._take_shown(new, type)
                self._columns[new] = stored if shown is None else self._join(stored, shown, change)
                self._types[new] = type
            case ColumnConverted(name) if name in self._columns:
                self._columns[name] = self._convert(change, commit_ts)
                self._types[name] = change.new

    def fit(self, schema: TableSchema) -> Rows:
        """Return the rows with the columns of a schema."""
        rows = Rows(self._columns, self._commit_ts).rename_like(schema)
        types = {name.casefold(): type for name, type in self._types.items()}
        columns = dict(rows.columns)
        for column in list_stored_columns(schema):
            stored = columns[column.name]
            if stored.values.type != get_arrow_type(column.type):
                known = self._types.get(column.name) or types[column.name.casefold()]
                columns[column.name] = self._refit(column.name, stored, known, column.type)
        return Rows(columns, rows.commit_ts)

    def _take_shown(self, name: str, type: ColumnType) -> Stored | None:
        """Take a column out that rows showed before the statement that makes it."""
        folded = fold_name(name)
        shown = next((known for known in self._columns if fold_name(known) == folded), None)
        if shown is None:
            return None
        return self._refit(name, self._columns.pop(shown), self._types.pop(shown), type)

    def _refit(self, name: str, stored: Stored, old: ColumnType, new: ColumnType) -> Stored:
        """Return values of a column in a type that no statement has converted them to."""
        fitted, is_wrong = refit(stored, old, new)
        if is_wrong is not None and pc.any(is_wrong).as_py():
            raise InvalidValue(f"a value of type {old.name} is none of {new.name}", column=name)
        return fitted

    def _join(self, stored: Stored, shown: Stored, change: ColumnRenamed) -> Stored:
        """Return a renamed column with the values of rows that had its new name already."""
        if pc.any(pc.and_(find_values(stored), find_values(shown))).as_py():
            raise TableCannotContinue(TWO_VALUES.format(change.old, change.new))
        return fill_stored(stored, shown)

    def _make_backfill(self, change: ColumnAdded, commit_ts: int) -> Stored:
        """Return the value that existing rows get in an added column."""
        column, count = change.column, len(self._commit_ts)
        if not count:
            return make_nulls(0, column.type)
        value = backfill(column, commit_ts, change.zone)
        return store_values([value], column.type).take(pa.repeat(pa.scalar(0), count))

    def _convert(self, change: ColumnConverted, commit_ts: int) -> Stored:
        """Return a column in its new type."""
        stored = self._columns[change.name]
        if not len(self._commit_ts):
            return make_nulls(0, change.new)
        if keeps_values([change], commit_ts):
            return Stored(stored.values.cast(get_arrow_type(change.new)), stored.exact)
        convert = make_converter(change.old, change.new, change.zone)
        try:
            return _map_distinct(stored, change.old, change.new, convert)
        except InvalidValue as problem:
            raise InvalidValue(problem.reason, column=change.name) from None


class _ColumnsToShow(_ColumnsInWork):
    """The columns of rows of the past."""

    def _make_backfill(self, change: ColumnAdded, commit_ts: int) -> Stored:
        return make_nulls(len(self._commit_ts), change.column.type)

    def _refit(self, name: str, stored: Stored, old: ColumnType, new: ColumnType) -> Stored:
        return refit(stored, old, new).stored

    def _join(self, stored: Stored, shown: Stored, change: ColumnRenamed) -> Stored:
        return fill_stored(stored, shown)

    def _convert(self, change: ColumnConverted, commit_ts: int) -> Stored:
        stored = self._columns[change.name]
        try:
            if not len(self._commit_ts) or keeps_values([change], commit_ts):
                return super()._convert(change, commit_ts)
            convert = make_converter(change.old, change.new, change.zone)
        except CONTENT_ERRORS:
            return make_nulls(len(self._commit_ts), change.new)

        def convert_some(value: Value) -> Value:
            try:
                return convert(value)
            except CONTENT_ERRORS:
                return None

        return _map_distinct(stored, change.old, change.new, convert_some)


class _KeptColumns(_ColumnsToShow):
    """The columns of kept rows: a new one has the value that other rows get."""

    def _make_backfill(self, change: ColumnAdded, commit_ts: int) -> Stored:
        try:
            return _ColumnsInWork._make_backfill(self, change, commit_ts)
        except CONTENT_ERRORS:
            return super()._make_backfill(change, commit_ts)


def _map_distinct(
    stored: Stored, old: ColumnType, new: ColumnType, convert: Callable[[Value], Value]
) -> Stored:
    """Convert every value, each distinct one once."""
    values = stored.values
    if stored.exact is not None or pa.types.is_list(values.type):
        return store_values([convert(value) for value in read_stored(stored, old)], new)
    encoded = values.dictionary_encode()
    distinct = read_stored(Stored(encoded.dictionary), old)
    return store_values([convert(value) for value in distinct], new).take(encoded.indices)
