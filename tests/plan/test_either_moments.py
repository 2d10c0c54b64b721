"""TIMESTAMP values that are one of two moments: reported in a row, and never its identity."""

import pytest

from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Step, Teller, cut, edit, put
from tests.reference.model_runs import tables
from ticdc_assets.reference.model import Model
from ticdc_assets.schema.types.either_moment import EITHER_MOMENT
from ticdc_assets.stream.rules import StreamRules

EITHER = "2024-11-03 05:30:00|2024-11-03 06:30:00"
FIRST = "2024-11-03 05:30:00"
PLAIN = "2024-11-03 07:30:00"
BY_HOUR = " PARTITION BY RANGE (UNIX_TIMESTAMP(`ts`)) (PARTITION `p` VALUES LESS THAN (MAXVALUE))"


def run(create: str, *steps: Step) -> tuple[Model, Engine]:
    """Apply steps on a table in the model, and by the plan; both give and report the same."""
    rules = StreamRules(force_replicate=True)
    model, engine = Model(rules), Engine(rules)
    events = Teller("canal").tell([Ddl(create, "t"), *steps])
    model.add(events)
    engine.take(events)
    for ts in (events[1].commit_ts, events[-1].commit_ts):
        model.advance(ts)
        engine.advance(ts, more_may_come=True)
    assert contents(engine) == model_contents(model)
    assert [p for p in engine.problems if p.kind == "quarantined"] == [
        p for p in model.problems if p.kind == "quarantined"
    ]
    return model, engine


def test_a_row_with_such_a_value_has_the_first_moment_and_is_reported() -> None:
    model, _ = run(
        "CREATE TABLE `t` (id int primary key, ts timestamp, at timestamp)",
        put("t", id=1, ts=EITHER, at=PLAIN),
        put("t", id=2, ts=PLAIN, at=EITHER),
        edit("t", {"id": 1, "ts": EITHER, "at": PLAIN}, ts=PLAIN),
    )
    assert tables(model) == {"t(id, ts, at)": [("1", PLAIN, PLAIN), ("2", PLAIN, FIRST)]}
    assert [(p.kind, p.reason.removeprefix(EITHER_MOMENT)) for p in model.problems] == [
        ("approximate", "ts"),
        ("approximate", "at"),
    ]
    assert all(p.position is not None for p in model.problems)


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE `t` (v int, ts timestamp not null, primary key (ts))",
        "CREATE TABLE `t` (v int, ts timestamp not null, primary key (ts, v))",
        "CREATE TABLE `t` (v int, ts timestamp null, unique key (ts))",
        "CREATE TABLE `t` (v int, TS timestamp null)" + BY_HOUR,
    ],
)
def test_two_rows_an_hour_apart_never_become_one(create: str) -> None:
    ts = "TS" if "TS" in create else "ts"
    model, _ = run(
        create,
        put("t", v=1, **{ts: EITHER}),
        put("t", v=1, **{ts: EITHER}),
        put("t", v=1, **{ts: PLAIN}),
        cut("t", v=1, **{ts: EITHER}),
    )
    assert list(tables(model).values()) == [[("1", PLAIN)]]
    assert [p.kind for p in model.problems] == ["quarantined"] * 3
    assert all(EITHER_MOMENT in p.reason for p in model.problems)


def test_equal_rows_of_a_table_without_a_key_are_counted() -> None:
    model, _ = run(
        "CREATE TABLE `t` (v int, ts timestamp)",
        put("t", v=1, ts=EITHER),
        put("t", v=1, ts=EITHER),
        cut("t", v=1, ts=EITHER),
    )
    assert tables(model) == {"t(v, ts)": [("1", FIRST)]}


def test_a_conversion_takes_the_first_moment() -> None:
    model, _ = run(
        "CREATE TABLE `t` (id int primary key, ts timestamp)",
        put("t", id=1, ts=EITHER),
        Ddl("ALTER TABLE `t` MODIFY COLUMN `ts` DATETIME", "t", "id int primary key, ts datetime"),
    )
    assert tables(model) == {"t(id, ts)": [("1", FIRST)]}
