"""What no server sends: windows, cut anywhere, end as the reference model does."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import bootstrap, ddl, row, schema, send
from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.model_runs import paused, played
from ticdc_assets.events import Column, ColumnType, Event, Index, Op, RowChange, TableSchema
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


TEXTS = '{"id":"int","v":"varchar"}'
NEXT_TEXTS = '{"id":"int","w":"varchar"}'


def test_rows_that_overtook_a_statement_keep_their_values() -> None:
    """They had the new column before the statement: in Canal-JSON within its millisecond."""
    first, second = (replace(row("t", 10, None, n), ordering="milliseconds") for n in (1, 2))
    early = stated(replace(first, after='{"id":"1","v":"a"}'), TEXTS, "id")
    ahead = stated(replace(second, commit_ts=20, after='{"id":"2","w":"b"}'), NEXT_TEXTS, "id")
    renamed = ddl(20, "ALTER TABLE `t` RENAME COLUMN `v` TO `w`", "t")
    engine, _ = apply_both([CREATE, early, ahead, renamed])
    assert contents(engine) == {"t(id, w)": [("1", "a"), ("2", "b")]}
    added = ddl(20, "ALTER TABLE `t` ADD COLUMN `w` varchar(9) DEFAULT 'x'", "t")
    engine, _ = apply_both([CREATE, early, ahead, added])
    assert contents(engine) == {"t(id, v, w)": [("1", "a", "x"), ("2", None, "b")]}


def test_a_rename_to_a_column_with_other_values_pauses_its_table() -> None:
    both = stated(row("t", 10, None, 1, v="a", w="b"), '{"id":"int","v":"char","w":"char"}', "id")
    engine, model = apply_both([both, ddl(20, "ALTER TABLE `t` RENAME COLUMN `v` TO `w`", "t")])
    assert "values in v and in w" in paused(model)["t"]
    assert "values in v and in w" in engine.stopped()["shop", "t"]


@pytest.mark.parametrize("statement", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ('{"v":"a"}', '{"v":"b"}', "no value in id"),
        ('{"id":"1","v":"a"}', '{"id":"1","v":"b"}', "the same values in the table's new key"),
    ],
)
def test_a_new_key_that_does_not_tell_rows_apart_pauses_its_table(
    first: str, second: str, reason: str, statement: bool
) -> None:
    """One of the rows would be lost; TiDB has no such key."""
    early = [
        stated(replace(row("t", ts, None, 1), after=image), TEXTS)
        for ts, image in ((10, first), (11, second))
    ]
    keyed = stated(row("t", 20, None, 3, v="c"), TEXTS, "id")
    key = ddl(20, "ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t")
    engine, model = apply_both([*early, key if statement else keyed])
    assert reason in paused(model)["t"]
    assert reason in engine.stopped()["shop", "t"]


def test_equal_rows_of_a_table_without_a_key_become_one_with_its_key() -> None:
    """They are repetitions where rows have no commit ts by which to recognize them."""
    again = [
        stated(replace(row("t", ts, None, 1, v="a"), ordering="milliseconds"), TEXTS)
        for ts in (10, 11)
    ]
    engine, _ = apply_both([*again, ddl(20, "ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t")])
    assert contents(engine) == {"t(id, v)": [("1", "a")]}


def test_a_key_may_be_spelt_in_another_case_than_its_columns() -> None:
    key = Index("primary", ("ID",), unique=True, primary=True)
    create = ddl(5, CREATE.sql, "t", replace(schema("t", 5), indexes=(key,)))
    changes = [row("t", ts, 5, n) for ts, n in ((10, 1), (20, 2), (30, 1))]
    engine, model = apply_both([create, *changes])
    assert contents(engine) == {"t(id)": [("1",), ("2",)]}
    assert model.problems == []


@pytest.mark.parametrize("sql", ["ALTER TABLE `t` COMMENT = ''", "RENAME TABLE `t` TO `u`"])
@pytest.mark.parametrize(
    ("columns", "reason"),
    [(["v"], "column 'w' is not stated"), (["v", "w", "x"], "column 'x' is stated")],
)
def test_a_message_with_other_columns_than_every_statement_made_pauses_its_table(
    columns: list[str], reason: str, sql: str
) -> None:
    """What the rows have in these columns is unknown: the changefeed left a statement out."""
    create = ddl(5, "CREATE TABLE `t` (id int primary key, v int, w int)", "t")
    create = replace(create, schema=schema("t", 5, "v", "w"))
    after = "u" if "RENAME" in sql else "t"
    altered = ddl(20, sql, after, schema(after, 20, *columns))
    engine, model = apply_both([create, row("t", 10, 5, 1, v="1", w="2"), altered])
    assert reason in paused(model)[after]
    assert reason in engine.stopped()["shop", after]


def test_a_table_ends_where_an_unknown_one_is_renamed_to_its_name() -> None:
    create = ddl(5, "CREATE TABLE `t` (id int primary key, v int)", "t")
    create = replace(create, schema=replace(schema("t", 5, "v"), table_id=1))
    came = ddl(20, "RENAME TABLE `s` TO `t`", "t", replace(schema("t", 3), table_id=2))
    rows = [row("t", 10, 5, 1, v="1"), row("t", 30, 3, 2)]
    engine, _ = apply_both([create, rows[0], came, rows[1]])
    assert contents(engine) == {"t(id)": [("2",)]}


@pytest.mark.parametrize("is_newer", [True, False])
def test_a_row_with_a_column_that_no_ddl_added_is_quarantined(is_newer: bool) -> None:
    """Its table would drop the value; of an older row, the column may have been dropped since."""
    create = replace(ddl(5, CREATE.sql, "t"), schema=schema("t", 5))
    version = 7 if is_newer else 3
    odd = row("t", 20, version, 2, x="9")
    engine, model = apply_both(
        [create, row("t", 10, 5, 1), bootstrap(schema("t", version, "x")), odd]
    )
    rows = [("1",)] if is_newer else [("1",), ("2",)]
    assert contents(engine) == {"t(id)": rows}
    for problems in (engine.problems, model.problems):
        assert [(p.commit_ts, p.reason) for p in problems] == (
            [(20, "column 'x': no DDL has added it")] if is_newer else []
        )


def test_a_key_that_names_no_column_pauses_a_table_with_rows() -> None:
    """The columns that are left of it do not tell the rows apart."""
    create = replace(ddl(5, "CREATE TABLE `t` (id int, v int)", "t"), schema=schema("t", 5, "v"))
    key = Index("primary", ("x", "v"), unique=True, primary=True)
    other = replace(schema("t", 20, "v"), indexes=(key,))
    altered = ddl(20, "ALTER TABLE `t` COMMENT = ''", "t", other)
    engine, model = apply_both([create, *(row("t", 10, 5, n, v="1") for n in (1, 2)), altered])
    assert "no value in x" in paused(model)["t"]
    assert "no value in x" in engine.stopped()["shop", "t"]
