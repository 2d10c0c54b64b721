"""Events written by hand, for tests of windows."""

from msgspec import json

from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl
from ticdc_assets.events import (
    Bootstrap,
    Column,
    ColumnType,
    Event,
    Index,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
)

T = "id int primary key, v varchar(10)"
RANGE = (
    " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),"
    "PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
)
UNREADABLE = Ddl("ALTER TABLE `t` FROBNICATE THE `v`", "t")


def create(table: str, tail: str = "") -> Ddl:
    return Ddl(f"CREATE TABLE `{table}` ({T}){tail}", table)


def send(engine: Engine, ts: int, *events: Event) -> None:
    engine.take(events)
    engine.advance(ts, more_may_come=True)


def schema(table: str, version: int, *more: str) -> TableSchema:
    columns = (Column("id", ColumnType("int"), nullable=False),)
    columns += tuple(Column(name, ColumnType("int")) for name in more)
    key = Index("primary", ("id",), unique=True, primary=True)
    return TableSchema("shop", table, columns, (key,), version=version)


def row(table: str, ts: int, version: int | None, number: int, **more: str) -> RowChange:
    image = json.encode({"id": str(number), **more}).decode()
    return RowChange(
        op="insert",
        commit_ts=ts,
        database="shop",
        table=table,
        position=TopicPosition("t", 0, ts),
        after=image,
        schema_version=version,
    )


def bootstrap(stated: TableSchema) -> Bootstrap:
    return Bootstrap(schema=stated, position=TopicPosition("t", 0, 0))


def ddl(ts: int, sql: str, table: str, stated: TableSchema | None = None) -> SchemaChange:
    return SchemaChange(
        commit_ts=ts,
        database="shop",
        table=table,
        sql=sql,
        position=TopicPosition("t", 0, ts),
        schema=stated,
    )
