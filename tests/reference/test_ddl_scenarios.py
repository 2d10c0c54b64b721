"""What DDL does to whole tables: created, dropped, renamed and brought back, in every manner."""

import pytest

from tests.reference.changefeeds import (
    MANNERS,
    Ddl,
    Step,
    Teller,
    cut,
    edit,
    put,
    rename,
    rename_all,
    together,
)
from tests.reference.model_runs import replays, tables

T = "id int primary key, v varchar(10)"
PARTED = (
    "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),"
    "PARTITION `p1` VALUES LESS THAN (20))"
)


def create(table: str, columns: str = T, tail: str = "") -> Ddl:
    name = ".".join(f"`{part}`" for part in table.split("/"))
    return Ddl(f"CREATE TABLE {name} ({columns}){tail}", table)


def drop(table: str) -> Ddl:
    database, _, name = table.rpartition("/")
    return Ddl(f"DROP TABLE `{database or 'shop'}`.`{name}`", table)


def truncate(table: str) -> Ddl:
    return Ddl(f"TRUNCATE TABLE `{table}`", table)


def database(verb: str, name: str) -> Ddl:
    return Ddl(f"{verb} DATABASE `{name}`", name, kind="database")


Expected = dict[str, list[tuple[str | None, ...]]]

SCENARIOS: dict[str, tuple[list[Step], Expected]] = {
    "a truncated table is empty and goes on": (
        [create("t"), put("t", id=1, v="a"), truncate("t"), put("t", id=2, v="b")],
        {"t(id, v)": [("2", "b")]},
    ),
    "a table dropped and created again is another table": (
        [
            create("t"),
            put("t", id=1, v="a"),
            drop("t"),
            create("t", "k bigint primary key, w int"),
            put("t", k=1, w=7),
        ],
        {"t(k, w)": [("1", "7")]},
    ),
    "a database dropped and created again starts empty": (
        [
            database("CREATE", "archive"),
            create("archive/t"),
            create("archive/u"),
            put("archive/t", id=1, v="a"),
            create("t"),
            put("t", id=2, v="b"),
            database("DROP", "archive"),
            database("CREATE", "archive"),
            create("archive/u", "id int primary key, w int"),
            put("archive/u", id=3, w=3),
        ],
        {"t(id, v)": [("2", "b")], "archive/u(id, w)": [("3", "3")]},
    ),
    "a rename takes the rows along and frees the name": (
        [
            create("a"),
            put("a", id=1, v="a"),
            rename("a", "b"),
            put("b", id=2, v="b"),
            rename("b", "archive/c"),
            edit("archive/c", {"id": 1, "v": "a"}, v="c"),
            create("a"),
            put("a", id=9, v="new"),
        ],
        {"archive/c(id, v)": [("1", "c"), ("2", "b")], "a(id, v)": [("9", "new")]},
    ),
    "a rename changes no more than letters": (
        [create("t"), put("t", id=1, v="a"), rename("t", "T"), cut("T", id=1, v="a")],
        {"T(id, v)": []},
    ),
    "an empty table is renamed": (
        [create("a"), rename("a", "b"), put("b", id=1, v="x")],
        {"b(id, v)": [("1", "x")]},
    ),
    "two tables change names by way of a third": (
        [
            create("a"),
            create("b", "id int primary key, w int"),
            put("a", id=1, v="a"),
            put("b", id=1, w=2),
            *rename_all(("a", "tmp"), ("b", "a"), ("tmp", "b")),
            put("a", id=3, w=4),
            put("b", id=5, v="b"),
        ],
        {"a(id, w)": [("1", "2"), ("3", "4")], "b(id, v)": [("1", "a"), ("5", "b")]},
    ),
    "two databases change tables": (
        [
            create("t"),
            create("archive/t", "id int primary key, w int"),
            put("t", id=1, v="a"),
            put("archive/t", id=1, w=2),
            *rename_all(("t", "archive/tmp"), ("archive/t", "t"), ("archive/tmp", "archive/t")),
            cut("t", id=1, w=2),
        ],
        {"t(id, w)": [], "archive/t(id, v)": [("1", "a")]},
    ),
    "tables of one statement are renamed without a circle": (
        [
            create("a"),
            create("b"),
            create("c"),
            put("a", id=1, v="a"),
            put("b", id=2, v="b"),
            put("c", id=3, v="c"),
            *rename_all(("c", "d"), ("b", "c"), ("a", "b")),
        ],
        {"b(id, v)": [("1", "a")], "c(id, v)": [("2", "b")], "d(id, v)": [("3", "c")]},
    ),
    "names are compared without regard to case": (
        [
            create("Orders", "Id int primary key, V int"),
            put("Orders", Id=1, V=2),
            Ddl(
                "ALTER TABLE `ORDERS` RENAME COLUMN `v` TO `W`",
                "Orders",
                "Id int primary key, W int",
            ),
            put("Orders", Id=2, W=3),
            Ddl(
                "ALTER TABLE `orders` ADD COLUMN `x` INT DEFAULT 5 AFTER `ID`",
                "Orders",
                "Id int primary key, x int default 5, W int",
            ),
        ],
        {"Orders(Id, x, W)": [("1", "5", "2"), ("2", "5", "3")]},
    ),
    "any sign may stand in a name": (
        [
            create("a.b-ü 表", "`id ``x` int primary key, `a.b` varchar(5), `\"q'` int"),
            put("a.b-ü 表", **{"id `x": 1, "a.b": "x", "\"q'": None}),
            rename("a.b-ü 表", "archive/1 '2` %"),
            Ddl(
                "ALTER TABLE `archive`.`1 '2`` %` DROP COLUMN `a.b`",
                "archive/1 '2` %",
                "`id ``x` int primary key, `\"q'` int",
            ),
        ],
        {"archive/1 '2` %(id `x, \"q')": [("1", None)]},
    ),
    "names that only look alike are two tables": (
        [
            create("straße"),
            create("strasse"),
            put("straße", id=1, v="ß"),
            put("strasse", id=2, v="ss"),
            drop("strasse"),
        ],
        {"straße(id, v)": [("1", "ß")]},
    ),
    "a view touches no rows": (
        [
            create("t"),
            put("t", id=1, v="a"),
            Ddl(
                "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW"
                " `shop`.`w` AS SELECT `id` FROM `shop`.`t`"
            ),
            Ddl("CREATE OR REPLACE VIEW `shop`.`w` AS SELECT 1"),
            Ddl("DROP VIEW `shop`.`w`"),
            put("t", id=2, v="b"),
        ],
        {"t(id, v)": [("1", "a"), ("2", "b")]},
    ),
    "what changes no rows changes none": (
        [
            create("t"),
            put("t", id=1, v="a"),
            *(
                Ddl(sql, "t")
                for sql in (
                    "ALTER TABLE `t` COMMENT = 'c'",
                    "ALTER TABLE `t` AUTO_INCREMENT = 100",
                    "ALTER TABLE `t` CONVERT TO CHARACTER SET UTF8MB4",
                    "ALTER TABLE `t` DEFAULT CHARACTER SET UTF8MB4 DEFAULT COLLATE UTF8MB4_BIN",
                    "ALTER TABLE `t` ADD INDEX `i`(`v`)",
                    "ALTER TABLE `t` ALTER INDEX `i` INVISIBLE",
                    "ALTER TABLE `t` RENAME INDEX `i` TO `j`",
                    "DROP INDEX `j` ON `t`",
                    "ALTER TABLE `t`",
                    "ALTER TABLE `t` /*T![ttl] REMOVE TTL */",
                    "ALTER TABLE `t` ADD CONSTRAINT `c` CHECK(`id`>0) ENFORCED",
                    "ALTER TABLE `t` ADD FULLTEXT INDEX (`v`)",
                    "ALTER TABLE `t` SET TIFLASH REPLICA 1",
                )
            ),
            Ddl("CREATE SEQUENCE `shop`.`s`"),
            Ddl("CREATE PLACEMENT POLICY `p` FOLLOWERS = 4"),
            Ddl("ALTER DATABASE `shop` CHARACTER SET = utf8mb4", "shop", kind="database"),
            put("t", id=2, v="b"),
        ],
        {"t(id, v)": [("1", "a"), ("2", "b")]},
    ),
    "a copied table has columns, order and keys of its source": (
        [
            create("t", "a int not null, b int not null, v int, unique key u(b)"),
            Ddl(
                "ALTER TABLE `t` ADD COLUMN `x` INT DEFAULT 1 FIRST",
                "t",
                "x int default 1, a int not null, b int not null, v int, unique key u(b)",
            ),
            put("t", x=1, a=1, b=1, v=1),
            Ddl(
                "CREATE TABLE `c` LIKE `t`",
                "c",
                "x int default 1, a int not null, b int not null, v int, unique key u(b)",
            ),
            put("c", x=1, a=1, b=7, v=1),
            edit("c", {"x": 1, "a": 1, "b": 7, "v": 1}, a=2),
        ],
        {"t(x, a, b, v)": [("1", "1", "1", "1")], "c(x, a, b, v)": [("1", "2", "7", "1")]},
    ),
    "a copied table is partitioned as its source": (
        [
            create("t", tail=PARTED),
            put("t", id=1, v="a"),
            Ddl("CREATE TABLE `archive`.`c` LIKE `shop`.`t`", "archive/c", T),
            put("archive/c", id=1, v="a"),
            put("archive/c", id=11, v="b"),
            Ddl("ALTER TABLE `archive`.`c` TRUNCATE PARTITION `p0`", "archive/c"),
        ],
        {"t(id, v)": [("1", "a")], "archive/c(id, v)": [("11", "b")]},
    ),
    "a dropped table is recovered": (
        [
            create("t"),
            put("t", id=1, v="a"),
            drop("t"),
            Ddl("RECOVER TABLE `t`", "t", T),
            put("t", id=2, v="b"),
        ],
        {"t(id, v)": [("1", "a"), ("2", "b")]},
    ),
    "a dropped table is brought back beside its successor": (
        [
            create("t"),
            put("t", id=1, v="a"),
            drop("t"),
            create("t", "k int primary key"),
            put("t", k=5),
            Ddl("FLASHBACK TABLE `t` TO `old`", "old", T),
            put("old", id=2, v="b"),
        ],
        {"t(k)": [("5",)], "old(id, v)": [("1", "a"), ("2", "b")]},
    ),
    "the rows of before a truncate are brought back": (
        [
            create("t"),
            put("t", id=1, v="a"),
            truncate("t"),
            put("t", id=2, v="b"),
            Ddl("FLASHBACK TABLE `shop`.`t` TO `old`", "old", T),
        ],
        {"t(id, v)": [("2", "b")], "old(id, v)": [("1", "a")]},
    ),
    "a database comes back with the tables it was dropped with": (
        [
            database("CREATE", "archive"),
            create("archive/gone"),
            create("archive/t"),
            create("archive/empty"),
            put("archive/t", id=1, v="a"),
            drop("archive/gone"),
            database("DROP", "archive"),
            Ddl("FLASHBACK DATABASE `archive` TO `back`", "back", kind="database"),
        ],
        {"back/t(id, v)": [("1", "a")], "back/empty(id, v)": []},
    ),
    "a recovered table keeps its partitions": (
        [
            create("t", tail=PARTED),
            put("t", id=1, v="a"),
            put("t", id=11, v="b"),
            drop("t"),
            Ddl("RECOVER TABLE `t`", "t", T),
            Ddl("ALTER TABLE `t` DROP PARTITION `p0`", "t"),
        ],
        {"t(id, v)": [("11", "b")]},
    ),
    "rows of a DDL's own ts come before it, of every table": (
        [
            create("a"),
            create("b"),
            put("a", id=1, v="a"),
            together(put("b", id=1, v="b")),
            together(put("a", id=2, v="a")),
            together(truncate("a")),
            together(truncate("b")),
            put("b", id=3, v="c"),
        ],
        {"a(id, v)": [], "b(id, v)": [("3", "c")]},
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_tables_are_as_upstream(title: str, manner: str) -> None:
    steps, expected = SCENARIOS[title]
    for model in replays(Teller(manner).tell(steps)):
        assert (tables(model), model.problems) == (expected, [])
