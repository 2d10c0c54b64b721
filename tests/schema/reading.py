"""Statements that the DDL reader returns, and their parts."""

from typing import Any

from ticdc_assets.events import Column, ColumnType, Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl

T = ddl.Name("t")
INT = ColumnType("int")
PRIMARY_ID = Index("PRIMARY", ("id",), unique=True, primary=True)
ID = Column("id", INT, nullable=False)


def varchar(length: int, charset: str = "utf8mb4", collation: str | None = None) -> ColumnType:
    return ColumnType("varchar", length=length, charset=charset, collation=collation)


def only(sql: str, **settings: str) -> Any:
    (statement,) = read_ddl(sql, **settings)
    return statement


def columns(body: str, behind: str = "", **settings: str) -> tuple[Column, ...]:
    return only(f"create table t ({body}){behind}", **settings).columns


def actions(text: str) -> tuple[ddl.Action, ...]:
    statement = only(f"ALTER TABLE t {text}")
    assert isinstance(statement, ddl.AlterTable)
    assert statement.name == T
    return statement.actions
