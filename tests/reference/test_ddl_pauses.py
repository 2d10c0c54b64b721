"""DDLs that cannot be applied pause the affected tables and no others, and are reported."""

import pytest
from msgspec.structs import replace

from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, cut, exchange, put, rename
from tests.reference.model_runs import paused, played, tables
from ticdc_assets.events import SchemaChange, TopicPosition

T = "id int primary key, v varchar(10)"
RANGE = (
    "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),"
    "PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
)
# A partitioning that this project cannot follow.
STRANGE = RANGE.replace("(`id`)", "(soundex(`id`))")
UNREADABLE = "ALTER TABLE `t` FROBNICATE THE `v`"


def create(table: str, by: str = "", columns: str = T) -> Ddl:
    name = ".".join(f"`{part}`" for part in table.split("/"))
    return Ddl(f"CREATE TABLE {name} ({columns}) {by}", table)


def rows(table: str, *ids: int) -> list[Step]:
    return [put(table, id=i, v="v") for i in ids]


def left(*ids: int) -> list[tuple[str | None, ...]]:
    return [(str(i), "v") for i in ids]


Expected = dict[str, list[tuple[str | None, ...]]]
BOTH = [create("t"), create("u"), *rows("t", 1), *rows("u", 1)]

# Steps; which tables are paused, and a word of the reason; the other tables.
SCENARIOS: dict[str, tuple[list[Step], dict[str, str], Expected]] = {
    "an unreadable statement stops its table": (
        [*BOTH, Ddl(UNREADABLE, "t"), *rows("t", 2), *rows("u", 2)],
        {"t": UNREADABLE},
        {"u(id, v)": left(1, 2)},
    ),
    "a paused table remains paused under its next names": (
        [
            *BOTH,
            Ddl(UNREADABLE, "t"),
            rename("t", "w"),
            Ddl("ALTER TABLE `w` ADD COLUMN `x` INT", "w", f"{T}, x int"),
            rename("w", "archive/z"),
            put("archive/z", id=5, v="v", x=1),
        ],
        {"archive/z": "FROBNICATE"},
        {"u(id, v)": left(1)},
    ),
    "an empty table remains paused when it is renamed": (
        [create("t"), Ddl(UNREADABLE, "t"), rename("t", "w"), *rows("w", 1)],
        {"w": "FROBNICATE"},
        {},
    ),
    "a paused table that is dropped and created again works": (
        [
            *BOTH,
            Ddl(UNREADABLE, "t"),
            Ddl("DROP TABLE `shop`.`t`", "t"),
            create("t"),
            *rows("t", 3),
        ],
        {},
        {"t(id, v)": left(3), "u(id, v)": left(1)},
    ),
    "a paused table that is recovered is as it was": (
        [
            *BOTH,
            Ddl(UNREADABLE, "t"),
            Ddl("DROP TABLE `shop`.`t`", "t"),
            Ddl("RECOVER TABLE `t`", "t", T),
        ],
        {"t": "FROBNICATE"},
        {"u(id, v)": left(1)},
    ),
    "an unreadable CREATE stops a table that is not there yet": (
        [create("u"), Ddl("CREATE TABLE `t` (`id` INT) WITH SAUCE", "t", T), *rows("t", 1)],
        {"t": "SAUCE"},
        {"u(id, v)": []},
    ),
    "partitions that cannot be found stop their table": (
        [
            create("t", STRANGE),
            create("u"),
            *rows("t", 1),
            Ddl("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "t"),
            *rows("u", 2),
        ],
        {"t": "TRUNCATE PARTITION `p0`"},
        {"u(id, v)": left(2)},
    ),
    "a partition that is not known stops its table": (
        [create("t", RANGE), *rows("t", 1), Ddl("ALTER TABLE `t` DROP PARTITION `p7`", "t")],
        {"t": "p7"},
        {},
    ),
    "a row that no partition takes stops its table": (
        [
            create("t", RANGE.replace("MAXVALUE", "20")),
            create("u", RANGE.replace("MAXVALUE", "20")),
            *rows("t", 1, 20),
            *rows("u", 1, 19),
            Ddl("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "t"),
            Ddl("ALTER TABLE `u` DROP PARTITION `p0`", "u"),
        ],
        {"t": "no partition takes one of the rows"},
        {"u(id, v)": left(19)},
    ),
    "an exchange that cannot be followed stops both tables": (
        [
            create("t", STRANGE),
            create("u"),
            create("w"),
            *rows("t", 1),
            *rows("u", 2),
            exchange("t", "p0", "u"),
            *rows("w", 3),
        ],
        {"t": "EXCHANGE PARTITION", "u": "EXCHANGE PARTITION"},
        {"w(id, v)": left(3)},
    ),
    "rows that are older than a column stop an exchange with a table that added it otherwise": (
        [
            create("t", RANGE),
            *rows("t", 1),
            Ddl("ALTER TABLE `t` ADD `x` INT DEFAULT 5", "t", f"{T}, x int default 5"),
            create("u", columns=f"{T}, x int default 5"),
            exchange("t", "p0", "u"),
        ],
        {"t": "older than the column 'x'", "u": "load both tables"},
        {},
    ),
    "a table that exchanges rows with itself stops": (
        [create("t", RANGE), *rows("t", 1), exchange("t", "p0", "t")],
        {"t": "with the table itself"},
        {},
    ),
    "rows exchanged with a paused table stop the other one": (
        [
            create("t", RANGE),
            *BOTH[1:2],
            *rows("t", 1),
            Ddl(UNREADABLE.replace("`t`", "`u`"), "u"),
            exchange("t", "p0", "u"),
        ],
        {"t": "paused table", "u": "FROBNICATE"},
        {},
    ),
    "rows that lie in a wrong partition are kept, until a partition goes": (
        [
            create("t", RANGE),
            create("u"),
            *rows("t", 1),
            *rows("u", 50),
            exchange("t", "p0", "u", " WITHOUT VALIDATION"),
            create("x", RANGE),
            create("y"),
            *rows("y", 50),
            exchange("x", "p0", "y", " WITHOUT VALIDATION"),
            Ddl("ALTER TABLE `x` DROP PARTITION `p0`", "x"),
        ],
        {"x": "WITHOUT VALIDATION"},
        {"t(id, v)": left(50), "u(id, v)": left(1), "y(id, v)": []},
    ),
    "a column that takes the place of another stops its table": (
        [
            create("t", columns="id int primary key, a int, b int"),
            put("t", id=1, a=1, b=2),
            Ddl("ALTER TABLE `t` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`", "t"),
        ],
        {"t": "already has a column 'b'"},
        {},
    ),
    "a value that cannot be converted stops its table": (
        [
            create("t", columns="id int primary key, v json"),
            put("t", id=1, v='{"a": 1}'),
            Ddl("ALTER TABLE `t` MODIFY COLUMN `v` BIT(8)", "t", "id int primary key, v bit(8)"),
        ],
        {"t": "no conversion from json to bit"},
        {},
    ),
    "rows of a default that has to be evaluated stop their table": (
        [
            create("t"),
            create("u"),
            *rows("t", 1),
            *(
                Ddl(
                    f"ALTER TABLE `{name}` ADD COLUMN `k` VARCHAR(40) DEFAULT (UUID())",
                    name,
                    f"{T}, k varchar(40) default (uuid())",
                )
                for name in ("t", "u")
            ),
            put("u", id=1, v="v", k="x"),
        ],
        {"t": "UUID"},
        {"u(id, v, k)": [("1", "v", "x")]},
    ),
    "a table copied from a paused one is not to be trusted without its schema": (
        [
            *BOTH,
            Ddl(UNREADABLE, "t"),
            Ddl("CREATE TABLE `c` LIKE `t`", "c", T),
            *rows("c", 1),
        ],
        {"t": "FROBNICATE", "c": "paused"},
        {"u(id, v)": left(1)},
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_only_the_tables_concerned_are_paused(title: str, manner: str) -> None:
    steps, reasons, expected = SCENARIOS[title]
    reasons = dict(reasons)
    expected = dict(expected)
    if title.startswith("a table copied") and not manner.startswith("canal"):
        # Its columns are stated.
        del reasons["c"]
        expected["c(id, v)"] = left(1)
    events = Teller(manner).tell(steps)
    for model in (played(events), played([*events, *events])):
        found = paused(model)
        assert set(found) == set(reasons), found
        assert all(word in found[name] for name, word in reasons.items()), found
        assert tables(model) == expected
        said = {(p.database, p.table) for p in model.problems if p.kind == "paused"}
        assert len(said) >= len(reasons)
        assert {p.kind for p in model.problems} <= {"paused"}


SAME_NAMED = [
    Ddl("CREATE TABLE `a`.`t` (id int primary key, v int)", "a/t"),
    put("a/t", id=1, v=1),
    Ddl("CREATE TABLE `c`.`t` (id int primary key, v int)", "c/t"),
    put("c/t", id=2, v=2),
]
UNQUALIFIED = Ddl("ALTER TABLE `t` RENAME AS `b`.`s`", "b/s", other="a/t")


@pytest.mark.parametrize("manner", ["canal", "storage"])
def test_a_rename_that_may_mean_two_tables_stops_both_and_the_new_one(manner: str) -> None:
    teller = Teller(manner)
    events = teller.tell([*SAME_NAMED, UNQUALIFIED, put("b/s", id=3, v=3)])
    model = played(events)
    assert tables(model) == {}
    assert set(paused(model)) == {"a/t", "c/t", "b/s"}
    assert all("it may be a.t or c.t" in reason for reason in paused(model).values())


@pytest.mark.parametrize("manner", ["canal", "storage", "simple"])
def test_a_rename_that_can_mean_one_table_only_means_it(manner: str) -> None:
    events = Teller(manner).tell([*SAME_NAMED[:2], UNQUALIFIED, put("b/s", id=3, v=3)])
    assert tables(played(events)) == {"b/s(id, v)": [("1", "1"), ("3", "3")]}


def test_a_rename_is_of_the_table_whose_id_is_stated() -> None:
    events = Teller("simple").tell([*SAME_NAMED, UNQUALIFIED, put("b/s", id=3, v=3)])
    model = played(events)
    assert tables(model) == {"b/s(id, v)": [("1", "1"), ("3", "3")], "c/t(id, v)": [("2", "2")]}
    assert model.problems == []


def test_a_rename_is_of_the_table_with_the_columns_stated() -> None:
    other = Ddl("CREATE TABLE `c`.`t` (id int primary key, w int)", "c/t")
    events = Teller("storage").tell([*SAME_NAMED[:2], other, UNQUALIFIED])
    assert tables(played(events)) == {"b/s(id, v)": [("1", "1")], "c/t(id, w)": []}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_copy_of_one_of_two_unlike_tables_has_the_columns_stated_or_stops(manner: str) -> None:
    steps = [
        Ddl("CREATE TABLE `a`.`t` (id int primary key, v int)", "a/t"),
        Ddl("CREATE TABLE `c`.`t` (id int primary key, w int)", "c/t"),
        Ddl("CREATE TABLE `b`.`s` LIKE `t`", "b/s", "id int primary key, v int"),
        put("b/s", id=1, v=1),
    ]
    model = played(Teller(manner).tell(steps))
    if manner.startswith("canal"):
        assert "it may be a.t or c.t" in paused(model)["b/s"]
    else:
        assert tables(model)["b/s(id, v)"] == [("1", "1")]


@pytest.mark.parametrize("ddl_type", ["RENAME", "14", "42"])
def test_an_unreadable_statement_about_two_tables_stops_all(ddl_type: str) -> None:
    change = SchemaChange(
        commit_ts=500,
        database="shop",
        table="new",
        sql="RENAME TABLE `t` TO `new` WITH SAUCE",
        ddl_type=ddl_type,
        position=TopicPosition("topic", 0, 99),
    )
    teller = Teller("canal")
    model = played([*teller.tell(BOTH), change])
    assert set(paused(model)) == {"t", "u"}
    # A table that was there before and is met only now is no better.
    late = Teller("canal", start=600)
    late.knows("new", T)
    played(late.tell(rows("new", 1)), model)
    played(Teller("canal", start=700).tell([create("fresh"), *rows("fresh", 1)]), model)
    assert set(paused(model)) == {"t", "u", "new"}
    assert tables(model) == {"fresh(id, v)": left(1)}


@pytest.mark.parametrize("manner", MANNERS)
def test_the_time_of_a_statement_is_only_near(manner: str) -> None:
    now = f"{T}, c datetime default current_timestamp"
    alter = Ddl("ALTER TABLE `t` ADD COLUMN `c` DATETIME DEFAULT CURRENT_TIMESTAMP", "t", now)
    model = played(Teller(manner).tell([create("t"), *rows("t", 1), alter, create("u")]))
    (problem,) = model.problems
    assert (problem.kind, problem.table, problem.data_may_differ) == ("approximate", "t", True)
    assert "column c" in problem.reason
    empty = played(Teller(manner).tell([create("t"), alter]))
    assert empty.problems == []


@pytest.mark.parametrize("manner", MANNERS)
def test_rows_known_by_their_key_follow_their_table(manner: str) -> None:
    teller = Teller(manner)
    before = teller.tell([create("t", RANGE), create("u"), *rows("t", 1, 20)])
    short = [
        replace(event, handle_key_only=True, after=f'{{"id":"{key}"}}')
        for key, event in zip((2, 21, 3), teller.tell(rows("t", 2, 21, 3)), strict=True)
    ]
    model = played([*before, *short, *teller.tell([exchange("t", "p0", "u")])])
    one, two = model.tables.get("shop", "t"), model.tables.get("shop", "u")
    assert one is not None
    assert two is not None
    assert (set(one.incomplete), set(two.incomplete)) == ({(21,)}, {(2,), (3,)})
    typed = "varchar(9) primary key, v varchar(10)"
    later: list[Step] = [
        Ddl("ALTER TABLE `u` MODIFY COLUMN `id` VARCHAR(9)", "u", f"id {typed}"),
        Ddl("ALTER TABLE `u` RENAME COLUMN `id` TO `k`", "u", f"k {typed}"),
        cut("u", k="2", v="v"),
        Ddl("ALTER TABLE `t` TRUNCATE PARTITION `p1`", "t"),
    ]
    played(teller.tell(later), model)
    assert (set(one.incomplete), set(two.incomplete)) == (set(), {("3",)})
    assert tables(model) == {"t(id, v)": [], "u(k, v)": [("1", "v")]}
