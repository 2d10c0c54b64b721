"""Rows that arrive before their schema: their tables wait, and no others."""

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import RANGE, T, bootstrap, create, ddl, row, schema, send
from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, exchange, put
from tests.reference.random_upstream import Shown
from ticdc_assets.events import Bootstrap, Event, SchemaChange, TopicPosition
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.reference.model import Model


def test_rows_of_an_unknown_table_wait_and_no_other_table_does() -> None:
    engine = Engine()
    send(engine, 20, bootstrap(schema("known", 1)), row("late", 10, 7, 1), row("known", 11, 1, 5))
    assert contents(engine) == {"known(id)": [("5",)]}
    assert [(u.table, u.schema_version) for u in engine.now.unknown_tables] == [("late", 7)]
    send(engine, 22, row("late", 21, 7, 3))
    send(engine, 30, bootstrap(schema("late", 7)), row("late", 25, 7, 2))
    assert contents(engine) == {"known(id)": [("5",)], "late(id)": [("1",), ("2",), ("3",)]}
    assert engine.now.unknown_tables == []
    assert engine.replays == 1


def test_a_table_waits_for_undecoded_files() -> None:
    engine = Engine()
    send(engine, 20, bootstrap(schema("t", 1)), bootstrap(schema("u", 1)), row("t", 10, 1, 1))
    engine.undecoded_files = [
        UndecodedFiles("shop", "t", 21, "not read: t"),
        UndecodedFiles("shop", "new", 5, "not read"),
    ]
    send(engine, 30, row("t", 15, 1, 2), row("t", 25, 1, 3), row("u", 25, 1, 4))
    assert contents(engine) == {"u(id)": [("4",)]}
    assert engine.stopped()["shop", "t"] == "waiting: not read: t"
    assert [known.table for known in engine.now.unknown_tables] == ["new"]
    # Schemas of other tables change nothing.
    send(engine, 40, bootstrap(schema("v", 1)), row("v", 35, 1, 5))
    assert contents(engine) == {"u(id)": [("4",)], "v(id)": [("5",)]}
    engine.undecoded_files = []
    send(engine, 50, row("t", 28, 1, 6), row("new", 45, 1, 7), bootstrap(schema("new", 1)))
    assert contents(engine) == {
        "t(id)": [("1",), ("2",), ("3",), ("6",)],
        "u(id)": [("4",)],
        "v(id)": [("5",)],
        "new(id)": [("7",)],
    }
    assert engine.now.unknown_tables == []


@pytest.mark.parametrize("step", [1, 100])
def test_a_table_waits_with_rows_that_arrived_before_its_first_ddl(step: int) -> None:
    alter = ddl(12, "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 3", "t", schema("t", 8, "c"))
    engine = Engine()
    events = [row("t", 10, 7, 1), alter, row("t", 15, 8, 2, c="4")]
    for start in range(0, 3, step):
        send(engine, 20 if step > 1 else (10, 12, 20)[start], *events[start : start + step])
    assert contents(engine) == {}
    assert set(engine.stopped()) == {("shop", "t")}
    assert engine.stopped()["shop", "t"].startswith("waiting")
    send(engine, 21, Bootstrap(schema=schema("t", 7), position=TopicPosition("t", 1, 0)))
    assert contents(engine) == {"t(id, c)": [("1", "3"), ("2", "4")]}


def test_a_renamed_table_waits_with_rows_of_its_old_name() -> None:
    moved = ddl(12, "RENAME TABLE `shop`.`t` TO `shop`.`u`", "u", schema("u", 8))
    engine = Engine()
    send(engine, 20, row("t", 10, 7, 1), moved, row("u", 15, 8, 2))
    assert contents(engine) == {}
    send(engine, 21, bootstrap(schema("t", 7)))
    assert contents(engine) == {"u(id)": [("1",), ("2",)]}


def test_a_recreated_table_does_not_wait_for_its_namesake() -> None:
    engine = Engine()
    gone = ddl(12, "DROP TABLE `shop`.`t`", "t")
    made = ddl(14, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 13))
    send(engine, 20, row("t", 10, 7, 1), gone, made, row("t", 15, 13, 2))
    assert contents(engine) == {"t(id)": [("2",)]}


def test_rows_of_an_unstated_schema_version_stop_their_table_where_they_begin() -> None:
    engine = Engine()
    send(engine, 10, bootstrap(schema("t", 1)), row("t", 5, 1, 1))
    send(engine, 20, row("t", 12, 1, 2), row("t", 15, 2, 3, c="1"))
    # Rows before that are applied.
    (id,) = engine.tables
    assert sorted(r["id"] for r in engine.tables[id]) == [1, 2]
    assert engine.stopped()["shop", "t"].startswith("waiting: schema version 2")
    alter = ddl(14, "ALTER TABLE `t` ADD COLUMN `c` INT", "t", schema("t", 2, "c"))
    send(engine, 30, alter, row("t", 25, 2, 4, c="2"))
    assert contents(engine) == {"t(id, c)": [("1", None), ("2", None), ("3", "1"), ("4", "2")]}


def test_a_table_that_exchanges_rows_with_a_waiting_table_waits_with_it() -> None:
    engine = Engine()
    teller = Teller("simple")
    events = teller.tell([create("t", RANGE), create("u"), put("t", id=1, v="a")])
    strange = replace(teller.tell([put("u", id=2, v="b")])[0], schema_version=99)
    swapped = teller.tell([exchange("t", "p0", "u")])
    send(engine, 200, *events, strange)
    send(engine, 300, *swapped)
    assert {reason.split(":")[0] for reason in engine.stopped().values()} == {"waiting"}
    assert set(engine.stopped()) == {("shop", "t"), ("shop", "u")}
    stated = next(e.schema for e in events if isinstance(e, SchemaChange) and e.table == "u")
    send(engine, 400, bootstrap(replace(stated, version=99)))
    assert contents(engine) == {"t(id, v)": [("2", "b")], "u(id, v)": [("1", "a")]}


def test_a_table_that_exchanges_rows_with_an_unknown_table_waits_for_it() -> None:
    teller = Teller("simple")
    events = teller.tell(
        [create("u"), create("t", RANGE), put("t", id=1, v="a"), put("u", id=2, v="b")]
    )
    swapped = teller.tell([exchange("t", "p0", "u")])
    engine = Engine()
    send(engine, 200, *events[1:3], replace(events[3], schema_version=99))
    send(engine, 300, *swapped)
    assert contents(engine) == {}
    assert set(engine.stopped()) == {("shop", "t"), ("shop", "u")}
    send(engine, 400, bootstrap(replace(events[0].schema, version=99)))
    assert contents(engine) == {"t(id, v)": [("2", "b")], "u(id, v)": [("1", "a")]}


SEVENTH = row("t", 10, 7, 1)
KNOWN = ddl(5, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 5))
# Events after a row of version 7, the names that wait, what the others hold, and what all hold once
# the version is stated.
LATER: dict[str, tuple[list[Event], set[str], Shown, Shown]] = {
    "a new table under the old name": (
        [
            ddl(20, "RENAME TABLE `shop`.`t` TO `shop`.`u`", "u", schema("u", 7)),
            ddl(30, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 30)),
            row("t", 40, 30, 2),
            row("u", 41, 7, 3),
        ],
        {"u"},
        {"t(id)": [("2",)]},
        {"t(id)": [("2",)], "u(id)": [("1",), ("3",)]},
    ),
    "a table that is dropped and recovered": (
        [ddl(20, "DROP TABLE `t`", "t"), ddl(30, "RECOVER TABLE `t`", "t"), row("t", 40, 5, 2)],
        {"t"},
        {},
        {"t(id)": [("1",), ("2",)]},
    ),
    "a table that is renamed there and back": (
        [
            ddl(20, "RENAME TABLE `shop`.`t` TO `shop`.`u`", "u", schema("u", 8)),
            ddl(30, "RENAME TABLE `shop`.`u` TO `shop`.`t`", "t", schema("t", 9)),
        ],
        {"t"},
        {},
        {"t(id)": [("1",)]},
    ),
    "a table with another statement": (
        [replace(KNOWN, commit_ts=20, sql="ALTER TABLE `t` COMMENT = 'x'"), row("t", 40, 5, 2)],
        {"t"},
        {},
        {"t(id)": [("1",), ("2",)]},
    ),
}


@pytest.mark.parametrize(
    ("title", "is_known"),
    # An unknown table that was dropped cannot be recovered.
    [
        (title, known)
        for title in LATER
        for known in (True, False)
        if known or "dropped" not in title
    ],
)
def test_the_model_and_the_plan_wait_with_the_same_tables(title: str, is_known: bool) -> None:
    later, waiting, meanwhile, complete = LATER[title]
    events = [KNOWN, SEVENTH, *later] if is_known else [SEVENTH, *later]
    stated = Bootstrap(schema=schema("t", 7), position=TopicPosition("t", 1, 0))
    engine, stepwise, model = Engine(), Engine(), Model()
    model.add(events)
    model.advance(100)
    send(engine, 100, *events)
    for event in events:
        send(stepwise, event.commit_ts, event)
    send(stepwise, 100)
    for each in (engine, stepwise):
        assert contents(each) == model_contents(model) == meanwhile
        if is_known:
            assert {table for _, table in each.stopped()} == waiting
            assert {table for _, table in model.tables.waiting_names()} == waiting
        send(each, 200, stated)
    assert model.waiting_rows()[0].commit_ts == 10
    model.add([stated])
    model.advance(200)
    for each in (engine, stepwise):
        assert contents(each) == model_contents(model) == complete
    assert model.waiting_rows() == []


def test_a_waiting_table_is_complete_after_drop_and_recover() -> None:
    teller = Teller("simple")
    made, known, first, gone, back = teller.tell(
        [
            create("t"),
            put("t", id=1, v="a"),
            put("t", id=2, v="b"),
            Ddl("DROP TABLE `shop`.`t`", "t"),
            Ddl("RECOVER TABLE `t`", "t", T),
        ]
    )
    engine = Engine()
    send(engine, known.commit_ts, made, known)
    send(engine, first.commit_ts, replace(first, schema_version=99))
    send(engine, gone.commit_ts, gone)
    send(engine, gone.commit_ts + 1, bootstrap(replace(made.schema, version=99)))
    send(engine, back.commit_ts, back)
    assert contents(engine) == {"t(id, v)": [("1", "a"), ("2", "b")]}
