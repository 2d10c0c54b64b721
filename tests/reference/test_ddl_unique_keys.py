"""Tables without a primary key: a unique key over NOT NULL columns identifies their rows.

TiDB takes the first such key for the primary key, and Simple states it as one, in both generations.
TiCDC identifies rows by the shortest.
"""

import pytest
from msgspec.structs import replace

from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, cut, edit, put
from tests.reference.model_runs import played, replays, tables
from tests.reference.test_ddl_scenarios import Expected, create
from ticdc_assets.events import RowChange
from ticdc_assets.events.row_image import dump

KEYED = "id int, v varchar(10) not null, primary key (id) nonclustered, unique key uv(v)"
UNKEYED = "id int not null, v varchar(10) not null, unique key uv(v)"
MOVED = "id int not null, v varchar(10) not null, primary key (v) nonclustered, unique key uv(v)"

TWO = "a int not null, b int not null, c int not null, n int, unique key ab(a, b), unique key uc(c)"
VIRTUAL = "b int as (a) virtual not null"


def alter(columns: str, *actions: str) -> Ddl:
    return Ddl(f"ALTER TABLE `t` {', '.join(actions)}", "t", columns)


# Steps, the tables afterwards.
SCENARIOS: dict[str, tuple[list[Step], Expected]] = {
    "a primary key is dropped, and added over another unique key": (
        [
            create("t", KEYED),
            put("t", id=1, v="a"),
            put("t", id=2, v="b"),
            alter(UNKEYED, "DROP PRIMARY KEY"),
            # `id` identifies no row any more.
            put("t", id=1, v="c"),
            edit("t", {"id": 2, "v": "b"}, id=1),
            cut("t", id=1, v="a"),
            alter(MOVED, "ADD PRIMARY KEY (`v`)"),
            put("t", id=1, v="d"),
            edit("t", {"id": 1, "v": "c"}, v="e"),
            cut("t", id=1, v="b"),
        ],
        {"t(id, v)": [("1", "d"), ("1", "e")]},
    ),
    "a primary key comes to a table that never had one": (
        [
            create("t", UNKEYED),
            put("t", id=1, v="a"),
            edit("t", {"id": 1, "v": "a"}, v="b"),
            alter(MOVED.replace("(v) n", "(id) n"), "ADD PRIMARY KEY (`id`)"),
            edit("t", {"id": 1, "v": "b"}, v="c"),
            put("t", id=2, v="a"),
        ],
        {"t(id, v)": [("1", "c"), ("2", "a")]},
    ),
    "of several unique keys the shortest identifies rows, until it is dropped": (
        [
            create("t", TWO),
            put("t", a=1, b=1, c=1, n=1),
            put("t", a=1, b=2, c=2, n=2),
            edit("t", {"a": 1, "b": 2, "c": 2, "n": 2}, a=3),
            alter(TWO.replace(", unique key uc(c)", ""), "DROP INDEX `uc`"),
            put("t", a=2, b=2, c=1, n=3),
            edit("t", {"a": 1, "b": 1, "c": 1, "n": 1}, c=2),
            alter(
                TWO.replace("unique key uc(c)", "primary key (a, b) nonclustered"),
                "ADD PRIMARY KEY (`a`, `b`)",
            ),
            cut("t", a=3, b=2, c=2, n=2),
        ],
        {"t(a, b, c, n)": [("1", "1", "2", "1"), ("2", "2", "1", "3")]},
    ),
    "a column of the key becomes nullable, and the next key takes over": (
        [
            create("t", TWO),
            put("t", a=1, b=1, c=1, n=1),
            alter(TWO.replace("c int not null", "c int"), "MODIFY COLUMN `c` INT NULL"),
            put("t", a=1, b=2, c=None, n=2),
            put("t", a=2, b=1, c=None, n=3),
            edit("t", {"a": 1, "b": 1, "c": 1, "n": 1}, b=3),
            edit("t", {"a": 1, "b": 2, "c": None, "n": 2}, c=2),
            edit("t", {"a": 2, "b": 1, "c": None, "n": 3}, c=3),
            alter(TWO, "MODIFY COLUMN `c` INT NOT NULL"),
            edit("t", {"a": 1, "b": 3, "c": 1, "n": 1}, a=4, b=4),
            alter(f"{TWO}, primary key (c) nonclustered", "ADD PRIMARY KEY (`c`)"),
            edit("t", {"a": 1, "b": 2, "c": 2, "n": 2}, c=5),
        ],
        {"t(a, b, c, n)": [("1", "2", "5", "2"), ("2", "1", "3", "3"), ("4", "4", "1", "1")]},
    ),
    "a key over a virtual column identifies no row": (
        [
            create(
                "t",
                "a int not null, b int as (a) virtual not null, n int, unique ub(b), unique (a)",
            ),
            put("t", a=1, n=1),
            edit("t", {"a": 1, "n": 1}, n=2),
            put("t", a=2, n=1),
        ],
        {"t(a, n)": [("1", "2"), ("2", "1")]},
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_tables_are_as_upstream(title: str, manner: str) -> None:
    steps, expected = SCENARIOS[title]
    events = Teller(manner).tell(steps)
    # With force-replicate, and without.
    for model in (*replays(events), played(events)):
        assert (tables(model), model.problems) == (expected, [])


SIMPLE = [manner for manner in MANNERS if manner.startswith("simple")]


@pytest.mark.parametrize("manner", SIMPLE)
def test_a_message_with_the_handle_key_only_has_the_shortest_unique_key(manner: str) -> None:
    events = Teller(manner).tell([create("t", TWO), put("t", a=1, b=1, c=7, n=1)])
    row = events[-1]
    assert isinstance(row, RowChange)
    events[-1] = replace(row, after=dump({"c": "7"}), handle_key_only=True)
    model = played(events)
    (table,) = model.tables
    assert [*table.incomplete.values()] == [{"c": 7}]
    assert {problem.kind for problem in model.problems} == {"incomplete"}


@pytest.mark.parametrize("manner", SIMPLE)
@pytest.mark.parametrize("other", ["", ", unique key uw(w)"])
def test_a_bootstrap_states_a_key_that_a_primary_key_may_take_over(manner: str, other: str) -> None:
    teller = Teller(manner)
    columns = f"v int not null, w int not null, unique key uv(v){other}"
    teller.knows("t", columns)
    first = [teller.bootstrap("t"), *teller.tell([put("t", v=1, w=1)])]
    steps = [
        edit("t", {"v": 1, "w": 1}, v=2),
        alter(f"{columns}, primary key (v) nonclustered", "ADD PRIMARY KEY (`v`)"),
        edit("t", {"v": 2, "w": 1}, v=3),
        put("t", v=1, w=2),
    ]
    model = played([*first, *teller.tell(steps)])
    assert (tables(model), model.problems) == ({"t(v, w)": [("1", "2"), ("3", "1")]}, [])


@pytest.mark.parametrize("manner", SIMPLE)
def test_a_clustered_integer_beside_an_equal_unique_key_identifies_rows(manner: str) -> None:
    """The bootstrap of such a table looks like that of one without a primary key."""
    teller = Teller(manner)
    columns = "id int primary key, v int not null, unique key u(id), unique key uv(v)"
    teller.knows("t", columns)
    first = [teller.bootstrap("t"), *teller.tell([put("t", id=1, v=1), put("t", id=2, v=2)])]
    steps = [
        edit("t", {"id": 1, "v": 1}, v=3),
        alter("id int primary key, v int not null, unique key uv(v)", "DROP INDEX `u`"),
        edit("t", {"id": 2, "v": 2}, v=1),
        alter("id int primary key, v int not null", "DROP INDEX `uv`"),
        put("t", id=3, v=1),
    ]
    model = played([*first, *teller.tell(steps)])
    assert (tables(model), model.problems) == (
        {"t(id, v)": [("1", "3"), ("2", "1"), ("3", "1")]},
        [],
    )


@pytest.mark.parametrize("manner", MANNERS)
def test_a_table_may_be_without_any_key_for_a_while_with_force_replicate(manner: str) -> None:
    nullable = UNKEYED.replace("v varchar(10) not null", "v varchar(10)")
    steps = [
        create("t", UNKEYED),
        put("t", id=1, v="a"),
        alter(nullable, "MODIFY COLUMN `v` VARCHAR(10) NULL"),
        put("t", id=2, v=None),
        put("t", id=2, v=None),
        edit("t", {"id": 2, "v": None}, v="b"),
        cut("t", id=2, v=None),
        alter(MOVED, "ADD PRIMARY KEY (`v`)"),
        edit("t", {"id": 2, "v": "b"}, v="c"),
    ]
    for model in replays(Teller(manner).tell(steps)):
        assert (tables(model), model.problems) == ({"t(id, v)": [("1", "a"), ("2", "c")]}, [])
