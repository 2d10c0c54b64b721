"""The rows of one table, and what events and DDLs do to them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.conversion.convert import backfill, convert_value
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.types.value import Value
from ticdc_assets.stream.problem import KEY_OF_SEVERAL_ROWS, KEY_WITHOUT_VALUE, TWO_VALUES

ModelRow = dict[str, Value]
_Identity = tuple[object, ...]
# A text of these may have more digits than its moment needs.
_MOMENTS = {"datetime", "time", "timestamp"}


class ModelTable:
    """Rows by their handle key; a table without a key is a multiset of whole rows."""

    def __init__(self, schema: TableSchema) -> None:
        self._set_schema(schema)
        self.pause_reason: str | None = None
        # Whether there are rows whose schema has not arrived.
        self.is_waiting = False
        # Why upstream has rows that the stream does not hold.
        self.partial_reason: str | None = None
        self._rows: dict[_Identity, ModelRow] = {}
        self._copies: Counter[_Identity] = Counter()
        # Rows of which the stream holds only the key (handle-key-only messages): their key columns.
        self.incomplete: dict[_Identity, ModelRow] = {}
        # Whether EXCHANGE PARTITION may have put rows into partitions they do not belong to.
        self.has_misplaced_rows = False

    @property
    def schema(self) -> TableSchema:
        return self._schema

    def _set_schema(self, schema: TableSchema) -> None:
        self._schema = schema
        self._names = {column.name for column in schema.columns}
        columns = ((schema.column(name), name) for name in schema.key)
        self.key = tuple(column.name if column else name for column, name in columns)
        self._moments = {c.name for c in schema.columns if c.type.name in _MOMENTS}
        # The schema versions, columns and keys that rows state, as far as they match this schema.
        self.matching_rows: set[tuple[int | None, str, tuple[str, ...] | None]] = set()

    def __iter__(self) -> Iterator[ModelRow]:
        for identity, row in self._rows.items():
            for _ in range(self._copies[identity]):
                yield row

    def __len__(self) -> int:
        return self._copies.total()

    def identity(self, row: ModelRow) -> _Identity:
        """Return what identifies a row: its key, or all its values.

        A column that a row lacks is NULL, as in the tables of the lake.
        """
        if not self._moments.isdisjoint(row):
            row = {n: _shorten(v) if n in self._moments else v for n, v in row.items()}
        if self.key:
            try:
                return tuple(row[name] for name in self.key)
            except KeyError:
                # An incomplete row holds the key columns of the time it was written.
                pass
        values = ((name, repr(value)) for name, value in row.items() if value is not None)
        return tuple(sorted(values))

    def put(self, row: ModelRow, copies: int = 1) -> None:
        """Insert a row, or overwrite the row with its key."""
        identity = self.identity(row)
        self.incomplete.pop(identity, None)
        self._rows[identity] = row
        self._copies[identity] = 1 if self.key else self._copies[identity] + copies

    def remove(self, row: ModelRow, copies: int = 1) -> None:
        """Delete the row with this key, or copies of this row in a table without a key."""
        identity = self.identity(row)
        self.incomplete.pop(identity, None)
        if identity not in self._rows:
            return
        left = 0 if self.key else self._copies[identity] - copies
        if left > 0:
            self._copies[identity] = left
        else:
            del self._rows[identity], self._copies[identity]

    def contains(self, row: ModelRow) -> bool:
        """Return whether a row with this key exists, complete or incomplete."""
        identity = self.identity(row)
        return identity in self._rows or identity in self.incomplete

    def find_by_unique_keys(self, row: ModelRow) -> ModelRow | None:
        """Return the row with the same values in all unique keys over nullable columns, if any.

        Such a key identifies a row only where it has no NULL, so at least one key must have none.
        All keys must match: a row that shares only one of them is another row.
        """
        keys = self.schema.unique_keys
        if not any(all(row.get(name) is not None for name in key) for key in keys):
            return None
        names = {name for key in keys for name in key}
        for other in self:
            if all(other.get(name) == row.get(name) for name in names):
                return other
        return None

    def mark_incomplete(self, row: ModelRow) -> None:
        """Replace a row by its key, because the stream holds no more of it."""
        self.remove(row)
        self.incomplete[self.identity(row)] = row

    def take_rows(self, chosen: Callable[[ModelRow], bool]) -> "TakenRows":
        """Remove and return the rows that satisfy `chosen`."""
        taken = TakenRows(
            [row for row in self if chosen(row)],
            [row for row in self.incomplete.values() if chosen(row)],
        )
        for row in (*taken.rows, *taken.incomplete):
            self.remove(row)
        return taken

    def put_rows(self, taken: "TakenRows") -> None:
        """Insert rows taken from this table or from a table with the same columns."""
        for row in taken.rows:
            self.put(self.rename_columns(row))
        for row in taken.incomplete:
            renamed = self.rename_columns(row)
            self.incomplete[self.identity(renamed)] = renamed

    def rename_columns(self, row: ModelRow) -> ModelRow:
        """Return the row with column names in the case this table uses."""
        names = self._names
        if all(name in names for name in row):
            return row
        columns = ((self._schema.column(name), name) for name in row)
        own_names = {name: column.name if column else name for column, name in columns}
        return {own_names[name]: value for name, value in row.items()}

    def rename(self, schema: TableSchema) -> None:
        """Give the table the name in a schema."""
        self._schema = self._schema.with_name(schema.database, schema.table)

    def alter(self, schema: TableSchema, steps: Sequence[ColumnChange], commit_ts: int) -> None:
        """Set a new schema and change the existing rows step by step."""
        if _partitioning(schema) != _partitioning(self._schema):
            # TiDB has moved every row to the partition it belongs to.
            self.has_misplaced_rows = False
        if not steps and schema.key == self.key:
            self._set_schema(schema)
            return
        rows, incomplete = list(self), list(self.incomplete.values())
        for step in steps:
            rows = [_change_row(row, step, commit_ts) for row in rows]
            if not isinstance(step, ColumnAdded):
                incomplete = [_change_row(row, step, commit_ts) for row in incomplete]
        altered = ModelTable(schema)
        altered.put_rows(TakenRows(rows, incomplete))
        if altered.key:
            altered._require_key(rows)
        self._set_schema(schema)
        self._rows, self._copies = altered._rows, altered._copies
        self.incomplete = altered.incomplete

    def _require_key(self, rows: Sequence[ModelRow]) -> None:
        """Raise if the key does not tell apart the rows that the table got with it."""
        for row in map(self.rename_columns, rows):
            for name in self.key:
                if row.get(name) is None:
                    raise TableCannotContinue(KEY_WITHOUT_VALUE.format(name))
            if self._rows[self.identity(row)] != row:
                raise TableCannotContinue(KEY_OF_SEVERAL_ROWS.format(", ".join(self.key)))


def _shorten(value: Value) -> Value:
    """Return the text of a moment without what it ends in that means nothing."""
    return value.rstrip("0").rstrip(".") if isinstance(value, str) and "." in value else value


class TakenRows(NamedTuple):
    """Rows taken out of a table, and the keys of the incomplete ones."""

    rows: list[ModelRow]
    incomplete: list[ModelRow]


def _partitioning(schema: TableSchema) -> tuple[object, ...]:
    """Return how a table assigns rows to partitions, regardless of which partitions exist."""
    by = schema.partitioning
    return () if by is None else (by.kind, by.expression, by.columns)


def _change_row(row: ModelRow, step: ColumnChange, commit_ts: int) -> ModelRow:
    match step:
        case ColumnAdded(column, zone):
            row, shown = _take_shown(row, column.name)
            value = backfill(column, commit_ts, zone) if shown is None else shown
            return {**row, column.name: value}
        case ColumnDropped(name):
            return {n: v for n, v in row.items() if n != name}
        case ColumnRenamed(old, new):
            if old not in row:
                return row
            value = row[old]
            row, shown = _take_shown({n: v for n, v in row.items() if n != old}, new)
            if value is not None and shown is not None:
                raise TableCannotContinue(TWO_VALUES.format(old, new))
            return {**row, new: shown if value is None else value}
        case ColumnConverted(name, old_type, new_type, zone):
            if name not in row:
                return row
            return {**row, name: convert_value(row[name], old_type, new_type, zone)}


def _take_shown(row: ModelRow, name: str) -> tuple[ModelRow, Value]:
    """Take the value out of a row that it had before the statement that makes the column."""
    folded = fold_name(name)
    others = {known: value for known, value in row.items() if fold_name(known) != folded}
    return others, next((v for known, v in row.items() if known not in others), None)
