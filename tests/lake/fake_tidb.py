"""A MariaDB that says it is TiDB: its tables are filled as they were at the ts that is read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lake.upstream_spy import SpiedRows, UpstreamSpy
from tests.mariadb_server import MariaDb
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.upstream.snapshot import TableUnreadable, UpstreamRows
from ticdc_assets.upstream.sql import quote, quote_text

Row = dict[str, str | None]
# TiDB keeps texts of all charsets but GBK as UTF-8.
_TEXT = re.compile("CAST\\((`(?:[^`]|``)+`) AS BINARY\\)")
# MariaDB's JSON is an alias.
_JSON = re.compile(
    rb"longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin((?: NOT| DEFAULT)? NULL)?"
    rb" CHECK \(json_valid\(`(?:[^`]|``)+`\)\)"
)


@dataclass
class FakeTidb(UpstreamSpy):
    """An upstream; `fill` prepares the tables of a ts, or raises what the server would."""

    fill: Callable[[int], None] = lambda ts: None
    is_tidb: bool = True
    # It has no jobs of DDL.
    may_read_jobs: bool = True

    def wrap(self, rows: UpstreamRows) -> UpstreamRows:
        return _Rows(self, rows, self)


@dataclass
class _Rows(SpiedRows):
    fake: FakeTidb

    @property
    def is_tidb(self) -> bool:
        return self.fake.is_tidb

    def read_at(self, ts: int) -> None:
        self.spy.read.append(ts)
        self.fake.fill(ts)

    def query(self, sql: str, values: Sequence[str] | None = None) -> Any:
        self.spy.sent.append(sql)
        if "tidb_ddl_job" in sql:
            if not self.fake.may_read_jobs:
                raise TableUnreadable("SELECT command denied to user")
            return []
        sql = _TEXT.sub(r"CAST(CONVERT(\1 USING utf8mb4) AS BINARY)", sql)
        rows = self.rows.query(sql, values)
        if not sql.startswith("SHOW"):
            return rows
        return [(name, _JSON.sub(rb"json\1", create or b"")) for name, create, *_ in rows]


def fill_table(server: MariaDb, schema: TableSchema, rows: Sequence[Row]) -> None:
    """Make a table anew, with rows as MySQL prints them."""
    name = f"{quote(schema.database)}.{quote(schema.table)}"
    columns = [f"{quote(c.name)} {declare_type(c)}" for c in schema.columns]
    key = ", ".join(map(quote, schema.key))
    statements: list[Any] = [
        f"CREATE DATABASE IF NOT EXISTS {quote(schema.database)}",
        f"CREATE OR REPLACE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({key}))"
        " CHARACTER SET utf8mb4",
    ]
    places = ", ".join(["%s"] * len(columns))
    statements += [
        (f"INSERT INTO {name} VALUES ({places})", [row[c.name] for c in schema.columns])
        for row in rows
    ]
    server.run(*statements)


def declare_type(column: Column) -> str:
    """Write the type of a column as MariaDB reads it."""
    type = column.type
    text = type.name
    if type.elements is not None:
        text += f"({', '.join(map(quote_text, type.elements))})"
    elif type.name in ("char", "varchar", "decimal") and type.length is not None:
        scale = f", {type.decimals}" if type.decimals else ""
        text += f"({type.length}{scale})"
    return text + " unsigned" * type.unsigned + (" NOT NULL" if not column.nullable else " NULL")
