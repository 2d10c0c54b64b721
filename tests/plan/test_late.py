"""What comes when its ts was applied: tables are replayed, and only those it is about."""

import pytest

from tests.plan.by_hand import RANGE, T, bootstrap, create, row, schema, sent
from tests.plan.engine import Engine
from tests.plan.pictures import shown
from tests.reference.changefeeds import Ddl, Teller, cut, edit, exchange, put
from ticdc_assets.events import RowChange, SchemaChange


@pytest.mark.parametrize("manner", ["canal", "simple", "storage-new"])
def test_a_row_that_comes_late_goes_where_it_belongs(manner: str) -> None:
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
            sent(engine, getattr(event, "commit_ts", engine.now.ts), event)
    other = engine.tables[dict(engine.now.names)["shop", "x"]]
    sent(engine, engine.now.ts, late)
    assert shown(engine) == {
        "t(id, v, w)": [("20", "b", "3"), ("5", "u", "3")],
        "u(id, v, w)": [("1", "late", "4")],
        "x(id, v)": [],
    }
    assert engine.replays == 1
    # Tables that it is not about are left alone.
    assert engine.tables[dict(engine.now.names)["shop", "x"]] is other


def test_a_second_late_row_does_not_undo_the_first() -> None:
    teller = Teller("simple")
    events = teller.tell([create("t"), *(put("t", id=n, v="v") for n in range(6))])
    engine = Engine()
    for event in events:
        if event not in (events[2], events[4]):
            sent(engine, event.commit_ts, event)
    sent(engine, engine.now.ts, events[2])
    sent(engine, engine.now.ts, events[4])
    assert shown(engine) == {"t(id, v)": [(str(n), "v") for n in range(6)]}
    assert engine.replays == 2


def test_a_table_keeps_its_place_however_early_a_replay_meets_it() -> None:
    engine = Engine()
    sent(engine, 10, bootstrap(schema("x", 1)), row("x", 10, 1, 1))
    for ts in (20, 30):
        sent(engine, ts)
    sent(engine, 40, bootstrap(schema("t", 1)), row("t", 35, 1, 7))
    id = dict(engine.now.names)["shop", "t"]
    there = engine.tables[id]
    sent(engine, 41, row("x", 15, 1, 2))
    assert engine.replays == 1
    assert dict(engine.now.names)["shop", "t"] == id
    assert engine.tables[id] is there
    assert shown(engine) == {"x(id)": [("1",), ("2",)], "t(id)": [("7",)]}


def test_rows_sent_again_are_no_late_rows() -> None:
    events = Teller("canal").tell([create("t"), put("t", id=1, v="a"), cut("t", id=1, v="a")])
    engine = Engine()
    sent(engine, 500, *events)
    sent(engine, 600, *events)
    assert shown(engine) == {"t(id, v)": []}
    assert engine.replays == 0


@pytest.mark.parametrize("manner", ["canal", "simple", "storage"])
def test_a_ddl_that_comes_late_is_carried_out_at_its_time(manner: str) -> None:
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
            sent(engine, event.commit_ts, event)
    sent(engine, engine.now.ts, late)
    assert shown(engine) == {"t(id, v)": [("2", "b")]}


def test_a_create_that_comes_after_its_rows_gives_its_table_another_life() -> None:
    made, *rows = Teller("canal").tell([create("t"), put("t", id=1, v="a"), put("t", id=2, v=None)])
    engine = Engine()
    for event in rows:
        sent(engine, event.commit_ts, event)
    assert shown(engine) == {"t(id, v)": [("1", "a"), ("2", None)]}
    met = set(engine.now.incarnations)
    sent(engine, engine.now.ts, made)
    assert shown(engine) == {"t(id, v)": [("1", "a"), ("2", None)]}
    assert not met & set(engine.now.incarnations)
