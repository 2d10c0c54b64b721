"""Applying DDL to a catalog: the effects of every kind of statement."""

from itertools import product

import msgspec
import pytest

from tests.schema.changes import ddl, stated, summarize
from ticdc_assets.events import SchemaChange
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import CatalogState, SchemaCatalog
from ticdc_assets.schema.effect import Effect

RANGE = (
    "PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN (20))"
)


# Statements in order, and the effects of the last one.
CASES: list[tuple[list[SchemaChange], list[str]]] = [
    ([ddl("CREATE TABLE t (id int)")], ["created d.t"]),
    ([ddl("CREATE TABLE `x`.`t` (id int)")], ["created x.t"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("TRUNCATE `D`.`T`")], ["truncated d.t"]),
    ([ddl("TRUNCATE TABLE t")], []),
    ([ddl("CREATE TABLE t (id int)"), ddl("DROP TABLE `d`.`T`")], ["drop d.t"]),
    ([ddl("DROP TABLE t")], []),
    (
        [
            ddl("CREATE TABLE t (id int)"),
            ddl("CREATE TABLE u (id int)"),
            ddl("DROP TABLE t, u, w"),
        ],
        ["drop d.t", "drop d.u"],
    ),
    (
        [
            ddl("CREATE TABLE t (id int)"),
            ddl("CREATE TABLE x.u (id int)", "u", database="x"),
            ddl("DROP DATABASE `D`", ""),
        ],
        ["drop d.t"],
    ),
    (
        [ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t RENAME TO u", "u")],
        ["rename d.t d.u"],
    ),
    (
        [ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE d.t RENAME u", "u", database="x")],
        ["rename d.t x.u"],
    ),
    (
        [ddl("CREATE TABLE t (id int)"), ddl("RENAME TABLE d.t TO x.u;", "u", database="x")],
        ["rename d.t x.u"],
    ),
    ([ddl("RENAME TABLE t TO u", "u")], []),
    ([ddl("RENAME TABLE t TO u", "u", schema=stated("u"))], ["altered d.u"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t ENGINE innodb")], []),
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t COMMENT 'x'")], ["altered d.t"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t ADD x INT")], ["altered d.t"]),
    ([ddl("ALTER TABLE t ADD x INT")], []),
    ([ddl("ALTER TABLE t ADD x INT", schema=stated("t", "id", "x"))], ["altered d.t"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("CREATE VIEW v AS SELECT 1", "v")], []),
    (
        [
            ddl("CREATE VIEW v AS SELECT 1", "v"),
            ddl("RENAME TABLE v TO w", "w", schema=stated("w")),
        ],
        [],
    ),
    (
        [ddl("CREATE VIEW v AS SELECT 1", "v"), ddl("ALTER TABLE v COMMENT = 'x'", "v")],
        [],
    ),
    ([ddl("CREATE SEQUENCE s", "s")], []),
    (
        [ddl(f"CREATE TABLE t (id int) {RANGE}"), ddl("ALTER TABLE t DROP PARTITION P1")],
        ["empty t p1"],
    ),
    (
        [ddl(f"CREATE TABLE t (id int) {RANGE}"), ddl("ALTER TABLE t TRUNCATE PARTITION ALL")],
        ["empty t ALL"],
    ),
    (
        [
            ddl(f"CREATE TABLE t (id int) {RANGE}"),
            ddl("CREATE TABLE x.n (id int)", "n", database="x"),
            ddl("ALTER TABLE d.t EXCHANGE PARTITION p1 WITH TABLE x.n", "n", database="x"),
        ],
        ["exchange t p1 x.n"],
    ),
    (
        [
            ddl(f"CREATE TABLE t (id int) {RANGE}"),
            ddl("ALTER TABLE d.t EXCHANGE PARTITION p1 WITH TABLE x.n"),
        ],
        ["pause d.t", "pause x.n"],
    ),
    (
        [
            ddl("CREATE TABLE n (id int)", "n"),
            ddl("ALTER TABLE d.t EXCHANGE PARTITION p1 WITH TABLE d.n", "n"),
        ],
        ["pause d.t", "pause d.n"],
    ),
    ([ddl("ALTER TABLE d.t EXCHANGE PARTITION p1 WITH TABLE d.n", "n")], []),
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t BEND")], ["pause d.t"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t DROP x")], ["pause d.t"]),
    ([ddl("CREATE TABLE t (id int)"), ddl("BEND", "")], ["pause all"]),
    ([ddl("CREATE TABLE c LIKE t", "c")], ["pause d.c"]),
    ([ddl("CREATE TABLE c LIKE t", "c", schema=stated("c"))], ["created d.c"]),
    ([ddl("RECOVER TABLE t")], ["pause d.t"]),
    ([ddl("RECOVER TABLE t", schema=stated("t"))], ["recover d.t d.t 1"]),
    (
        [
            ddl("CREATE TABLE t (id int)"),
            ddl("DROP TABLE t"),
            ddl("FLASHBACK TABLE t TO u", "u"),
        ],
        ["recover d.t d.u 1"],
    ),
    (
        [
            ddl("CREATE TABLE t (id int)", schema=stated("t", table_id=1)),
            ddl("TRUNCATE TABLE t", schema=stated("t", table_id=2)),
            ddl("DROP TABLE t", schema=stated("t", table_id=2)),
            ddl("RECOVER TABLE BY JOB 9", schema=stated("t", table_id=1)),
        ],
        ["recover d.t d.t 2"],
    ),
    (
        [
            ddl("CREATE TABLE t (id int)"),
            ddl("TRUNCATE TABLE t"),
            ddl("DROP TABLE t"),
            ddl("RECOVER TABLE BY JOB 9"),
        ],
        ["pause d.t"],
    ),
    (
        [
            ddl("CREATE TABLE t (id int)"),
            ddl("CREATE TABLE u (id int)", "u"),
            ddl("DROP TABLE u", "u"),
            ddl("DROP DATABASE d", ""),
            ddl("CREATE TABLE t (k int)"),
            ddl("DROP TABLE t"),
            ddl("FLASHBACK DATABASE D TO e", ""),
        ],
        ["recover d.t e.t 2"],
    ),
]


@pytest.mark.parametrize(("changes", "effects"), CASES)
def test_a_statement_has_its_effects(changes: list[SchemaChange], effects: list[str]) -> None:
    catalog = SchemaCatalog()
    last: list[Effect] = []
    for change in changes:
        last = apply_ddl(change, catalog)
    assert summarize(last) == effects


def test_renames_of_a_paused_table_are_followed_even_if_its_schema_is_unknown() -> None:
    catalog = SchemaCatalog()
    assert summarize(apply_ddl(ddl("ALTER TABLE t BEND"), catalog)) == ["pause d.t"]
    moved = apply_ddl(ddl("RENAME TABLE d.t TO d.u", "u"), catalog)
    assert summarize(moved) == ["rename d.t d.u"]
    assert summarize(apply_ddl(ddl("CREATE TABLE c LIKE u", "c"), catalog)) == ["pause d.c"]
    assert summarize(apply_ddl(ddl("DROP TABLE u", "u"), catalog)) == ["drop d.u"]
    assert summarize(apply_ddl(ddl("CREATE TABLE u (id int)", "u"), catalog)) == ["created d.u"]
    assert summarize(apply_ddl(ddl("CREATE TABLE d2.v LIKE d.u", "v"), catalog)) == ["created d2.v"]


# What a column, table or database may state: the SQL, and the charset and collation that it means.
# A collation of None is the charset's default.
STATED_CHARSETS = {
    "": None,
    "CHARACTER SET latin1": ("latin1", None),
    "CHARACTER SET utf8mb4": ("utf8mb4", None),
    "COLLATE utf8mb4_general_ci": ("utf8mb4", "utf8mb4_general_ci"),
    "CHARACTER SET gbk COLLATE gbk_bin": ("gbk", "gbk_bin"),
}


@pytest.mark.parametrize(("column", "table", "database"), list(product(STATED_CHARSETS, repeat=3)))
def test_charset_and_collation_are_those_of_the_column_or_else_the_table_or_else_the_database(
    column: str, table: str, database: str
) -> None:
    catalog = SchemaCatalog()
    for sql in (
        f"CREATE DATABASE d {database}",
        f"CREATE TABLE t (id int, a varchar(5) {column}) {table}",
        # It matters to later tables only.
        "ALTER DATABASE d COLLATE ascii_bin",
        f"ALTER TABLE t ADD b enum('x') {column}, MODIFY id text {column}",
    ):
        apply_ddl(ddl(sql), catalog)
    stated = (STATED_CHARSETS[sql] for sql in (column, table, database))
    expected = next((charset for charset in stated if charset is not None), ("utf8mb4", None))
    assert charsets(catalog, "t") == [expected] * 3


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["ALTER DATABASE d CHARACTER SET utf8mb4"], ("utf8mb4", None)),
        (["ALTER DATABASE d ENCRYPTION 'N'"], ("utf8mb4", "utf8mb4_general_ci")),
        (["ALTER DATABASE COLLATE gbk_bin"], ("gbk", "gbk_bin")),
        (["DROP DATABASE d", "CREATE DATABASE d"], ("utf8mb4", None)),
        (["DROP DATABASE d", "FLASHBACK DATABASE d"], ("utf8mb4", "utf8mb4_general_ci")),
    ],
)
def test_a_new_table_has_the_charset_that_its_database_has_now(
    statements: list[str], expected: tuple[str, str | None]
) -> None:
    catalog = SchemaCatalog()
    for sql in ["CREATE DATABASE d COLLATE utf8mb4_general_ci", *statements]:
        apply_ddl(ddl(sql, ""), catalog)
    apply_ddl(ddl("CREATE TABLE t (a text)"), catalog)
    apply_ddl(ddl("CREATE TABLE u LIKE t", "u"), catalog)
    apply_ddl(ddl("ALTER TABLE u ADD b text", "u"), catalog)
    assert charsets(catalog, "u") == [expected] * 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("CHARACTER SET utf8mb4", [("latin1", "latin1_bin"), ("utf8mb4", None)]),
        ("COLLATE utf8mb4_bin", [("latin1", "latin1_bin"), ("utf8mb4", "utf8mb4_bin")]),
        ("CONVERT TO CHARACTER SET utf8mb4", [("utf8mb4", None), ("utf8mb4", None)]),
    ],
)
def test_a_new_column_has_the_charset_that_its_table_has_now(
    change: str, expected: list[tuple[str, str | None]]
) -> None:
    catalog = SchemaCatalog()
    for sql in ("CREATE TABLE t (a text) COLLATE latin1_bin", f"ALTER TABLE t {change}"):
        apply_ddl(ddl(sql), catalog)
    restored = SchemaCatalog()
    restored.restore(msgspec.json.decode(msgspec.json.encode(catalog.state()), type=CatalogState))
    apply_ddl(ddl("ALTER TABLE t ADD b text"), restored)
    assert charsets(restored, "t") == expected


@pytest.mark.parametrize("stated_by", ["database", "table"])
def test_texts_in_the_charset_binary_are_binary(stated_by: str) -> None:
    catalog = SchemaCatalog()
    of_database, of_table = ("binary", "") if stated_by == "database" else ("ascii", "binary")
    option = f"CHARACTER SET {of_table}" if of_table else ""
    for sql in (
        f"CREATE DATABASE d CHARACTER SET {of_database}",
        f"CREATE TABLE t (a char(3), b text) {option}",
        "ALTER TABLE t ADD c varchar(9) DEFAULT 'zz'",
    ):
        apply_ddl(ddl(sql), catalog)
    schema = catalog.get("d", "t")
    assert schema is not None
    assert [c.type.name for c in schema.columns] == ["binary", "blob", "varbinary"]
    assert schema.columns[-1].default == "eno="


def charsets(catalog: SchemaCatalog, table: str) -> list[tuple[str | None, str | None]]:
    schema = catalog.get("d", table)
    assert schema is not None
    return [(c.type.charset, c.type.collation) for c in schema.columns]


def test_the_comment_of_a_table_follows_ddl() -> None:
    catalog = SchemaCatalog()

    def find(table: str) -> str | None:
        schema = catalog.get("d", table)
        return schema and schema.comment

    apply_ddl(ddl("CREATE TABLE t (id int) COMMENT = 'x' CHARSET utf8"), catalog)
    assert find("t") == "x"
    apply_ddl(ddl("CREATE TABLE u LIKE t", "u"), catalog)
    apply_ddl(ddl("ALTER TABLE t COMMENT 'y', ADD a int", schema=stated("t", "id", "a")), catalog)
    apply_ddl(ddl("ALTER TABLE t CHARSET utf8mb4"), catalog)
    apply_ddl(ddl("RENAME TABLE t TO w", "w"), catalog)
    assert (find("t"), find("u"), find("w")) == (None, "x", "y")
    apply_ddl(ddl("ALTER TABLE u COMMENT ''", "u"), catalog)
    assert find("u") == ""
