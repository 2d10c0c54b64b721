"""Inserts, and a share of updates and deletes, in several tables: the load of benchmarks.

A row is computed from its table, its number and its update count, so the workload keeps one byte
per row.  The truth at a ts is computed again from the start.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Protocol

from ticdc_assets.demo.change import Change, ChangedRow, CommittedTransaction, RowTexts, Truth
from ticdc_assets.demo.column_type import column
from ticdc_assets.demo.statement import Session
from ticdc_assets.demo.upstream import Upstream
from ticdc_assets.events import TableSchema

DATABASE = "bulk"
_COLUMNS = (
    column("id", "bigint", nullable=False),
    column("name", "varchar(64)", nullable=False),
    column("status", "enum('new','paid','shipped')", nullable=False, default="new"),
    column("quantity", "int", nullable=False),
    column("amount", "decimal(12,2)"),
    column("ratio", "double"),
    column("note", "varchar(200)"),
    column("created_at", "datetime(3)", nullable=False),
    column("updated_at", "timestamp"),
)
_STATUSES = ("new", "paid", "shipped")
# The version of a row that was deleted: the last one that a byte can hold.
_DELETED = 255
_NOTES = (None, "plain", 'with "quotes", commas', "süß 日本語", "two\nlines")


class BulkOptions(Protocol):
    """The settings of the workload: transactions of `rows_each` rows, one table after the other."""

    @property
    def seed(self) -> int: ...
    @property
    def transactions(self) -> int: ...
    @property
    def tables(self) -> int: ...
    @property
    def rows_each(self) -> int: ...
    @property
    def updates(self) -> float: ...
    @property
    def deletes(self) -> float: ...


class Bulk:
    """The workload: `opening`, then `running`; a step is one transaction."""

    def __init__(self, options: BulkOptions, start_ms: int, ms_between: float) -> None:
        self._options = options
        self._step = int(ms_between * (1 << 18))
        self._upstream = Upstream(start_ms, history=False)
        session = Session(self._upstream, DATABASE)
        session.create_database()
        for number in range(1, options.tables + 1):
            session.create_table(f"t{number}", _COLUMNS, primary=("id",))
        self._opening = self._upstream.drain()
        self._schemas = [table.schema for table in self._upstream.tables.values()]
        self._begin = self._now = self._upstream.now

    @property
    def now(self) -> int:
        return self._now

    def opening(self) -> Iterator[Sequence[Change]]:
        for change in self._opening:
            yield [change]

    def running(self) -> Iterator[Sequence[Change]]:
        versions = [bytearray() for _ in self._schemas]
        for ts, place, touched in self._touched(versions):
            schema = self._schemas[place]
            self._now = ts
            rows = [_make_change(schema, place, *row) for row in touched]
            yield [CommittedTransaction(ts, rows)]

    def truth(self, ts: int | None = None) -> Truth:
        """Return all tables after every change up to `ts` (default: now)."""
        ts = self._now if ts is None else ts
        versions = [bytearray() for _ in self._schemas]
        done = (ts - self._begin) // self._step if ts >= self._begin else 0
        for _ in zip(range(done), self._touched(versions), strict=False):
            pass
        names = [column.name for column in _COLUMNS]
        return {
            (DATABASE, schema.table): [
                dict(zip(names, _make_row(place, number, version), strict=True))
                for number, version in enumerate(versions[place], 1)
                if version != _DELETED
            ]
            for place, schema in enumerate(self._schemas)
            if self._created(schema) <= ts
        }

    def _created(self, schema: TableSchema) -> int:
        return next(
            change.ts
            for change in self._opening
            if not isinstance(change, CommittedTransaction) and change.after is schema
        )

    def _touched(self, versions: list[bytearray]) -> Iterator[tuple[int, int, list["_Touched"]]]:
        """Yield commit ts, table, and rows; count versions up."""
        chance = Random(self._options.seed).random
        for number in range(1, self._options.transactions + 1):
            place = number % len(versions)
            rows = versions[place]
            before = len(rows)
            touched: list[_Touched] = []
            changed: set[int] = set()
            for _ in range(self._options.rows_each):
                drawn = chance() if before else 1.0
                if drawn < self._options.updates + self._options.deletes:
                    row = int(chance() * before)
                    if row in changed or rows[row] >= _DELETED - 1:
                        continue
                    changed.add(row)
                    old = rows[row]
                    new = old + 1 if drawn < self._options.updates else None
                    rows[row] = _DELETED if new is None else new
                    touched.append((row + 1, old, new))
                else:
                    rows.append(0)
                    touched.append((len(rows), None, 0))
            touched.sort(key=_sort_key)
            yield self._begin + number * self._step, place, touched


# The number of a row, and its version before and after.
_Touched = tuple[int, int | None, int | None]


def _sort_key(touched: _Touched) -> tuple[bool, bool]:
    """Sort a transaction as TiCDC does: deletes, updates, inserts."""
    _, old, new = touched
    return old is None, new is not None


# Parameters: the table, and what is touched of it.
def _make_change(
    schema: TableSchema, place: int, number: int, old: int | None, new: int | None
) -> ChangedRow:
    before, after = (None if v is None else _make_row(place, number, v) for v in (old, new))
    return ChangedRow(schema, before, after)


def _make_row(place: int, number: int, version: int) -> RowTexts:
    mixed = (number * 2654435761 + version * 40503 + place * 97) & 0xFFFFFFFF
    return (
        str(number),
        f"name {place}-{number}-{mixed:x}",
        _STATUSES[version % 3],
        str(mixed % 1000),
        f"{mixed % 1000000}.{mixed % 100:02}",
        f"0.{mixed % 997 + 1000}5",
        _NOTES[mixed % 5],
        f"2026-03-{mixed % 28 + 1:02} {mixed % 24:02}:{mixed % 60:02}:{version % 60:02}"
        f".{mixed % 1000:03}",
        None if version == 0 else f"2026-04-{mixed % 28 + 1:02} 12:{mixed % 60:02}:00",
    )
