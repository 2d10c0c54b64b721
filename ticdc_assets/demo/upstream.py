"""A small database that knows its truth at any ts.

Rows are tuples of MySQL texts.  This module shares no code with the readers of the changefeed, so
that it can be their oracle.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from ticdc_assets.demo.change import Change, ChangedRow, CommittedTransaction, RowTexts, Truth
from ticdc_assets.demo.net_change import arrange_rows, make_move_test
from ticdc_assets.events import TableSchema

_Name = tuple[str, str]
# The rows before a transaction.
_Undo = list[tuple["UpstreamTable", Any, RowTexts | None]]


class UpstreamTable:
    """The rows of a table under one schema, by key; a DDL makes a new object."""

    __slots__ = ("_defaults", "key", "moves", "rows", "schema")

    def __init__(self, schema: TableSchema, rows: dict[Any, RowTexts]) -> None:
        self.schema = schema
        self.rows = rows
        places = {column.name: place for place, column in enumerate(schema.columns)}
        self.key: Callable[[RowTexts], Any] = itemgetter(*(places[name] for name in schema.key))
        self.moves = make_move_test(schema)
        self._defaults = {column.name: column.default for column in schema.columns}

    def row(self, values: Mapping[str, str | None]) -> RowTexts:
        """Make a row from values by column, with defaults; ignore unknown columns."""
        return tuple([values.get(name, default) for name, default in self._defaults.items()])

    def changed(self, row: RowTexts, values: Mapping[str, str | None]) -> RowTexts:
        pairs = zip(self._defaults, row, strict=True)
        return tuple([values.get(name, text) for name, text in pairs])

    def value(self, row: RowTexts, column: str) -> str | None:
        return row[list(self._defaults).index(column)]


class Transaction:
    """Row changes that commit together; only the net change per key counts."""

    def __init__(self, upstream: "Upstream") -> None:
        self._upstream = upstream
        # The row of every changed key before the transaction.
        self._touched: dict[UpstreamTable, dict[Any, RowTexts | None]] = {}

    def insert(self, table: UpstreamTable, **values: str | None) -> None:
        self.put(table, table.row(values))

    def put(self, table: UpstreamTable, row: RowTexts) -> None:
        key = table.key(row)
        self._remember(table, key)
        table.rows[key] = row

    def update(self, table: UpstreamTable, key: Any, **values: str | None) -> None:
        """Change columns of a row, which may include its key."""
        new = table.changed(table.rows[key], values)
        if table.key(new) != key:
            self.delete(table, key)
        self.put(table, new)

    def delete(self, table: UpstreamTable, key: Any) -> None:
        self._remember(table, key)
        table.rows.pop(key, None)

    def commit(self) -> None:
        undo: _Undo = []
        rows: list[ChangedRow] = []
        for table, before in self._touched.items():
            net = [(key, old, table.rows.get(key)) for key, old in before.items()]
            net = [change for change in net if change[1] != change[2]]
            undo += [(table, key, old) for key, old, _ in net]
            changes = (ChangedRow(table.schema, old, new) for _, old, new in net)
            rows += arrange_rows(changes, table.moves)
        if rows:
            self._upstream.committed(rows, undo)

    def _remember(self, table: UpstreamTable, key: Any) -> None:
        before = self._touched.setdefault(table, {})
        if key not in before:
            before[key] = table.rows.get(key)


class Upstream:
    """Databases and tables, a TSO clock, and a journal of past states.

    Without `history`, there is no journal, and only the present truth is known.
    """

    def __init__(self, start_ms: int, *, history: bool = True) -> None:
        self.start_ts = start_ms << 18
        self.tables: dict[_Name, UpstreamTable] = {}
        self._ts = self.start_ts
        self._clock_ms = float(start_ms)
        self._ids = 100
        self._history = history
        # The state before each commit ts: the rows of a transaction, or all tables before a DDL.
        self._journal: list[tuple[int, _Undo | dict[_Name, UpstreamTable]]] = []
        self._changes: list[Change] = []

    @property
    def now(self) -> int:
        return self._ts

    def advance(self, ms: float) -> None:
        """Advance the clock."""
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
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def committed(self, rows: list[ChangedRow], undo: _Undo) -> None:
        ts = self.next_ts()
        if self._history:
            self._journal.append((ts, undo))
        self._changes.append(CommittedTransaction(ts, rows))

    def executed(self, change: Change, before: dict[_Name, UpstreamTable]) -> None:
        """Record a DDL and the tables before it."""
        if self._history:
            self._journal.append((change.ts, before))
        self._changes.append(change)

    def replace(
        self, name: _Name, schema: TableSchema, row: Callable[[RowTexts], RowTexts] | None = None
    ) -> None:
        """Replace a table by one with a new schema, and convert every row."""
        rows = self.tables.pop(name).rows
        converted = dict(rows) if row is None else {key: row(old) for key, old in rows.items()}
        self.tables[schema.database, schema.table] = UpstreamTable(schema, converted)

    def create(self, schema: TableSchema) -> TableSchema:
        schema = replace(schema, table_id=self.next_id())
        self.tables[schema.database, schema.table] = UpstreamTable(schema, {})
        return schema

    def truth(self, ts: int | None = None) -> Truth:
        """Return all tables after every change up to `ts` (default: now)."""
        tables = dict(self.tables)
        if ts is not None and ts < self._ts and not self._history:
            raise ValueError("the upstream keeps no history")
        rows_of: dict[int, dict[Any, RowTexts]] = {}
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
