"""A consumer that starts in the middle: rows wait for their schema, other tables do not."""

from ticdc_assets.events import (
    Bootstrap,
    Column,
    ColumnType,
    Index,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
)
from ticdc_assets.reference.model import Model


def schema(table: str, version: int, *more: str) -> TableSchema:
    columns = (Column("id", ColumnType("int"), nullable=False),)
    columns += tuple(Column(name, ColumnType("int")) for name in more)
    key = Index("primary", ("id",), unique=True, primary=True)
    return TableSchema("d", table, columns, (key,), version=version)


def row(table: str, ts: int, version: int, image: str, offset: int) -> RowChange:
    return RowChange(
        op=Op.INSERT,
        commit_ts=ts,
        database="d",
        table=table,
        position=TopicPosition("t", 0, offset),
        after=image,
        schema_version=version,
    )


def rows(model: Model, table: str) -> list[dict[str, object]]:
    known = model.tables.get("d", table)
    return [] if known is None else list(known)


def test_rows_wait_for_a_bootstrap_and_no_other_table_does() -> None:
    model = Model()
    known = Bootstrap(schema=schema("known", 1), position=TopicPosition("t", 0, 0))
    model.add([known, row("late", 10, 7, '{"id":"1"}', 1), row("known", 11, 1, '{"id":"5"}', 2)])
    model.advance(20)
    assert rows(model, "known") == [{"id": 5}]
    assert model.tables.get("d", "late") is None
    assert [(p.table, p.commit_ts, p.data_may_differ) for p in model.waiting_rows()] == [
        ("late", 10, True)
    ]
    bootstrap = Bootstrap(schema=schema("late", 7), position=TopicPosition("t", 0, 3))
    model.add([bootstrap, row("late", 25, 7, '{"id":"2"}', 4)])
    model.advance(30)
    assert rows(model, "late") == [{"id": 1}, {"id": 2}]
    assert model.waiting_rows() == []


def test_what_follows_a_waiting_row_in_its_table_stays_behind_it() -> None:
    model = Model()
    ddl = SchemaChange(
        commit_ts=12,
        database="d",
        table="t",
        sql="ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 3",
        position=TopicPosition("t", 0, 2),
        schema=schema("t", 8, "c"),
    )
    changes = [row("t", 10, 7, '{"id":"1"}', 1), ddl, row("t", 15, 8, '{"id":"2","c":"4"}', 3)]
    model.add(changes)
    model.advance(20)
    assert rows(model, "t") == []
    model.add([Bootstrap(schema=schema("t", 7), position=TopicPosition("t", 1, 0))])
    model.advance(21)
    assert rows(model, "t") == [{"id": 1, "c": 3}, {"id": 2, "c": 4}]
    assert model.waiting_rows() == []
