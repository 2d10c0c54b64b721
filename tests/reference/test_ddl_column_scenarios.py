"""What DDL does to columns and keys, and to the rows that were there, in every manner."""

import pytest

from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, cut, edit, put
from tests.reference.model_runs import replays, tables

Expected = dict[str, list[tuple[str | None, ...]]]


def create(columns: str) -> Ddl:
    return Ddl(f"CREATE TABLE `t` ({columns})", "t")


def alter(actions: str, now: str) -> Ddl:
    return Ddl(f"ALTER TABLE `t` {actions}", "t", now)


SCENARIOS: dict[str, tuple[list[Step], Expected]] = {
    "columns are added at the given place": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=2),
            alter("ADD COLUMN `z` INT DEFAULT 9", "id int primary key, v int, z int default 9"),
            alter(
                "ADD COLUMN `b` INT DEFAULT 8 FIRST",
                "b int default 8, id int primary key, v int, z int default 9",
            ),
            alter(
                "ADD COLUMN `a` INT DEFAULT 7 AFTER `id`",
                "b int default 8, id int primary key, a int default 7, v int, z int default 9",
            ),
            put("t", b=1, id=2, a=1, v=1, z=1),
        ],
        {"t(b, id, a, v, z)": [("1", "2", "1", "1", "1"), ("8", "1", "7", "2", "9")]},
    ),
    "columns that are added behind the same one stand in reverse": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=2),
            alter(
                "ADD COLUMN `a` INT AFTER `id`, ADD COLUMN `b` INT DEFAULT 3 AFTER `id`,"
                " ADD COLUMN (`c` INT, `d` INT DEFAULT 4)",
                "id int primary key, b int default 3, a int, v int, c int, d int default 4",
            ),
        ],
        {"t(id, b, a, v, c, d)": [("1", "3", None, "2", None, "4")]},
    ),
    "one statement drops, adds, renames, changes and indexes": (
        [
            create("id int primary key, a int, b int, c int, d int, key k(a)"),
            put("t", id=1, a=1, b=2, c=3, d=4),
            alter(
                "DROP COLUMN `a`, ADD COLUMN `e` VARCHAR(5) DEFAULT _UTF8MB4'x' FIRST,"
                " RENAME COLUMN `b` TO `f`, MODIFY COLUMN `c` VARCHAR(10),"
                " CHANGE COLUMN `d` `g` BIGINT AFTER `id`, ADD UNIQUE `u`(`id`)",
                "e varchar(5) default 'x', id int primary key, g bigint, f int, c varchar(10),"
                " unique key u(id)",
            ),
            put("t", e="y", id=2, g=5, f=6, c="7"),
        ],
        {"t(e, id, g, f, c)": [("x", "1", "4", "2", "3"), ("y", "2", "5", "6", "7")]},
    ),
    "a column is changed in name, type and place at once": (
        [
            create("id int primary key, a int, b int"),
            put("t", id=1, a=12, b=3),
            alter(
                "CHANGE COLUMN `a` `c` VARCHAR(8) NOT NULL DEFAULT _UTF8MB4'q' AFTER `b`",
                "id int primary key, b int, c varchar(8) not null default 'q'",
            ),
            put("t", id=2, b=4, c="w"),
        ],
        {"t(id, b, c)": [("1", "3", "12"), ("2", "4", "w")]},
    ),
    "a column only moves": (
        [
            create("id int primary key, a int, b int"),
            put("t", id=1, a=1, b=2),
            alter("MODIFY COLUMN `b` INT FIRST", "b int, id int primary key, a int"),
            alter(
                "MODIFY COLUMN `id` INT AFTER `a`, MODIFY COLUMN `a` INT FIRST",
                "a int, b int, id int primary key",
            ),
        ],
        {"t(a, b, id)": [("1", "2", "1")]},
    ),
    "a column's name changes in letters only": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=2),
            alter("MODIFY COLUMN `V` BIGINT", "id int primary key, V bigint"),
            alter("CHANGE COLUMN `ID` `Id` INT NOT NULL", "Id int primary key, V bigint"),
            put("t", Id=2, V=3),
            cut("t", Id=1, V=2),
        ],
        {"t(Id, V)": [("2", "3")]},
    ),
    "a key column changes its type and the rows keep their places": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=1),
            put("t", id=2, v=2),
            alter("MODIFY COLUMN `id` BIGINT NOT NULL", "id bigint primary key, v int"),
            edit("t", {"id": 1, "v": 1}, v=3),
            cut("t", id=2, v=2),
            alter("MODIFY COLUMN `id` VARCHAR(10)", "id varchar(10) primary key, v int"),
            edit("t", {"id": "1", "v": 3}, v=4),
        ],
        {"t(id, v)": [("1", "4")]},
    ),
    "a key column changes its name": (
        [
            create("a int, b varchar(5), v int, primary key (b, a)"),
            put("t", a=1, b="x", v=1),
            alter("RENAME COLUMN `b` TO `c`", "a int, c varchar(5), v int, primary key (c, a)"),
            edit("t", {"a": 1, "c": "x", "v": 1}, v=2),
        ],
        {"t(a, c, v)": [("1", "x", "2")]},
    ),
    "a primary key gives way to another one": (
        [
            create("a int not null, b int not null, v int, primary key (a) nonclustered"),
            put("t", a=1, b=1, v=1),
            put("t", a=2, b=1, v=2),
            Ddl(
                "ALTER TABLE `t` DROP PRIMARY KEY",
                "t",
                "a int not null, b int not null, v int",
            ),
            alter(
                "ADD PRIMARY KEY(`b`, `a`) /*T![clustered_index] NONCLUSTERED */",
                "a int not null, b int not null, v int, primary key (b, a) nonclustered",
            ),
            put("t", a=2, b=2, v=3),
            edit("t", {"a": 1, "b": 1, "v": 1}, v=4),
        ],
        {"t(a, b, v)": [("1", "1", "4"), ("2", "1", "2"), ("2", "2", "3")]},
    ),
    "the key moves from the primary to a unique one": (
        [
            create("a int not null, b int not null, v int, primary key (a) nonclustered"),
            put("t", a=1, b=1, v=1),
            put("t", a=2, b=2, v=2),
            alter(
                "DROP PRIMARY KEY, ADD UNIQUE `u`(`b`)",
                "a int not null, b int not null, v int, unique key u(b)",
            ),
            put("t", a=1, b=3, v=3),
            edit("t", {"a": 1, "b": 1, "v": 1}, a=2),
        ],
        {"t(a, b, v)": [("1", "3", "3"), ("2", "1", "1"), ("2", "2", "2")]},
    ),
    "a unique index goes with its only column": (
        [
            create("id int primary key, u int, v int, unique key k(u), key l(v)"),
            put("t", id=1, u=1, v=1),
            alter("DROP COLUMN `u`", "id int primary key, v int, key l(v)"),
            alter("DROP COLUMN `v`", "id int primary key"),
            put("t", id=2),
        ],
        {"t(id)": [("1",), ("2",)]},
    ),
    "a column is dropped and added again as another": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=5),
            alter("DROP COLUMN `v`", "id int primary key"),
            alter("ADD COLUMN `v` VARCHAR(5)", "id int primary key, v varchar(5)"),
            put("t", id=2, v="x"),
        ],
        {"t(id, v)": [("1", None), ("2", "x")]},
    ),
    "what is there already is not added, what is not there is not dropped": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=5),
            alter(
                "ADD COLUMN IF NOT EXISTS `v` INT DEFAULT 3,"
                " ADD COLUMN IF NOT EXISTS `w` INT DEFAULT 4",
                "id int primary key, v int, w int default 4",
            ),
            alter(
                "DROP COLUMN IF EXISTS `x`, DROP INDEX IF EXISTS `y`",
                "id int primary key, v int, w int default 4",
            ),
        ],
        {"t(id, v, w)": [("1", "5", "4")]},
    ),
    "a default that changes later leaves the rows as they are": (
        [
            create("id int primary key"),
            put("t", id=1),
            alter("ADD COLUMN `v` INT DEFAULT 1", "id int primary key, v int default 1"),
            alter("ALTER COLUMN `v` SET DEFAULT 2", "id int primary key, v int default 2"),
            alter("ALTER COLUMN `v` DROP DEFAULT", "id int primary key, v int"),
            alter("ADD COLUMN `w` INT", "id int primary key, v int, w int"),
        ],
        {"t(id, v, w)": [("1", "1", None)]},
    ),
    "generated columns travel when they are stored": (
        [
            create(
                "id int primary key, a int, s int generated always as (a + 1) stored,"
                " w int generated always as (a + 2) virtual"
            ),
            put("t", id=1, a=1, s=2),
            alter(
                "ADD COLUMN `x` INT GENERATED ALWAYS AS(`a`*2) VIRTUAL AFTER `a`",
                "id int primary key, a int, x int as (a*2) virtual, s int as (a+1) stored,"
                " w int as (a+2) virtual",
            ),
            put("t", id=2, a=2, s=3),
            alter(
                "MODIFY COLUMN `x` BIGINT GENERATED ALWAYS AS(`a`*3) VIRTUAL",
                "id int primary key, a int, x bigint as (a*3) virtual, s int as (a+1) stored,"
                " w int as (a+2) virtual",
            ),
            alter(
                "DROP COLUMN `w`",
                "id int primary key, a int, x bigint as (a*3) virtual, s int as (a+1) stored",
            ),
            alter(
                "RENAME COLUMN `x` TO `y`",
                "id int primary key, a int, y bigint as (a*3) virtual, s int as (a+1) stored",
            ),
            put("t", id=3, a=3, s=4),
        ],
        {"t(id, a, s)": [("1", "1", "2"), ("2", "2", "3"), ("3", "3", "4")]},
    ),
    "an index over an expression adds nothing to rows": (
        [
            create("id int primary key, v int"),
            put("t", id=1, v=1),
            alter(
                "ADD UNIQUE `e`((`v`+1))",
                "id int primary key, v int, `_V$_e_0` bigint as (v+1) virtual,"
                " unique key e(`_V$_e_0`)",
            ),
            put("t", id=2, v=2),
            alter(
                "ADD COLUMN `a` INT DEFAULT 0 AFTER `id`",
                "id int primary key, a int default 0, v int, `_V$_e_0` bigint as (v+1) virtual,"
                " unique key e(`_V$_e_0`)",
            ),
        ],
        {"t(id, a, v)": [("1", "0", "1"), ("2", "0", "2")]},
    ),
    "a virtual column is no key to tell rows apart by": (
        [
            create(
                "a int not null, b int not null, v int as (a) virtual not null,"
                " unique key u(v), unique key w(a, b)"
            ),
            put("t", a=1, b=1),
            edit("t", {"a": 1, "b": 1}),
        ],
        {"t(a, b)": [("1", "1")]},
    ),
    "rows of a table without a key are altered one by one": (
        [
            create("a int, b int"),
            put("t", a=1, b=1),
            put("t", a=1, b=1),
            put("t", a=None, b=2),
            alter("ADD COLUMN `c` INT DEFAULT 5", "a int, b int, c int default 5"),
            cut("t", a=1, b=1, c=5),
            alter("MODIFY COLUMN `a` VARCHAR(5)", "a varchar(5), b int, c int default 5"),
            put("t", a="1", b=1, c=5),
            edit("t", {"a": None, "b": 2, "c": 5}, a="x"),
            alter("DROP COLUMN `c`", "a varchar(5), b int"),
        ],
        {"t(a, b)": [("1", "1"), ("1", "1"), ("x", "2")]},
    ),
    "members of an enum and a set are those of the row's own time": (
        [
            create("id int primary key, e enum('a','b'), s set('x','y')"),
            put("t", id=1, e=1, s=3),
            put("t", id=2, e=2, s=1),
            alter(
                "MODIFY COLUMN `e` ENUM('a','b','c'), MODIFY COLUMN `s` SET('x','y','z')",
                "id int primary key, e enum('a','b','c'), s set('x','y','z')",
            ),
            put("t", id=3, e=3, s=6),
            alter(
                "MODIFY COLUMN `e` ENUM('b','c','a')",
                "id int primary key, e enum('b','c','a'), s set('x','y','z')",
            ),
            put("t", id=4, e=3, s=None),
            edit("t", {"id": 2, "e": 1, "s": 1}, e=2),
        ],
        {
            "t(id, e, s)": [
                ("1", "a", "x,y"),
                ("2", "c", "x"),
                ("3", "c", "y,z"),
                ("4", "a", None),
            ]
        },
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_columns_are_as_upstream(title: str, manner: str) -> None:
    steps, expected = SCENARIOS[title]
    for model in replays(Teller(manner).tell(steps)):
        assert (tables(model), model.problems) == (expected, [])
