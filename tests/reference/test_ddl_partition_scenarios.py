"""What DDL does to partitions, and to the rows in them, in every manner."""

import pytest

from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, cut, edit, exchange, put, rename
from tests.reference.model_runs import played, replays, tables

Expected = dict[str, list[tuple[str | None, ...]]]

T = "id int primary key, v varchar(10)"
RANGE = (
    "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),"
    "PARTITION `p1` VALUES LESS THAN (20),PARTITION `p2` VALUES LESS THAN (MAXVALUE))"
)
HASH = "PARTITION BY HASH (`id`) PARTITIONS 4"
LISTED = "id int, r varchar(10), primary key (id, r)"
LIST = (
    "PARTITION BY LIST COLUMNS (`r`) (PARTITION `pe` VALUES IN ('de', 'fr'),"
    "PARTITION `pa` VALUES IN ('cn'),PARTITION `pd` DEFAULT)"
)


def create(columns: str = T, by: str = "", table: str = "t") -> Ddl:
    name = ".".join(f"`{part}`" for part in table.split("/"))
    return Ddl(f"CREATE TABLE {name} ({columns}) {by}", table)


def alter(actions: str) -> Ddl:
    return Ddl(f"ALTER TABLE `t` {actions}", "t")


def rows(*ids: int, table: str = "t") -> list[Step]:
    return [put(table, id=i, v=f"v{i}") for i in ids]


def left(*ids: int) -> list[tuple[str | None, ...]]:
    return sorted((str(i), f"v{i}") for i in ids)


SCENARIOS: dict[str, tuple[list[Step], Expected]] = {
    "partitions are dropped with their rows": (
        [create(by=RANGE), *rows(5, 15, 25), alter("DROP PARTITION `P0`,`p2`"), *rows(16)],
        {"t(id, v)": left(15, 16)},
    ),
    "partitions are emptied": (
        [
            create(by=RANGE),
            *rows(5, 15, 25),
            alter("TRUNCATE PARTITION `p1`,`p0`"),
            *rows(6),
            alter("TRUNCATE PARTITION `p0`"),
        ],
        {"t(id, v)": left(25)},
    ),
    "all partitions are emptied": (
        [create(by=RANGE), *rows(5, 15), alter("TRUNCATE PARTITION ALL"), *rows(7)],
        {"t(id, v)": left(7)},
    ),
    "all partitions are emptied, by name and of unknown collation": (
        [
            create(LISTED, LIST),
            put("t", id=1, r="de"),
            put("t", id=2, r="DE"),
            alter("TRUNCATE PARTITION `pd`,`pe`,`pa`"),
            put("t", id=3, r="DE"),
        ],
        {"t(id, r)": [("3", "DE")]},
    ),
    "a partition is added and dropped": (
        [
            create(by=RANGE.replace(",PARTITION `p2` VALUES LESS THAN (MAXVALUE)", "")),
            *rows(5),
            alter(
                "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (30),"
                " PARTITION `p3` VALUES LESS THAN (40))"
            ),
            *rows(25, 35),
            alter("DROP PARTITION `p2`"),
        ],
        {"t(id, v)": left(5, 35)},
    ),
    "what is reorganised is dropped by its new bounds": (
        [
            create(by=RANGE),
            *rows(5, 12, 17, 25),
            alter(
                "REORGANIZE PARTITION `p0`,`p1` INTO (PARTITION `q0` VALUES LESS THAN (15),"
                " PARTITION `p1` VALUES LESS THAN (20))"
            ),
            alter("DROP PARTITION `q0`"),
        ],
        {"t(id, v)": left(17, 25)},
    ),
    "lists are reorganised": (
        [
            create(LISTED, LIST),
            put("t", id=1, r="de"),
            put("t", id=2, r="cn"),
            put("t", id=3, r="xx"),
            put("t", id=4, r="fr"),
            alter(
                "REORGANIZE PARTITION `pa`,`pe` INTO (PARTITION `p1` VALUES IN ('cn','fr'),"
                " PARTITION `p2` VALUES IN ('de'))"
            ),
            alter("TRUNCATE PARTITION `p1`"),
            put("t", id=5, r="cn"),
            alter("DROP PARTITION `p2`"),
        ],
        {"t(id, r)": [("3", "xx"), ("5", "cn")]},
    ),
    "hash partitions are more, then fewer": (
        [
            create(by=HASH),
            *rows(*range(12)),
            alter("ADD PARTITION PARTITIONS 2"),
            alter("TRUNCATE PARTITION `p5`"),
            alter("COALESCE PARTITION 3"),
            alter("TRUNCATE PARTITION `p2`"),
        ],
        {"t(id, v)": left(0, 1, 3, 4, 6, 7, 9, 10)},
    ),
    "a table is partitioned otherwise": (
        [
            create(by=RANGE),
            *rows(3, 4, 15),
            alter("REMOVE PARTITIONING"),
            *rows(5),
            alter("PARTITION BY HASH (`id`) PARTITIONS 2"),
            alter("TRUNCATE PARTITION `p1`"),
            alter(
                "PARTITION BY RANGE (`id`) (PARTITION `a` VALUES LESS THAN (4),"
                "PARTITION `b` VALUES LESS THAN (100))"
            ),
            *rows(2, 50),
            alter("DROP PARTITION `b`"),
        ],
        {"t(id, v)": left(2)},
    ),
    "a partition and a table change rows, twice": (
        [
            create(by=RANGE),
            create(table="n"),
            *rows(5, 15),
            *rows(6, 7, table="n"),
            exchange("t", "p0", "n"),
            *rows(8),
            *rows(9, table="n"),
            exchange("t", "p0", "n"),
            edit("n", {"id": 6, "v": "v6"}, v="x"),
            exchange("t", "p0", "n"),
        ],
        {"t(id, v)": [("15", "v15"), ("6", "x"), ("7", "v7"), ("8", "v8")], "n(id, v)": left(5, 9)},
    ),
    "a partition and a table of another database change rows": (
        [
            create(by=HASH),
            create(table="archive/t"),
            *rows(1, 2, 5),
            *rows(9, table="archive/t"),
            exchange("t", "p1", "archive/t"),
        ],
        {"t(id, v)": left(2, 9), "archive/t(id, v)": left(1, 5)},
    ),
    "rows older than a column change tables that added it alike": (
        [
            create(by=RANGE),
            create(table="n"),
            *rows(5, 15),
            *(
                Ddl(
                    f"ALTER TABLE `{t}` ADD `x` DECIMAL(9,1) DEFAULT {x}", t, f"{T}, x decimal(9,1)"
                )
                for t, x in (("t", "1.5"), ("n", "'1.50'"))
            ),
            Ddl("CREATE TABLE `m` LIKE `t`", "m", f"{T}, x decimal(9,1)"),
            Ddl("ALTER TABLE `m` CHANGE `x` `y` DECIMAL(9,1)", "m", f"{T}, y decimal(9,1)"),
            Ddl("ALTER TABLE `m` CHANGE `y` `x` DECIMAL(9,1)", "m", f"{T}, x decimal(9,1)"),
            exchange("t", "p0", "n"),
            exchange("t", "p1", "m"),
        ],
        {
            "t(id, v, x)": [],
            "n(id, v, x)": [("5", "v5", "1.5")],
            "m(id, v, x)": [("15", "v15", "1.5")],
        },
    ),
    "a list partition and an empty table change rows": (
        [
            create(LISTED, LIST),
            create(LISTED, table="n"),
            put("t", id=1, r="cn"),
            put("t", id=1, r="it"),
            exchange("t", "pd", "n"),
        ],
        {"t(id, r)": [("1", "cn")], "n(id, r)": [("1", "it")]},
    ),
    "rows that change tables take on the spelling of their new columns": (
        [
            create(by=RANGE),
            create("ID int primary key, V varchar(10)", table="n"),
            *rows(5),
            put("n", ID=6, V="v6"),
            exchange("t", "p0", "n"),
            cut("n", ID=5, V="v5"),
        ],
        {"t(id, v)": left(6), "n(ID, V)": []},
    ),
    "a renamed table keeps its partitions": (
        [
            create(by=RANGE),
            *rows(5, 15),
            rename("t", "u"),
            Ddl("ALTER TABLE `u` DROP PARTITION `p0`", "u"),
        ],
        {"u(id, v)": left(15)},
    ),
    "a truncated table keeps its partitions": (
        [
            create(by=RANGE),
            *rows(5),
            Ddl("TRUNCATE TABLE `t`", "t"),
            *rows(6, 16),
            alter("TRUNCATE PARTITION `p0`"),
        ],
        {"t(id, v)": left(16)},
    ),
    "a partitioning column changes its type": (
        [
            create(
                "id int, d date, primary key (id, d)",
                "PARTITION BY RANGE COLUMNS (`d`)"
                " (PARTITION `p0` VALUES LESS THAN ('2024-01-01'),"
                "PARTITION `p1` VALUES LESS THAN (MAXVALUE))",
            ),
            put("t", id=1, d="2023-05-06"),
            put("t", id=2, d="2024-01-01"),
            Ddl(
                "ALTER TABLE `t` MODIFY COLUMN `id` BIGINT",
                "t",
                "id bigint, d date, primary key (id, d)",
            ),
            alter("DROP PARTITION `p0`"),
        ],
        {"t(id, d)": [("2", "2024-01-01")]},
    ),
    "what concerns partitions but moves no row": (
        [
            create(by=RANGE),
            *rows(5, 15),
            alter("ANALYZE PARTITION `p0`"),
            alter("PARTITION `p0` ATTRIBUTES='merge_option=deny'"),
            alter("REMOVE TTL"),
            alter("ADD INDEX `i`(`v`)"),
            alter("COMMENT = 'x'"),
        ],
        {"t(id, v)": left(15, 5)},
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_partitions_are_as_upstream(title: str, manner: str) -> None:
    steps, expected = SCENARIOS[title]
    for model in replays(Teller(manner).tell(steps)):
        assert (tables(model), model.problems) == (expected, [])


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize(
    "key", ["primary key (b, a)", "key i(a), unique key k(b, a), unique key l(a, b)"]
)
def test_key_without_columns_is_the_primary_key_or_the_first_unique_one(
    key: str, manner: str
) -> None:
    columns = f"a int not null, b varchar(5) collate utf8mb4_bin not null, v int, {key}"
    steps: list[Step] = [
        create(columns, "PARTITION BY KEY () PARTITIONS 7"),
        create(columns, "PARTITION BY KEY (`b`,`a`) PARTITIONS 7", table="u"),
    ]
    for a in range(40):
        steps += [put("t", a=a, b=f"x{a}", v=a), put("u", a=a, b=f"x{a}", v=a)]
    for partition in (1, 2, 4, 5):
        steps += [
            Ddl(f"ALTER TABLE `{table}` TRUNCATE PARTITION `p{partition}`", table)
            for table in ("t", "u")
        ]
    model = played(Teller(manner).tell(steps))
    kept = tables(model)
    assert kept["t(a, b, v)"] == kept["u(a, b, v)"]
    assert 0 < len(kept["t(a, b, v)"]) < 40
    assert model.problems == []
