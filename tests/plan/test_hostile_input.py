"""What no server sends: windows, cut anywhere, end as the reference model does."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import bootstrap, ddl, row, schema, send
from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.model_runs import paused, played
from ticdc_assets.events import Column, ColumnType, Event, Op, RowChange, TableSchema
from ticdc_assets.reference.model import Model

CREATE = ddl(1, "CREATE TABLE `t` (id int primary key, v varchar(9))", "t")


def stated(change: RowChange, text: str, *key: str) -> RowChange:
    return replace(change, observed=text, key_columns=key or None)


def apply_both(events: Sequence[Event]) -> tuple[Engine, Model]:
    """Apply events in one window, in a window per ts, and with the model; return the first."""
    engine, stepwise, model = Engine(), Engine(), played(events)
    send(engine, 100, *events)
    stepwise.take(events)
    for ts in sorted({getattr(event, "commit_ts", 1) for event in events}):
        stepwise.advance(ts, more_may_come=False)
    stepwise.advance(100)
    for each in (engine, stepwise):
        assert contents(each) == model_contents(model)
        assert {table for _, table in each.stopped()} == set(paused(model))
    return engine, model


def test_truncate_ends_a_pause_that_only_rows_caused() -> None:
    """The columns are certain, and the rows that could not be converted are gone."""
    fails = ddl(20, "ALTER TABLE `t` MODIFY `v` date", "t")
    first = row("t", 10, None, 1, v="abc")
    engine, _ = apply_both([CREATE, first, fails])
    assert set(engine.stopped()) == {("shop", "t")}
    last = row("t", 40, None, 2, v="2024-01-02")
    engine, _ = apply_both([CREATE, first, fails, ddl(30, "TRUNCATE TABLE `t`", "t"), last])
    assert contents(engine) == {"t(id, v)": [("2", "2024-01-02")]}
    # Nobody knows the columns after a statement that cannot be read.
    odd = replace(fails, sql="ALTER TABLE `t` FROBNICATE")
    engine, _ = apply_both([CREATE, first, odd, ddl(30, "TRUNCATE TABLE `t`", "t"), last])
    assert set(engine.stopped()) == {("shop", "t")}


@pytest.mark.parametrize("action", ["RENAME COLUMN `id` TO `c`", "ADD `c` int"])
def test_a_statement_pauses_its_table_if_rows_showed_its_new_column_otherwise(action: str) -> None:
    """Their values would be in a column of a kind that they are not of."""
    early = stated(row("t", 10, None, 1, c="3"), '{"id":"int","c":"set"}', "id")
    engine, model = apply_both([early, ddl(20, f"ALTER TABLE `t` {action}", "t")])
    assert set(engine.stopped()) == {("shop", "t")}
    assert "already has a column 'c'" in paused(model)["t"]


UNKNOWN = replace(
    schema("t", 7), columns=(*schema("t", 7).columns, Column("g", ColumnType("nonsense")))
)


@pytest.mark.parametrize("stating", ["create", "alter", "bootstrap", "version"])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [(UNKNOWN, "unknown type 'nonsense'"), (replace(UNKNOWN, columns=()), "states no columns")],
)
def test_a_table_with_a_column_of_no_known_type_is_paused(
    stating: str, bad: TableSchema, reason: str
) -> None:
    create = ddl(5, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 5))
    events = {
        "create": [replace(create, schema=bad)],
        "alter": [create, ddl(10, "ALTER TABLE `t` COMMENT = ''", "t", bad)],
        "bootstrap": [bootstrap(bad)],
        # The schema of a version may be stated before anything says when it holds.
        "version": [bootstrap(bad), create],
    }[stating]
    engine, model = apply_both([*events, row("t", 20, 7, 1)])
    ((_, found),) = engine.stopped().items()
    assert found.startswith("paused")
    assert reason in found
    assert reason in paused(model)["t"]


def test_an_update_that_no_key_can_place_pauses_its_table_even_if_it_is_invalid() -> None:
    create = ddl(1, "CREATE TABLE `t` (id int, v int)", "t")
    change = replace(row("t", 10, None, 1, v="no number"), op=Op.UPDATE)
    engine, _ = apply_both([create, change])
    assert set(engine.stopped()) == {("shop", "t")}


def test_a_row_with_a_column_twice_in_different_case_is_quarantined() -> None:
    twice = replace(row("t", 10, None, 3), after='{"id":"3","ID":"4","v":"x"}')
    engine, model = apply_both([CREATE, row("t", 5, None, 1, v="a"), twice])
    assert contents(engine) == {"t(id, v)": [("1", "a")]}
    assert [p.commit_ts for p in model.problems] == [10]


def test_a_key_that_later_rows_state_is_adopted() -> None:
    text = '{"id":"int","v":"int"}'
    keyless = stated(row("t", 10, None, 1, v="1"), text)
    later = [stated(row("t", ts, None, n, v="1"), text, "id") for ts, n in ((20, 2), (30, 1))]
    engine, _ = apply_both([keyless, *later])
    assert contents(engine) == {"t(id, v)": [("1", "1"), ("2", "1")]}


@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_one_ts_state_a_key_together(order: int) -> None:
    changes = [
        stated(row("t", 10, None, 1, v="1"), '{"id":"int","v":"int"}', key) for key in ("id", "x")
    ]
    engine, _ = apply_both(changes[::order])
    assert contents(engine) == {"t(id, v)": [("1", "1")]}


@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_one_ts_state_their_columns_before_any_is_read(order: int) -> None:
    first = stated(row("t", 10, None, 1, v="1"), '{"v":"int"}', "id")
    second = stated(row("t", 10, None, 2, v="2"), '{"id":"int","v":"bigint"}', "id")
    engine, _ = apply_both([first, second][::order])
    assert contents(engine) == {"t(id, v)": [("1", "1"), ("2", "2")]}


ENDS = (
    ("TRUNCATE TABLE `t`",),
    ("DROP TABLE `t`",),
    ("DROP TABLE `t`", "CREATE TABLE `t` (id int primary key)"),
    ("CREATE TABLE `t` (id int primary key)",),
    ("DROP TABLE `t`", "RECOVER TABLE `t`"),
)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("statements", ENDS)
def test_a_table_waits_for_no_row_of_the_table_before(
    statements: tuple[str, ...], is_known: bool
) -> None:
    """The row of version 7 waits for its schema, and its table ends before that is stated."""
    events: list[Event] = [row("t", 10, 7, 1)]
    if is_known:
        events.insert(0, ddl(5, "CREATE TABLE `t` (id int primary key)", "t", schema("t", 5)))
    for ts, sql in enumerate(statements, 20):
        stated = schema("t", ts) if sql.startswith("CREATE") else None
        events.append(ddl(ts, sql, "t", stated))
    later = max([5, *(ts for ts, sql in enumerate(statements, 20) if sql.startswith("CREATE"))])
    events.append(row("t", 40, later, 2))
    engine, stepwise, model = Engine(), Engine(), played(events)
    send(engine, 100, *events)
    for event in events:
        send(stepwise, event.commit_ts, event)
    for each in (engine, stepwise):
        assert contents(each) == model_contents(model)
    assert 10 in {problem.commit_ts for problem in model.waiting_rows()}


def test_an_update_without_old_values_finds_its_row_by_a_unique_key_in_order_of_arrival() -> None:
    create = ddl(1, "CREATE TABLE `t` (id int unique key, v int)", "t", None)
    first = replace(row("t", 10, None, 1, v="1"), ordering="milliseconds")
    second = replace(first, op=Op.UPDATE, after='{"id":"1","v":"2"}')
    engine, _ = apply_both([create, first, second])
    assert contents(engine) == {"t(id, v)": [("1", "2")]}


@pytest.mark.parametrize("order", [1, -1])
def test_rows_without_a_commit_ts_come_after_the_transactions_of_their_ts(order: int) -> None:
    deleted = replace(row("t", 10, None, 1), op=Op.DELETE, before='{"id":"1"}', after=None)
    changes = [
        deleted,
        row("t", 10, None, 1, v="exact"),
        row("t", 10, None, 2, v="exact"),
        replace(deleted, before='{"id":"2"}', ordering="milliseconds"),
        replace(row("t", 10, None, 1, v="later"), ordering="milliseconds"),
    ]
    engine, _ = apply_both([CREATE, *changes[::order]])
    assert contents(engine) == {"t(id, v)": [("1", "later")]}
