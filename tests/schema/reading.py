"""Statements that the DDL reader returns, and their parts."""

from typing import Any

from ticdc_assets.events import Charset, Column, ColumnType, Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl

T = ddl.Name("t")
INT = ColumnType("int")
PRIMARY_ID = Index("PRIMARY", ("id",), unique=True, primary=True)
ID = ddl.DeclaredColumn("id", INT, nullable=False, primary=True)


def varchar(length: int, charset: str = "utf8mb4", collation: str | None = None) -> ColumnType:
    return ColumnType("varchar", length=length, charset=charset, collation=collation)


def only(sql: str) -> Any:
    (statement,) = read_ddl(sql)
    return statement


def columns(body: str, behind: str = "", *, database: Charset | None = None) -> tuple[Column, ...]:
    statement = only(f"create table t ({body}){behind}")
    charset = statement.charset or database
    return tuple(resolve_column(column, charset) for column in statement.columns)


def actions(text: str) -> tuple[ddl.Action, ...]:
    statement = only(f"ALTER TABLE t {text}")
    assert isinstance(statement, ddl.AlterTable)
    assert statement.name == T
    return statement.actions
