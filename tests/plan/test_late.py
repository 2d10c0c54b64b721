"""Events that arrive after their ts was applied: their tables are replayed, and no others."""

import pytest

from tests.plan.by_hand import RANGE, T, bootstrap, create, ddl, row, schema, send
from tests.plan.contents import contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, cut, edit, exchange, put
from ticdc_assets.events import RowChange, SchemaChange


@pytest.mark.parametrize("manner", ["canal", "simple", "storage-new"])
def test_a_late_row_is_applied_at_its_commit_ts(manner: str) -> None:
    teller = Teller(manner)
    events = teller.tell(
        [
            create("t", RANGE),
            create("u"),
            put("u", id=5, v="u"),
            put("t", id=1, v="late"),
            put("t", id=20, v="b"),
            Ddl("ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 3", "t", f"{T}, w int default 3"),
            Ddl("ALTER TABLE `u` ADD COLUMN `w` INT DEFAULT 3", "u", f"{T}, w int default 3"),
            exchange("t", "p0", "u"),
            edit("u", {"id": 1, "v": "late", "w": 3}, w=4),
            create("x"),
        ]
    )
    late = next(e for e in events if isinstance(e, RowChange) and "late" in (e.after or ""))
    engine = Engine()
    for event in events:
        if event is not late:
            send(engine, getattr(event, "commit_ts", engine.now.ts), event)
    other = engine.tables[dict(engine.now.names)["shop", "x"]]
    send(engine, engine.now.ts, late)
    assert contents(engine) == {
        "t(id, v, w)": [("20", "b", "3"), ("5", "u", "3")],
        "u(id, v, w)": [("1", "late", "4")],
        "x(id, v)": [],
    }
    assert engine.replays == 1
    # Other tables are not touched.
    assert engine.tables[dict(engine.now.names)["shop", "x"]] is other


def test_a_second_late_row_does_not_undo_the_first() -> None:
    teller = Teller("simple")
    events = teller.tell([create("t"), *(put("t", id=n, v="v") for n in range(6))])
    engine = Engine()
    for event in events:
        if event not in (events[2], events[4]):
            send(engine, event.commit_ts, event)
    send(engine, engine.now.ts, events[2])
    send(engine, engine.now.ts, events[4])
    assert contents(engine) == {"t(id, v)": [(str(n), "v") for n in range(6)]}
    assert engine.replays == 2


def test_a_table_keeps_its_id_when_a_replay_discovers_it_earlier() -> None:
    engine = Engine()
    send(engine, 10, bootstrap(schema("x", 1)), row("x", 10, 1, 1))
    for ts in (20, 30):
        send(engine, ts)
    send(engine, 40, bootstrap(schema("t", 1)), row("t", 35, 1, 7))
    id = dict(engine.now.names)["shop", "t"]
    there = engine.tables[id]
    send(engine, 41, row("x", 15, 1, 2))
    assert engine.replays == 1
    assert dict(engine.now.names)["shop", "t"] == id
    assert engine.tables[id] is there
    assert contents(engine) == {"x(id)": [("1",), ("2",)], "t(id)": [("7",)]}


def test_repeated_rows_are_not_late_rows() -> None:
    events = Teller("canal").tell([create("t"), put("t", id=1, v="a"), cut("t", id=1, v="a")])
    engine = Engine()
    send(engine, 500, *events)
    send(engine, 600, *events)
    assert contents(engine) == {"t(id, v)": []}
    assert engine.replays == 0


@pytest.mark.parametrize("manner", ["canal", "simple", "storage"])
def test_a_late_ddl_is_applied_at_its_commit_ts(manner: str) -> None:
    teller = Teller(manner)
    events = teller.tell(
        [
            create("t"),
            put("t", id=1, v="a"),
            Ddl("TRUNCATE TABLE `t`", "t"),
            put("t", id=2, v="b"),
        ]
    )
    late = next(e for e in events if isinstance(e, SchemaChange) and "TRUNC" in e.sql)
    engine = Engine()
    for event in events:
        if event is not late:
            send(engine, event.commit_ts, event)
    send(engine, engine.now.ts, late)
    assert contents(engine) == {"t(id, v)": [("2", "b")]}


def test_a_create_after_its_rows_begins_another_incarnation() -> None:
    made, *rows = Teller("canal").tell([create("t"), put("t", id=1, v="a"), put("t", id=2, v=None)])
    engine = Engine()
    for event in rows:
        send(engine, event.commit_ts, event)
    assert contents(engine) == {"t(id, v)": [("1", "a"), ("2", None)]}
    met = set(engine.now.incarnations)
    send(engine, engine.now.ts, made)
    assert contents(engine) == {"t(id, v)": [("1", "a"), ("2", None)]}
    assert not met & set(engine.now.incarnations)


def test_a_late_ddl_states_the_schema_of_rows_that_arrived_before_it() -> None:
    engine = Engine()
    send(engine, 10, row("t", 10, 7, 1))
    send(engine, 15)
    send(engine, 30)
    send(engine, 31, ddl(20, "ALTER TABLE `t` COMMENT 'x'", "t", schema("t", 7)))
    assert contents(engine) == {"t(id)": [("1",)]}
    assert engine.now.unknown_tables == []
