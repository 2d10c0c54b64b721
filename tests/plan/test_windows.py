"""DDLs at window boundaries, and incarnations over several windows."""

from itertools import pairwise, permutations

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import T, create, ddl, row, schema, send
from tests.plan.contents import contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, put, rename_all, together
from ticdc_assets.events import Event, FilePosition
from ticdc_assets.plan.plan import WindowEvents, make_plan
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.state import State, ddl_name
from ticdc_assets.plan.steps import ApplyRows
from ticdc_assets.stream.rules import StreamRules


def test_a_ddl_may_follow_the_watermark_of_its_own_ts() -> None:
    made, first, emptied, second = Teller("simple").tell(
        [
            create("t"),
            put("t", id=1, v="a"),
            together(Ddl("TRUNCATE TABLE `t`", "t")),
            put("t", id=2, v="b"),
        ]
    )
    engine = Engine()
    send(engine, first.commit_ts, made, first)
    assert contents(engine) == {"t(id, v)": [("1", "a")]}
    # It arrives twice and is applied once.
    send(engine, first.commit_ts, emptied)
    send(engine, first.commit_ts, emptied)
    assert contents(engine) == {"t(id, v)": []}
    assert engine.now.applied_ddls == [ddl_name(emptied)]
    send(engine, second.commit_ts, emptied, second)
    assert contents(engine) == {"t(id, v)": [("2", "b")]}
    assert engine.replays == 0


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("manner", ["canal", "simple", "simple-new", "storage"])
def test_tables_swap_their_names_in_pieces_over_windows(
    manner: str, order: tuple[int, ...]
) -> None:
    teller = Teller(manner)
    made = teller.tell(
        [
            create("a"),
            Ddl("CREATE TABLE `b` (id int primary key, w int)", "b"),
            put("a", id=1, v="a"),
            put("b", id=2, w=2),
        ]
    )
    renames = teller.tell(rename_all(("a", "c"), ("b", "a"), ("c", "b")))
    later = teller.tell([put("a", id=3, w=3), put("b", id=4, v="b")])
    engine = Engine()
    send(engine, renames[0].commit_ts, *made)
    for which in order:
        send(engine, renames[0].commit_ts, renames[which])
    send(engine, later[-1].commit_ts, *later)
    assert contents(engine) == {
        "a(id, w)": [("2", "2"), ("3", "3")],
        "b(id, v)": [("1", "a"), ("4", "b")],
    }
    assert engine.problems == []


def test_a_truncated_table_is_recovered_windows_later() -> None:
    teller = Teller("simple")
    events = teller.tell(
        [
            create("t"),
            put("t", id=1, v="a"),
            Ddl("TRUNCATE TABLE `t`", "t"),
            put("t", id=2, v="b"),
            Ddl("FLASHBACK TABLE `t` TO `old`", "old", T),
            put("old", id=3, v="c"),
        ]
    )
    engine = Engine()
    for event in events:
        send(engine, event.commit_ts, event)
    assert contents(engine) == {"t(id, v)": [("2", "b")], "old(id, v)": [("1", "a"), ("3", "c")]}
    assert [t.created_ts for t in engine.now.incarnations.values()] == [110, 130]


def test_rows_with_a_table_version_follow_the_ddl_of_that_ts() -> None:
    path = FilePosition("shop/t/30/CDC000001.csv", 1)
    made = ddl(10, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 10))
    first = replace(row("t", 10, 10, 1), ordering="table_version", position=path)
    emptied = ddl(30, "TRUNCATE TABLE `t`", "t", schema("t", 30))
    second = replace(row("t", 30, 30, 2), ordering="table_version", position=path)
    for cuts in ([10, 30], [30], [10, 20, 30]):
        engine = Engine()
        left: list[Event] = [made, first, emptied, second]
        for ts in cuts:
            engine.take([e for e in left if e.commit_ts <= ts])
            left = [e for e in left if e.commit_ts > ts]
            engine.advance(ts, more_may_come=False)
        assert contents(engine) == {"t(id)": [("2",)]}
        # More rows of a version arrive until the next one begins.
        third = replace(row("t", 30, 30, 3), ordering="table_version", position=path)
        engine.take([third])
        engine.advance(40, more_may_come=False)
        assert contents(engine) == {"t(id)": [("2",), ("3",)]}


def test_a_table_first_mentioned_by_a_ddl_has_the_rows_of_its_version() -> None:
    alter = ddl(30, "ALTER TABLE `t` ADD COLUMN `c` INT", "t", schema("t", 30, "c"))
    dated = replace(row("t", 30, 30, 2, c="5"), ordering="table_version")
    engine = Engine()
    send(engine, 40, alter, dated)
    assert contents(engine) == {"t(id, c)": [("2", "5")]}


def test_rows_that_reveal_columns_late_are_applied_once() -> None:
    """A revealed column ends a segment just before the row, never before the segment's start."""
    group = RowGroup(
        database="shop",
        table="t",
        observed='{"id":"int","c":"int"}',
        key_columns=("id",),
        ordered_by_commit_ts=False,
        after_ddls=True,
        first_ts=20,
        last_ts=20,
        rows=1,
        inserts=1,
    )
    first = replace(group, observed='{"id":"int"}', after_ddls=False)
    statement = ddl(20, "ALTER TABLE `t` ADD COLUMN `x` INT", "t")
    image = replace(row("t", 20, None, 1), observed=first.observed, key_columns=("id",))
    window = WindowEvents(ts=20, ddls=(statement,), row_groups=(first, group))
    made = make_plan(State(), window, StreamRules(), lambda *_: None, lambda _: image)
    (work,) = made.work.values()
    segments = [(step.low, step.high) for step in work.steps if isinstance(step, ApplyRows)]
    assert len(segments) == 2
    assert all(low < high for low, high in segments)
    assert all(high <= low for (_, high), (low, _) in pairwise(segments))
