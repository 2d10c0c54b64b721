"""Paused tables, and how they continue after a person decided."""

from tests.plan.by_hand import UNREADABLE, T, create, send
from tests.plan.contents import contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, put, rename
from ticdc_assets.events import SchemaChange, TopicPosition
from ticdc_assets.plan.state import ddl_name


def paused_engine() -> tuple[Engine, Teller]:
    teller = Teller("simple")
    events = teller.tell([create("t"), put("t", id=1, v="a"), UNREADABLE, put("t", id=2, v="b")])
    engine = Engine()
    for event in events:
        send(engine, event.commit_ts, event)
    return engine, teller


def test_a_paused_table_continues_without_the_skipped_ddl() -> None:
    engine, teller = paused_engine()
    (id,) = engine.tables
    assert engine.now.incarnations[id].status == "paused"
    for event in teller.tell([put("t", id=3, v="c"), rename("t", "u"), put("u", id=4, v="d")]):
        send(engine, event.commit_ts, event)
    assert set(engine.stopped()) == {("shop", "u")}
    strange = next(c for _, c in engine.log.ddls if "FROBNICATE" in c.sql)
    skipped = [(strange.commit_ts, ddl_name(strange))]
    engine.resume(id, *skipped)
    rows = [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")]
    assert contents(engine) == {"u(id, v)": rows}
    assert engine.problems[-1].kind == "approximate"
    # The decision lasts.
    send(engine, engine.now.ts + 5)
    assert engine.now.skipped_ddls == skipped


def test_rows_add_the_columns_that_a_skipped_ddl_may_have_added() -> None:
    teller = Teller("canal")
    odd = Ddl("ALTER TABLE `t` FROBNICATE THE `w`", "t", f"{T}, w int")
    events = teller.tell([create("t"), put("t", id=1, v="a"), odd, put("t", id=2, v="b", w=3)])
    # Another type remains a contradiction: nothing says how existing values were converted.
    teller.knows("t", "id int primary key, v int, w int")
    events += teller.tell([put("t", id=3, v="7", w=4)])
    engine = Engine()
    send(engine, events[-1].commit_ts, *events)
    (id,) = engine.now.incarnations
    engine.resume(id, (events[2].commit_ts, ddl_name(events[2])))
    assert contents(engine) == {"t(id, v, w)": [("1", "a", None), ("2", "b", "3")]}
    (contradicting,) = (p for p in engine.problems if p.kind == "quarantined")
    assert contradicting.commit_ts == events[-1].commit_ts


def test_a_paused_table_is_paused_again_after_drop_and_recover() -> None:
    engine, teller = paused_engine()
    for event in teller.tell([Ddl("DROP TABLE `shop`.`t`", "t")]):
        send(engine, event.commit_ts, event)
    assert [t.status for t in engine.now.incarnations.values()] == ["dropped"]
    assert engine.stopped() == {}
    for event in teller.tell([Ddl("RECOVER TABLE `t`", "t", T), put("t", id=9, v="z")]):
        send(engine, event.commit_ts, event)
    assert [t.status for t in engine.now.incarnations.values()] == ["paused"]
    assert contents(engine) == {}


def test_a_table_that_cannot_continue_keeps_its_rows_and_can_be_replayed() -> None:
    teller = Teller("simple")
    now = "id int primary key, v bit(8)"
    events = teller.tell(
        [
            Ddl("CREATE TABLE `t` (id int primary key, v json)", "t"),
            put("t", id=1, v='{"a": 1}'),
            put("t", id=2, v=None),
            Ddl("ALTER TABLE `t` MODIFY COLUMN `v` BIT(8)", "t", now),
            put("t", id=3, v=3),
        ]
    )
    engine = Engine()
    send(engine, events[1].commit_ts, *events[:2])
    send(engine, events[-1].commit_ts, *events[2:])
    (table,) = engine.now.incarnations.values()
    assert (table.status, table.stopped_ts, table.stopped_snapshot_id) == (
        "paused",
        events[1].commit_ts,
        1,
    )
    # The work failed: it has the rows of the snapshot, whatever was planned.
    assert table.complete_ts == events[1].commit_ts
    assert [r["id"] for r in engine.tables[table.id]] == [1]
    strange = next(c for _, c in engine.log.ddls if "MODIFY" in c.sql)
    engine.resume(table.id, (strange.commit_ts, ddl_name(strange)))
    assert {k: [r[0] for r in v] for k, v in contents(engine).items()} == {
        "t(id, v)": ["1", "2", "3"]
    }


def test_tables_discovered_after_all_were_paused_are_replayed_from_the_same_snapshot() -> None:
    strange = SchemaChange(
        commit_ts=500,
        database="shop",
        table="new",
        sql="RENAME TABLE `t` TO `new` WITH SAUCE",
        ddl_type="RENAME",
        position=TopicPosition("topic", 0, 99),
    )
    engine = Engine()
    send(engine, 400, *Teller("canal").tell([create("t"), put("t", id=1, v="a")]))
    send(engine, 500, strange)
    late = Teller("canal", start=600)
    late.knows("new", T)
    send(engine, 700, *late.tell([put("new", id=2, v="b")]))
    paused = engine.now.incarnations.values()
    assert {t.stopped_snapshot_id for t in paused} == {1}
    assert {t.complete_ts for t in paused if t.created_ts < 400} == {499}
    fresh = Teller("canal", start=800).tell([create("fresh"), put("fresh", id=3, v="c")])
    send(engine, 900, *fresh)
    assert contents(engine) == {"fresh(id, v)": [("3", "c")]}
    engine.resume(dict(engine.now.names)["shop", "t"], (500, ddl_name(strange)))
    assert contents(engine) == {
        "t(id, v)": [("1", "a")],
        "new(id, v)": [("2", "b")],
        "fresh(id, v)": [("3", "c")],
    }
