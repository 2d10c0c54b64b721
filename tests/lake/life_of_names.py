"""The life of twenty tables: rows and DDL of every kind, at random, and what TiDB has after them.

`Life` is a naive upstream: its tables are dictionaries of rows.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import TableNotFoundError

from tests.lake.canal import change, ddl, placed, watermark
from ticdc_assets.lake.advance import RecordSource
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.open_table import open_table

TABLES = 20
_CHANGES_PER_WINDOW = 12
_DATABASES = ("d", "e")
_NAMES = (
    *(f"t{number}" for number in range(TABLES)),
    *("a.b", "x  y", "订单 👍", "q\"t'", "b`k", "Select", "n" * 64, "-rf", "%41", "\\`"),
)
_INT, _BIGINT, _TEXT = "int", "bigint", "varchar(20)"
# The partition that is exchanged has the ids below.
_BOUND = 1000

Name = tuple[str, str]
Row = dict[str, Any]
Rows = dict[int, Row]
Contents = dict[Name, list[Row]]


@dataclass
class Table:
    types: dict[str, str] = field(default_factory=lambda: {"id": _INT, "v": _INT})
    rows: Rows = field(default_factory=dict)
    # A table with partitions, or one that may take the place of such a partition.
    is_fixed: bool = False


class Life:
    """Creates the tables in its first window; each further window changes some."""

    def __init__(self, seed: int) -> None:
        self.tables: dict[Name, Table] = {}
        self.kinds: set[str] = set()
        self._random = Random(seed)
        self._ts = 0
        self._ids = 0
        self._columns = 0
        self._messages: list[Message] = []
        self._split, self._whole = ("d", "split"), ("d", "whole")

    def live(self) -> Contents:
        """Live through one window; return what each name has at its end."""
        if self.tables:
            for _ in range(_CHANGES_PER_WINDOW):
                self._random.choice(_CHANGES)(self)
        else:
            for number in range(TABLES - 2):
                self._create(("de"[number % 2], f"t{number}"))
            self._create(self._split, is_fixed=True)
            self._create(self._whole, is_fixed=True)
        self._messages.append(watermark(self._tick()))
        return {
            name: sorted(deepcopy([*table.rows.values()]), key=lambda row: row["id"])
            for name, table in self.tables.items()
        }

    def send(self) -> RecordSource:
        """Send all that has happened so far."""
        messages = placed(self._messages)
        return RecordSource(lambda _: messages)

    # What happens

    def create(self) -> None:
        if name := self._choose_new():
            self._create(name)

    def drop(self) -> None:
        if name := self._choose():
            self._drop(name)

    def create_again(self) -> None:
        """Drop and create in one window, with other columns and rows."""
        if name := self._choose():
            self._drop(name)
            self._create(name, types={"v": _TEXT, "id": _INT})

    def truncate(self) -> None:
        if name := self._choose(fixed=True):
            self.tables[name].rows.clear()
            self._send_ddl(name, "TRUNCATE", f"TRUNCATE TABLE {quote(name)}")

    def rename(self) -> None:
        old, new = self._choose(), self._choose_new()
        if old and new:
            self.tables[new] = self.tables.pop(old)
            self._send_ddl(new, "RENAME", f"RENAME TABLE {quote(old)} TO {quote(new)}")

    def swap(self) -> None:
        one, other = self._choose(), self._choose()
        if one and other and one != other:
            tables = self.tables
            tables[one], tables[other] = tables[other], tables[one]
            steps = ((one, ("d", "tmp")), (other, one), (("d", "tmp"), other))
            renames = ", ".join(f"{quote(old)} TO {quote(new)}" for old, new in steps)
            self._send_ddl(("d", ""), "RENAME", f"RENAME TABLE {renames}")

    def exchange(self) -> None:
        split, whole = self.tables[self._split], self.tables[self._whole]
        above = {id: row for id, row in split.rows.items() if id >= _BOUND}
        below = {id: row for id, row in split.rows.items() if id < _BOUND}
        split.rows, whole.rows = above | whole.rows, below
        exchange = f"EXCHANGE PARTITION low WITH TABLE {quote(self._whole)}"
        self._send_ddl(self._split, "ALTER", f"ALTER TABLE {quote(self._split)} {exchange}")

    def add_column(self) -> None:
        if name := self._choose():
            type, default = self._random.choice(((_INT, 7), (_TEXT, "new"), (_BIGINT, None)))
            self._columns += 1
            column, table = f"c{self._columns}", self.tables[name]
            table.types[column] = type
            for row in table.rows.values():
                row[column] = default
            stated = "" if default is None else f" NOT NULL DEFAULT '{default}'"
            self._alter(name, f"ADD COLUMN `{column}` {type}{stated}")

    def drop_column(self) -> None:
        if (name := self._choose()) and (column := self._choose_column(name)):
            table = self.tables[name]
            del table.types[column]
            for row in table.rows.values():
                del row[column]
            self._alter(name, f"DROP COLUMN `{column}`")

    def rename_column(self) -> None:
        if (name := self._choose()) and (column := self._choose_column(name)):
            self._columns += 1
            new, table = f"r{self._columns}", self.tables[name]
            order = {each: new if each == column else each for each in table.types}
            table.types = {order[each]: type for each, type in table.types.items()}
            for id, row in table.rows.items():
                table.rows[id] = {order[each]: value for each, value in row.items()}
            self._alter(name, f"RENAME COLUMN `{column}` TO `{new}`")

    def change_type(self) -> None:
        if (name := self._choose()) and (column := self._choose_column(name)):
            table = self.tables[name]
            type = {_INT: self._random.choice((_BIGINT, _TEXT)), _BIGINT: _TEXT, _TEXT: _TEXT}
            table.types[column] = new = type[table.types[column]]
            for row in table.rows.values():
                if new == _TEXT and row[column] is not None:
                    row[column] = str(row[column])
            self._alter(name, f"MODIFY COLUMN `{column}` {new}")

    def change_rows(self) -> None:
        if name := self._choose(fixed=True):
            table, random = self.tables[name], self._random
            for _ in range(random.randrange(1, 4)):
                kind = random.choice(("INSERT", "INSERT", "UPDATE", "DELETE"))
                if kind == "INSERT":
                    self._ids += 1
                    high = _BOUND if name == self._split and random.random() < 0.5 else 0
                    id = self._ids + high
                    table.rows[id] = {c: self._make_value(t) for c, t in table.types.items()}
                    table.rows[id]["id"] = id
                    self._send_row(name, kind, table.rows[id])
                elif table.rows:
                    id = random.choice([*table.rows])
                    before = table.rows.pop(id)
                    if kind == "DELETE":
                        self._send_row(name, kind, before)
                    else:
                        column = random.choice([*table.types])
                        value = id if column == "id" else self._make_value(table.types[column])
                        table.rows[id] = before | {column: value}
                        self._send_row(name, kind, table.rows[id], {column: before[column]})

    # How it is sent

    def _create(
        self, name: Name, types: dict[str, str] | None = None, *, is_fixed: bool = False
    ) -> None:
        table = Table(is_fixed=is_fixed) if types is None else Table(types)
        self.tables[name] = table
        columns = ", ".join(f"`{column}` {type}" for column, type in table.types.items())
        parts = ""
        if name == self._split:
            bounds = f"low VALUES LESS THAN ({_BOUND}), PARTITION high VALUES LESS THAN MAXVALUE"
            parts = f" PARTITION BY RANGE (id) (PARTITION {bounds})"
        sql = f"CREATE TABLE {quote(name)} ({columns}, PRIMARY KEY (id)){parts}"
        self._send_ddl(name, "CREATE", sql)
        self._ids += 1
        table.rows[self._ids] = {c: self._make_value(t) for c, t in table.types.items()}
        table.rows[self._ids]["id"] = self._ids
        self._send_row(name, "INSERT", table.rows[self._ids])

    def _drop(self, name: Name) -> None:
        del self.tables[name]
        self._send_ddl(name, "ERASE", f"DROP TABLE {quote(name)}")

    def _alter(self, name: Name, action: str) -> None:
        self._send_ddl(name, "ALTER", f"ALTER TABLE {quote(name)} {action}")

    def _send_ddl(self, name: Name, kind: str, sql: str) -> None:
        self.kinds.add(" ".join(sql.split(quote(name))[-1].split()[:2]) or kind)
        self._messages.append(ddl(*name, self._tick(), kind, sql))

    def _send_row(self, name: Name, kind: str, row: Row, old: Row | None = None) -> None:
        types = self.tables[name].types
        self._messages.append(
            change(
                kind,
                *name,
                self._tick(),
                _print(row),
                None if old is None else _print(old),
                **types,
            )
        )

    def _tick(self) -> int:
        self._ts += 1
        return self._ts

    def _make_value(self, type: str) -> Any:
        number = self._random.randrange(-99, 99)
        if self._random.random() < 0.1:
            number = 0
        return f"text {number}" if type == _TEXT else number

    def _choose(self, *, fixed: bool = False) -> Name | None:
        names = [name for name, table in self.tables.items() if fixed or not table.is_fixed]
        return self._random.choice(names) if names else None

    def _choose_new(self) -> Name | None:
        if len(self.tables) >= TABLES:
            return None
        names = [(database, name) for database in _DATABASES for name in _NAMES]
        return self._random.choice([name for name in names if name not in self.tables])

    def _choose_column(self, name: Name) -> str | None:
        columns = [column for column in self.tables[name].types if column != "id"]
        return self._random.choice(columns) if columns else None


# Rows change oftener than tables.
_CHANGES: tuple[Callable[[Life], None], ...] = (
    *(Life.create, Life.create, Life.drop, Life.create_again, Life.truncate),
    *(Life.rename, Life.rename, Life.swap, Life.swap, Life.exchange),
    *(Life.add_column, Life.drop_column, Life.rename_column, Life.change_type),
    *(Life.change_rows,) * 8,
)


def read_named(path: str) -> tuple[str | None, list[Row] | None]:
    """Read what stands at an address: the table's name, and its rows; none of a dropped table."""
    try:
        table = open_table(path)
    except TableNotFoundError:
        return None, None
    stated = table.metadata().configuration
    found = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    own = ("_commit_ts", "_inexact")
    rows = [{c: v for c, v in row.items() if c not in own} for row in found.to_pylist()]
    if stated["ticdc.status"] == "dropped":
        assert not rows
        return stated["ticdc.table"], None
    return stated["ticdc.table"], sorted(rows, key=lambda row: row["id"])


def read_by_name(locations: Iterable[str]) -> Contents:
    """Read the tables that a catalog has, at the URIs where it says they are."""
    contents: Contents = {}
    for location in locations:
        name, rows = read_named(unquote(urlparse(location).path))
        assert name is not None
        assert rows is not None
        database, _, table = name.partition(".")
        contents[database, table] = rows
    return contents


def quote(name: Name) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in name)


def _print(row: Row) -> dict[str, Any]:
    return {column: None if value is None else str(value) for column, value in row.items()}
