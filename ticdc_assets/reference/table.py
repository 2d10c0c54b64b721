"""The rows of one table, and what events and DDL do to them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ticdc_assets.events import TableSchema
from ticdc_assets.schema.conversion.convert import backfill, convert_value
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.types.value import Value

Row = dict[str, Value]
_Identity = tuple[object, ...]


class ModelTable:
    """Rows by their handle key; a table without one is a multiset of whole rows."""

    def __init__(self, schema: TableSchema) -> None:
        self._take_on(schema)
        self.paused: str | None = None
        self._rows: dict[_Identity, Row] = {}
        self._copies: Counter[_Identity] = Counter()
        # Rows of which the stream has the key only (handle-key-only messages): their keys' columns.
        self.incomplete: dict[_Identity, Row] = {}
        # Whether rows may lie in other partitions than their values say.
        self.strayed = False

    @property
    def schema(self) -> TableSchema:
        return self._schema

    def _take_on(self, schema: TableSchema) -> None:
        self._schema = schema
        self._names = {column.name for column in schema.columns}
        self.key = schema.key
        # What rows said of their columns and this schema agrees with.
        self.confirmed: set[str | None] = {None}

    def __iter__(self) -> Iterator[Row]:
        for identity, row in self._rows.items():
            for _ in range(self._copies[identity]):
                yield row

    def __len__(self) -> int:
        return self._copies.total()

    def identity(self, row: Row) -> _Identity:
        """What tells this row from the others: its key, or all of it."""
        if self.key:
            try:
                return tuple(row[name] for name in self.key)
            except KeyError:
                # Of an incomplete row the key of another time is known.
                pass
        return tuple(sorted((name, repr(value)) for name, value in row.items()))

    def put(self, row: Row, copies: int = 1) -> None:
        """Insert a row, or overwrite the one of its key."""
        identity = self.identity(row)
        self.incomplete.pop(identity, None)
        self._rows[identity] = row
        self._copies[identity] = 1 if self.key else self._copies[identity] + copies

    def remove(self, row: Row, copies: int = 1) -> bool:
        """Delete the row of this key (or copies of this very row); tell whether it was there."""
        identity = self.identity(row)
        self.incomplete.pop(identity, None)
        if identity not in self._rows:
            return False
        left = 0 if self.key else self._copies[identity] - copies
        if left > 0:
            self._copies[identity] = left
        else:
            del self._rows[identity], self._copies[identity]
        return True

    def has(self, row: Row) -> bool:
        """Whether a row of this key is there, or is known to be without its values."""
        identity = self.identity(row)
        return identity in self._rows or identity in self.incomplete

    def same_by_unique_keys(self, row: Row) -> Row | None:
        """The row that unique keys over nullable columns say is the same one, if any.

        Such a key is no identity, as many rows may have NULL in it; where it has none, it is.  All
        of them have to agree: a row that has only one of them from another is that one no more.
        """
        keys = self.schema.unique_keys
        if not any(all(row.get(name) is not None for name in key) for key in keys):
            return None
        names = {name for key in keys for name in key}
        for other in self:
            if all(other.get(name) == row.get(name) for name in names):
                return other
        return None

    def forget(self, row: Row) -> None:
        """The row exists, but the stream holds no more of it than its key."""
        self.remove(row)
        self.incomplete[self.identity(row)] = row

    def take(self, chosen: Callable[[Row], bool]) -> "TakenRows":
        """Remove and return the rows for which `chosen` says so."""
        taken = TakenRows(
            [row for row in self if chosen(row)],
            [row for row in self.incomplete.values() if chosen(row)],
        )
        for row in (*taken.rows, *taken.incomplete):
            self.remove(row)
        return taken

    def fill(self, taken: "TakenRows") -> None:
        """Put in rows that were taken, from here or from a table of the same columns."""
        for row in taken.rows:
            self.put(self.spelt(row))
        for row in taken.incomplete:
            known = self.spelt(row)
            self.incomplete[self.identity(known)] = known

    def spelt(self, row: Row) -> Row:
        """The row with column names as this table spells them."""
        names = self._names
        if all(name in names for name in row):
            return row
        columns = ((self._schema.column(name), name) for name in row)
        spelling = {name: column.name if column else name for column, name in columns}
        return {spelling[name]: value for name, value in row.items()}

    def alter(self, schema: TableSchema, steps: Sequence[ColumnChange], commit_ts: int) -> None:
        """Take on a new schema, changing the rows that are there step by step."""
        if _cut(schema) != _cut(self._schema):
            # Every row was put where it belongs.
            self.strayed = False
        if not steps and schema.key == self.key:
            self._take_on(schema)
            return
        rows, incomplete = list(self), list(self.incomplete.values())
        for step in steps:
            rows = [_stepped(row, step, commit_ts) for row in rows]
            if not isinstance(step, ColumnAdded):
                incomplete = [_stepped(row, step, commit_ts) for row in incomplete]
        self._rows.clear()
        self._copies.clear()
        self.incomplete.clear()
        self._take_on(schema)
        self.fill(TakenRows(rows, incomplete))


class TakenRows(NamedTuple):
    """Rows taken out of a table, and what is known of those that are incomplete."""

    rows: list[Row]
    incomplete: list[Row]


def _cut(schema: TableSchema) -> tuple[object, ...]:
    """How the partitions of a table are chosen, whichever there are."""
    by = schema.partitioning
    return () if by is None else (by.kind, by.expression, by.columns)


def _stepped(row: Row, step: ColumnChange, commit_ts: int) -> Row:
    match step:
        case ColumnAdded(column):
            return row if column.name in row else {**row, column.name: backfill(column, commit_ts)}
        case ColumnDropped(name):
            return {n: v for n, v in row.items() if n != name}
        case ColumnRenamed(old, new):
            return {new if n == old else n: v for n, v in row.items()}
        case ColumnConverted(name, old_type, new_type):
            if name not in row:
                return row
            return {**row, name: convert_value(row[name], old_type, new_type)}
