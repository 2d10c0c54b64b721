"""Applying DDL to a catalog: the effects of every kind of statement."""

import pytest

from tests.schema.changes import ddl, stated, summarize
from ticdc_assets.events import SchemaChange
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.effect import Effect, TableCreated

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
    ([ddl("CREATE TABLE t (id int)"), ddl("ALTER TABLE t COMMENT 'x'")], []),
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
        ["empty t p0 p1"],
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


def test_tables_without_a_collation_inherit_their_databases() -> None:
    catalog = SchemaCatalog()
    apply_ddl(ddl("CREATE DATABASE d COLLATE utf8mb4_general_ci", ""), catalog)
    (created,) = apply_ddl(
        ddl("CREATE TABLE t (a varchar(5), b int, c text collate utf8mb4_bin)"), catalog
    )
    assert isinstance(created, TableCreated)
    assert [c.type.collation for c in created.schema.columns] == [
        "utf8mb4_general_ci",
        None,
        "utf8mb4_bin",
    ]
    (own,) = apply_ddl(
        ddl("CREATE TABLE u (a varchar(5)) COLLATE utf8mb4_unicode_ci", "u"), catalog
    )
    assert isinstance(own, TableCreated)
    assert own.schema.columns[0].type.collation == "utf8mb4_unicode_ci"
