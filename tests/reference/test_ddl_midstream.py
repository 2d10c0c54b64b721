"""Changefeeds that begin in the middle: tables that rows or bootstraps tell of, and DDL on them."""

import pytest
from msgspec.structs import replace

from tests.reference.changefeeds import (
    Ddl,
    Step,
    Teller,
    cut,
    edit,
    exchange,
    put,
    rename,
    together,
)
from tests.reference.model_runs import paused, played, tables
from ticdc_assets.events import Bootstrap, TopicPosition
from ticdc_assets.reference.model import Model
from ticdc_assets.stream.rules import StreamRules

Expected = dict[str, list[tuple[str | None, ...]]]

T = "id int primary key, v int"
VIRTUAL = "id int primary key, x int as (v+1) virtual, v int"
RANGE = (
    "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),"
    "PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
)


def alter(actions: str, now: str, table: str = "t") -> Ddl:
    return Ddl(f"ALTER TABLE `{table}` {actions}", table, now)


# The table t as it was before; what happens to it; what there is of it.
SCENARIOS: dict[str, tuple[str, list[Step], Expected]] = {
    "altered": (
        T,
        [
            put("t", id=1, v=1),
            alter("ADD COLUMN `w` INT DEFAULT 7 AFTER `id`", "id int primary key, w int, v int"),
            put("t", id=2, w=2, v=2),
            alter("CHANGE COLUMN `v` `z` VARCHAR(5)", "id int primary key, w int, z varchar(5)"),
            alter("DROP COLUMN `w`", "id int primary key, z varchar(5)"),
        ],
        {"t(id, z)": [("1", "1"), ("2", "2")]},
    ),
    "altered before its first row": (
        T,
        [
            alter("ADD COLUMN `w` INT DEFAULT 7", "id int primary key, v int, w int"),
            put("t", id=2, v=2, w=2),
        ],
        {"t(id, v, w)": [("2", "2", "2")]},
    ),
    "renamed": (
        T,
        [put("t", id=1, v=1), rename("t", "b"), put("b", id=2, v=2), rename("b", "archive/c")],
        {"archive/c(id, v)": [("1", "1"), ("2", "2")]},
    ),
    "renamed before its first row": (
        T,
        [rename("t", "b"), put("b", id=2, v=2)],
        {"b(id, v)": [("2", "2")]},
    ),
    "emptied": (
        T,
        [put("t", id=1, v=1), Ddl("TRUNCATE TABLE `t`", "t"), put("t", id=2, v=2)],
        {"t(id, v)": [("2", "2")]},
    ),
    "dropped and created again": (
        T,
        [
            put("t", id=1, v=1),
            Ddl("DROP TABLE `shop`.`t`", "t"),
            Ddl("CREATE TABLE `t` (k int primary key)", "t"),
            put("t", k=2),
        ],
        {"t(k)": [("2",)]},
    ),
    "with columns that never travel": (
        VIRTUAL,
        [
            put("t", id=1, v=1),
            alter("ADD INDEX `i`(`x`)", VIRTUAL + ", key i(x)"),
            alter("RENAME COLUMN `x` TO `y`", VIRTUAL.replace(" x ", " y ")),
            alter("MODIFY COLUMN `y` BIGINT AS (`v`+2) VIRTUAL", VIRTUAL.replace(" x ", " y ")),
            alter(
                "ADD COLUMN `w` INT DEFAULT 3 AFTER `y`",
                "id int primary key, y int as (v+2) virtual, w int default 3, v int",
            ),
            alter("DROP COLUMN `y`", "id int primary key, w int default 3, v int"),
        ],
        {"t(id, w, v)": [("1", "3", "1")]},
    ),
    "whose primary key gives way": (
        "a int not null, b int not null, v int, primary key (a) nonclustered",
        [
            put("t", a=1, b=1, v=1),
            put("t", a=2, b=2, v=2),
            alter(
                "DROP PRIMARY KEY, ADD UNIQUE `u`(`b`)",
                "a int not null, b int not null, v int, unique key u(b)",
            ),
            put("t", a=1, b=3, v=3),
            alter(
                "ADD PRIMARY KEY(`b`,`a`)",
                "a int, b int, v int, unique key u(b), primary key (b, a) nonclustered",
            ),
            put("t", a=3, b=3, v=4),
        ],
        {"t(a, b, v)": [("1", "1", "1"), ("1", "3", "3"), ("2", "2", "2"), ("3", "3", "4")]},
    ),
    "with partitions that are all emptied": (
        T,
        [put("t", id=1, v=1), alter("TRUNCATE PARTITION ALL", T), put("t", id=2, v=2)],
        {"t(id, v)": [("2", "2")]},
    ),
    "of which another one is a copy": (
        T,
        [put("t", id=1, v=1), Ddl("CREATE TABLE `c` LIKE `t`", "c", T), put("c", id=2, v=2)],
        {"t(id, v)": [("1", "1")], "c(id, v)": [("2", "2")]},
    ),
}


@pytest.mark.parametrize("manner", ["canal", "canal-new", "simple", "simple-new", "storage"])
@pytest.mark.parametrize("title", SCENARIOS)
def test_a_table_that_was_there_before_is_followed(title: str, manner: str) -> None:
    columns, steps, expected = SCENARIOS[title]
    teller = Teller(manner)
    teller.knows("t", columns)
    first = [teller.bootstrap("t")] if teller.stated else []
    events = [*first, *teller.tell(steps)]
    model = played(events)
    assert _in_any_order(tables(model)) == _in_any_order(expected)
    assert model.problems == []
    again = played([*events, *events])
    played(events, again)
    assert _in_any_order(tables(again)) == _in_any_order(expected)


def _in_any_order(found: Expected) -> dict[tuple[str, ...], list[dict[str, str | None]]]:
    """Tables without the order of columns, which cannot be known from the middle on."""
    ordered = {}
    for shown, rows in found.items():
        table, _, columns = shown.rstrip(")").partition("(")
        names = columns.split(", ")
        ordered[table, *sorted(names)] = [dict(zip(names, row, strict=True)) for row in rows]
    return ordered


def test_the_statement_that_adds_a_virtual_column_shows_that_it_never_travels() -> None:
    teller = Teller("simple-new")
    teller.knows("t", T)
    events = [teller.bootstrap("t"), *teller.tell([put("t", id=1, v=1)])]
    later = teller.tell(
        [
            alter("ADD COLUMN `x` INT AS (`v`+1) VIRTUAL", T + ", x int as (v+1) virtual"),
            put("t", id=2, v=2),
        ]
    )
    assert tables(played([*events, *later])) == {"t(id, v)": [("1", "1"), ("2", "2")]}


@pytest.mark.parametrize("manner", ["simple", "simple-new", "storage"])
def test_a_schema_stated_again_changes_nothing_of_a_table_without_rows(manner: str) -> None:
    teller = Teller(manner)
    events = teller.tell([Ddl(f"CREATE TABLE `t` ({T}) {RANGE}", "t")])
    (created,) = events
    stated = replace(created.schema, version=created.schema.version + 1)  # type: ignore[union-attr]
    again = Bootstrap(schema=stated, position=teller.bootstrap("t").position)
    later = teller.tell(
        [put("t", id=1, v=1), put("t", id=11, v=1), alter("TRUNCATE PARTITION `p0`", T)]
    )
    model = played([*events, again, *later])
    assert (tables(model), model.problems) == ({"t(id, v)": [("11", "1")]}, [])


@pytest.mark.parametrize("gone", ["DROP TABLE `shop`.`t`", "DROP DATABASE `shop`", "RENAME"])
@pytest.mark.parametrize("manner", ["simple", "simple-new"])
def test_a_late_bootstrap_does_not_bring_a_table_back(manner: str, gone: str) -> None:
    teller = Teller(manner)
    stated = teller.knows("t", T)
    late = Bootstrap(schema=stated, position=TopicPosition("topic", 1, 1))
    events = teller.tell([put("t", id=1, v=1)])
    if gone == "RENAME":
        events = [teller.bootstrap("t"), *events, *teller.tell([rename("t", "u")])]
        late = replace(late, schema=replace(stated, version=stated.version - 1))  # type: ignore[operator]
    elif "DATABASE" in gone:
        events = teller.tell([Ddl(gone, "shop", kind="database")])
    else:
        events += teller.tell([Ddl(gone, "t")])
    model = played(events)
    model.add([late])
    model.advance(10_000)
    left = {"u(id, v)": [("1", "1")]} if gone == "RENAME" else {}
    assert tables(model) == left
    # The name may be used again.
    played(Teller(manner, 20_000).tell([Ddl(f"CREATE TABLE `t` ({T})", "t")]), model)
    assert tables(model) == {**left, "t(id, v)": []}


@pytest.mark.parametrize("manner", ["simple", "simple-new", "storage"])
def test_a_row_is_read_by_the_version_it_was_written_under(manner: str) -> None:
    enums = "id int primary key, e enum('a','b')"
    teller = Teller(manner)
    before = teller.tell([Ddl(f"CREATE TABLE `t` ({enums})", "t"), put("t", id=1, e=2)])
    (late,) = teller.tell([put("t", id=2, e=2)])
    after = teller.tell(
        [
            alter("MODIFY COLUMN `e` ENUM('b','a')", "id int primary key, e enum('b','a')"),
            put("t", id=3, e=2),
        ]
    )
    # A row of the old version that is committed after the statement.
    old = replace(late, commit_ts=after[-1].commit_ts + 5)  # type: ignore[union-attr, call-arg]
    model = played([*before, *after, old])
    rows = dict(tables(model)["t(id, e)"])  # type: ignore[arg-type]
    # The classic storage sink does not state members: the version's are those of its statement.
    assert (rows["1"], rows["3"]) == ("b", "a")
    if manner != "storage":
        assert rows["2"] == "b"


@pytest.mark.parametrize("is_created", [True, False])
def test_rows_that_state_another_type_are_quarantined_and_convert_nothing(is_created: bool) -> None:
    columns = "id int primary key, a int, b varchar(9), c decimal(5,2)"
    teller = Teller("canal")
    teller.knows("t", columns)
    created = [Ddl(f"CREATE TABLE `t` ({columns})", "t")] if is_created else []
    events = teller.tell([*created, put("t", id=1, a=1, b="é", c="1.50")])
    # A damaged row, or a DDL that the changefeed filters out.
    teller.knows("t", "id int primary key, a varchar(9), b varbinary(9), c double")
    model = played([*events, *teller.tell([put("t", id=2, a="x", b="AP8=", c="2")])])
    assert tables(model) == {"t(id, a, b, c)": [("1", "1", "é", "1.50")]}
    (problem,) = model.problems
    assert (problem.kind, problem.commit_ts) == ("quarantined", 110 + 10 * is_created + 10)
    assert problem.reason == (
        "column 'a': the row states varchar, the table has int, and no DDL has changed it"
    )


def test_a_partition_of_a_table_that_is_not_known_stops_the_table_it_changes_rows_with() -> None:
    teller = Teller("canal")
    teller.knows("t", T)
    events = teller.tell(
        [Ddl(f"CREATE TABLE `n` ({T})", "n"), put("n", id=1, v=1), exchange("t", "p0", "n")]
    )
    assert set(paused(played(events))) == {"t", "n"}


def test_declared_keys_hold_where_the_table_has_no_other() -> None:
    unique = "a int not null, b int not null, v int, unique key u(a)"
    teller = Teller("canal")
    teller.knows("t", unique)
    model = Model(StreamRules(declared_keys={"SHOP.T": ("A",), "shop.s": ("b",)}))
    played(teller.tell([put("t", a=1, b=1, v=1), put("t", a=1, b=1, v=2)]), model)
    assert tables(model) == {"t(a, b, v)": [("1", "1", "2")]}
    played(teller.tell([rename("t", "r"), edit("r", {"a": 1, "b": 1, "v": 2}, b=5)]), model)
    assert tables(model) == {"r(a, b, v)": [("1", "5", "2")]}
    played(teller.tell([rename("r", "s"), put("s", a=1, b=6, v=3)]), model)
    assert tables(model) == {"s(a, b, v)": [("1", "5", "2"), ("1", "6", "3")]}
    primary = alter("ADD PRIMARY KEY(`a`,`v`)", unique + ", primary key (a, v)", "s")
    played(teller.tell([primary, put("s", a=1, b=6, v=4), cut("s", a=1, b=5, v=2)]), model)
    assert tables(model) == {"s(a, b, v)": [("1", "6", "3"), ("1", "6", "4")]}


def test_unnamed_members_stay_numbers_and_are_reported_once() -> None:
    columns = "id int primary key, e enum('a','b')"
    teller = Teller("canal")
    teller.knows("t", columns)
    model = played(teller.tell([put("t", id=1, e=2), put("t", id=2, e=1)]))
    assert tables(model) == {"t(id, e)": [("1", "2"), ("2", "1")]}
    (problem,) = model.problems
    assert (problem.kind, problem.table) == ("approximate", "t")
    assert "ENUM" in problem.reason
    assert "column e" in problem.reason


def test_rows_may_overtake_a_statement_within_its_millisecond() -> None:
    """Without the TiDB extension rows and statements know the millisecond only."""
    teller = Teller("canal")
    events = teller.tell([Ddl(f"CREATE TABLE `t` ({T})", "t"), put("t", id=1, v=1)])
    altered = teller.tell(
        [
            alter("ADD COLUMN `w` INT DEFAULT 7 FIRST", "w int, id int primary key, v int"),
            together(put("t", w=1, id=2, v=2)),
            alter("RENAME COLUMN `v` TO `z`", "w int, id int primary key, z int"),
            together(put("t", w=1, id=3, z=3)),
        ]
    )
    events += [replace(event, ordering="milliseconds") for event in altered]
    model = played(events)
    assert tables(model) == {"t(w, id, z)": [("1", "2", "2"), ("1", "3", "3"), ("7", "1", "1")]}
    assert model.problems == []


def test_a_rename_stays_behind_the_rows_that_wait_for_their_schema() -> None:
    teller = Teller("simple-new")
    teller.knows("t", T)
    rows = teller.tell([put("t", id=1, v=1)])
    stated = teller.bootstrap("t")
    events = [*rows, *teller.tell([rename("t", "u"), put("u", id=2, v=2)])]
    model = played(events)
    assert tables(model) == {}
    model.add([stated])
    model.advance(10_000)
    assert tables(model) == {"u(id, v)": [("1", "1"), ("2", "2")]}
    assert [*model.problems, *model.waiting_rows()] == []


def test_numbers_without_names_stop_their_table_at_a_new_list_of_members() -> None:
    teller = Teller("canal")
    teller.knows("t", "id int primary key, e enum('a','b'), s set('x','y')")
    before = teller.tell([put("t", id=1, e=1, s=None)])
    members = alter(
        "MODIFY COLUMN `s` SET('y','x')", "id int primary key, e enum('a','b'), s set('y','x')"
    )
    model = played([*before, *teller.tell([members, put("t", id=2, e=2, s=2)])])
    assert tables(model) == {"t(id, e, s)": [("1", "1", None), ("2", "2", "x")]}
    reorder = alter(
        "MODIFY COLUMN `e` ENUM('b','a')", "id int primary key, e enum('b','a'), s set('y','x')"
    )
    played(teller.tell([reorder]), model)
    assert "members that the enum had before" in paused(model)["t"]
