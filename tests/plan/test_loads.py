"""Loads: a table begins with its rows of one ts, and events after that ts follow."""

from random import Random

import pytest

from tests.plan.by_hand import RANGE, UNREADABLE, T, create, row, send
from tests.plan.contents import contents, partial
from tests.plan.engine import Engine
from tests.plan.test_random_histories import sampled, ts_of, windows
from tests.reference.changefeeds import Ddl, Teller, edit, put, rename
from tests.reference.random_upstream import World
from ticdc_assets.events import Bootstrap, Event
from ticdc_assets.reference.model import Model


@pytest.mark.parametrize(("seed", "manner"), sampled(range(4000, 4020)))
def test_tables_loaded_at_any_ts_equal_upstream_from_then_on(seed: int, manner: str) -> None:
    """A load comes before its ts is applied, or after it; a changefeed may begin in the middle."""
    random = Random(seed)
    world = World(random)
    world.run()
    events = Teller(manner).tell(world.steps)
    ts = ts_of(events, random.randrange(len(events)))
    model = Model()
    model.add(events)
    model.advance(ts)
    engine = Engine()
    is_whole = manner != "canal" or random.random() < 0.5
    sent = events if is_whole else after(events, random.choice([ts, ts - 200]))
    loaded_by = random.choice([0, ts, ts + 200, ts_of(events, len(events) - 1)])
    for here, piece, _ in windows(sent, random) if sent else ():
        if here >= loaded_by and not engine.loads:
            load_all(engine, ts, model)
        engine.take(piece)
        engine.advance(here, more_may_come=True)
    load_all(engine, ts, model)
    engine.advance(engine.now.ts + 1, more_may_come=True)
    expected = world.states[len(world.steps)]
    found = contents(engine)
    if is_whole:
        assert engine.stopped() == {}
        assert found == expected
    # Of a table that was dropped before the changefeed began, nothing brings the rows back.
    lacking = {name for _, name in partial(engine)}
    assert {k: v for k, v in found.items() if k.partition("(")[0] not in lacking} == {
        k: v for k, v in expected.items() if k.partition("(")[0] not in lacking
    }


def after(events: list[Event], ts: int) -> list[Event]:
    return [e for n, e in enumerate(events) if isinstance(e, Bootstrap) or ts_of(events, n) > ts]


def load_all(engine: Engine, ts: int, model: Model) -> None:
    if not engine.loads:
        for table in model.tables:
            engine.load(ts, table)


def test_a_paused_table_lives_again_with_a_load_and_no_other_table_is_touched() -> None:
    teller = Teller("canal")
    events = teller.tell(
        [create("t"), create("u"), put("t", id=1, v="a"), UNREADABLE, put("t", id=2, v="b")]
    )
    engine = Engine()
    for event in events:
        send(engine, event.commit_ts, event)
    assert [name for _, name in engine.stopped()] == ["t"]
    other = engine.tables[dict(engine.now.names)["shop", "u"]]
    upstream = Model()
    upstream.add(Teller("canal").tell([create("t"), put("t", id=7, v="loaded")]))
    upstream.advance(10**9)
    engine.load(engine.now.ts, next(iter(upstream.tables)))
    later = teller.tell([put("t", id=8, v="new")])
    send(engine, later[-1].commit_ts, *later)
    assert engine.stopped() == {}
    assert contents(engine)["t(id, v)"] == [("7", "loaded"), ("8", "new")]
    assert engine.tables[dict(engine.now.names)["shop", "u"]] is other
    (ended,) = [t for t in engine.now.incarnations.values() if t.is_replaced]
    assert ended.status == "dropped"
    assert ended.reason is not None
    assert "replaced by the load" in ended.reason


def test_a_name_with_rows_of_unknown_columns_waits_no_more_after_a_load() -> None:
    engine = Engine()
    send(engine, 10, row("t", 10, 7, 1))
    assert [u.table for u in engine.now.unknown_tables] == ["t"]
    upstream = Model()
    upstream.add(Teller("canal").tell([create("t"), put("t", id=1, v="a")]))
    upstream.advance(10**9)
    engine.load(20, next(iter(upstream.tables)))
    send(engine, 30)
    assert engine.now.unknown_tables == []
    assert engine.stopped() == {}
    assert contents(engine) == {"t(id, v)": [("1", "a")]}


def test_ddl_after_a_load_changes_its_rows() -> None:
    teller = Teller("canal")
    first = teller.tell([create("t"), put("t", id=1, v="a")])
    upstream = Model()
    upstream.add(first)
    upstream.advance(10**9)
    more = teller.tell(
        [
            Ddl("ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 3", "t", f"{T}, w int default 3"),
            edit("t", {"id": 1, "v": "a", "w": 3}, w=4),
            rename("t", "x"),
            put("x", id=2, v="b", w=5),
        ]
    )
    engine = Engine()
    engine.load(first[-1].commit_ts, next(iter(upstream.tables)))
    send(engine, more[-1].commit_ts, *more)
    assert contents(engine) == {"x(id, v, w)": [("1", "a", "4"), ("2", "b", "5")]}
    assert partial(engine) == set()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DROP COLUMN `w`", "the known schema has no column 'w'"),
        ("DROP PARTITION `p`", "not all of these partitions are known: p"),
    ],
)
def test_a_table_that_lacks_what_a_ddl_drops_says_that_it_may_have_been_loaded_in_the_middle(
    sql: str, reason: str
) -> None:
    teller = Teller("canal")
    first = teller.tell([create("t", RANGE), put("t", id=1, v="a")])
    upstream = Model()
    upstream.add(first)
    upstream.advance(10**9)
    engine = Engine()
    ts = first[-1].commit_ts
    engine.load(ts, next(iter(upstream.tables)))
    (dropped,) = teller.tell([Ddl(f"ALTER TABLE `t` {sql}", "t", T)])
    send(engine, dropped.commit_ts, dropped)
    (stopped,) = engine.stopped().values()
    assert stopped == (
        f"paused: {reason}: ALTER TABLE `t` {sql}; the table was loaded as of {ts}: if TiDB was in"
        " the middle of this statement then, load it as of a later TSO"
    )
    # Of a statement that nobody understands, it says nothing.
    (unreadable,) = teller.tell([UNREADABLE])
    engine = Engine()
    engine.load(ts, next(iter(upstream.tables)))
    send(engine, unreadable.commit_ts, unreadable)
    assert "loaded" not in engine.stopped()["shop", "t"]
