"""A small database that knows its truth at any moment.

Rows are tuples of MySQL texts; what happens to them here is plain and its own, so that it can be an
oracle for whatever reads the changefeed.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from ticdc_assets.demo.change import Change, Commit, Row, RowChange, Truth
from ticdc_assets.events import TableSchema

_Name = tuple[str, str]
# Rows as they were before a transaction.
_Undo = list[tuple["Table", Any, Row | None]]


class Table:
    """A table at one schema: rows by key.  A statement makes a new one, this stays as it was."""

    __slots__ = ("_defaults", "_keys_of_others", "key", "rows", "schema")

    def __init__(self, schema: TableSchema, rows: dict[Any, Row]) -> None:
        self.schema = schema
        self.rows = rows
        places = {column.name: place for place, column in enumerate(schema.columns)}
        self.key: Callable[[Row], Any] = itemgetter(*(places[name] for name in schema.key))
        unique = {name for index in schema.indexes if index.unique for name in index.columns}
        self._keys_of_others = [places[name] for name in unique]
        self._defaults = {column.name: column.default for column in schema.columns}

    def row(self, values: Mapping[str, str | None]) -> Row:
        """A row from values by column, defaults filled in; the table may lack some columns."""
        return tuple([values.get(name, default) for name, default in self._defaults.items()])

    def changed(self, row: Row, values: Mapping[str, str | None]) -> Row:
        pairs = zip(self._defaults, row, strict=True)
        return tuple([values.get(name, text) for name, text in pairs])

    def value(self, row: Row, column: str) -> str | None:
        return row[list(self._defaults).index(column)]

    def moves(self, old: Row, new: Row) -> bool:
        """Whether an update changes a column of any unique index: TiCDC splits it then."""
        return any(old[place] != new[place] for place in self._keys_of_others)


class Transaction:
    """Row changes that commit together; of one key only the sum of them counts."""

    def __init__(self, upstream: "Upstream") -> None:
        self._upstream = upstream
        # What each touched key was before.
        self._touched: dict[Table, dict[Any, Row | None]] = {}

    def insert(self, table: Table, **values: str | None) -> None:
        self.put(table, table.row(values))

    def put(self, table: Table, row: Row) -> None:
        key = table.key(row)
        self._remember(table, key)
        table.rows[key] = row

    def update(self, table: Table, key: Any, **values: str | None) -> None:
        """Change columns of a row, its key among them or not."""
        new = table.changed(table.rows[key], values)
        if table.key(new) != key:
            self.delete(table, key)
        self.put(table, new)

    def delete(self, table: Table, key: Any) -> None:
        self._remember(table, key)
        table.rows.pop(key, None)

    def commit(self) -> None:
        undo: _Undo = []
        rows: list[RowChange] = []
        for table, before in self._touched.items():
            deletes: list[RowChange] = []
            updates: list[RowChange] = []
            inserts: list[RowChange] = []
            split: list[RowChange] = []
            for key, old in before.items():
                new = table.rows.get(key)
                if old == new:
                    continue
                undo.append((table, key, old))
                if old is None:
                    inserts.append(RowChange(table.schema, None, new))
                elif new is None:
                    deletes.append(RowChange(table.schema, old, None))
                elif table.moves(old, new):
                    deletes.append(RowChange(table.schema, old, None))
                    split.append(RowChange(table.schema, None, new))
                else:
                    updates.append(RowChange(table.schema, old, new))
            rows += deletes + updates + inserts + split
        if rows:
            self._upstream.committed(rows, undo)

    def _remember(self, table: Table, key: Any) -> None:
        before = self._touched.setdefault(table, {})
        if key not in before:
            before[key] = table.rows.get(key)


class Upstream:
    """Databases and tables, a clock of TSOs, and a journal to look back with.

    Without `history` the journal is not kept, and the truth is known at present only.
    """

    def __init__(self, start_ms: int, *, history: bool = True) -> None:
        self.start_ts = start_ms << 18
        self.tables: dict[_Name, Table] = {}
        self._ts = self.start_ts
        self._clock_ms = float(start_ms)
        self._ids = 100
        self._history = history
        # By commit ts what was before: rows of a transaction, the whole catalog of a statement.
        self._journal: list[tuple[int, _Undo | dict[_Name, Table]]] = []
        self._changes: list[Change] = []

    @property
    def now(self) -> int:
        return self._ts

    def advance(self, ms: float) -> None:
        """Let time pass."""
        self._clock_ms += ms
        self._ts = max(self._ts, int(self._clock_ms) << 18)

    def next_ts(self) -> int:
        self._ts += 1
        return self._ts

    def next_id(self) -> int:
        self._ids += 2
        return self._ids

    def begin(self) -> Transaction:
        return Transaction(self)

    def drain(self) -> list[Change]:
        """Hand over what happened since the last time."""
        changes, self._changes = self._changes, []
        return changes

    def committed(self, rows: list[RowChange], undo: _Undo) -> None:
        ts = self.next_ts()
        if self._history:
            self._journal.append((ts, undo))
        self._changes.append(Commit(ts, rows))

    def executed(self, change: Change, before: dict[_Name, Table]) -> None:
        """A statement replaced tables: keep how they were."""
        if self._history:
            self._journal.append((change.ts, before))
        self._changes.append(change)

    def replace(
        self, name: _Name, schema: TableSchema, row: Callable[[Row], Row] | None = None
    ) -> None:
        """Put a new schema in a table's place, every row converted."""
        rows = self.tables.pop(name).rows
        converted = dict(rows) if row is None else {key: row(old) for key, old in rows.items()}
        self.tables[schema.database, schema.table] = Table(schema, converted)

    def create(self, schema: TableSchema) -> TableSchema:
        schema = replace(schema, table_id=self.next_id())
        self.tables[schema.database, schema.table] = Table(schema, {})
        return schema

    def truth(self, ts: int | None = None) -> Truth:
        """All tables after every change up to `ts`, which is now if not given."""
        tables = dict(self.tables)
        if ts is not None and ts < self._ts and not self._history:
            raise ValueError("the upstream keeps no history")
        rows_of: dict[int, dict[Any, Row]] = {}
        for changed, undo in reversed(self._journal):
            if ts is None or changed <= ts:
                break
            if isinstance(undo, dict):
                tables = dict(undo)
                continue
            for table, key, old in undo:
                rows = rows_of.get(id(table))
                if rows is None:
                    rows = rows_of[id(table)] = dict(table.rows)
                if old is None:
                    del rows[key]
                else:
                    rows[key] = old
        truth: Truth = {}
        for name, table in tables.items():
            names = [column.name for column in table.schema.columns]
            rows = rows_of.get(id(table), table.rows)
            truth[name] = [dict(zip(names, row, strict=True)) for row in rows.values()]
        return truth
