"""Which tables a DDL moves, and what an engine is told to do."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.events import Column, ColumnType, Index, SchemaChange, TableSchema, TopicPosition
from ticdc_assets.schema.catalog import SchemaCatalog, table_key
from ticdc_assets.schema.effect import (
    AllTablesPaused,
    Effect,
    PartitionExchanged,
    PartitionsEmptied,
    TableAltered,
    TableCreated,
    TableDropped,
    TablePaused,
    TableRecovered,
    TableRenamed,
    TableTruncated,
)
from ticdc_assets.stream.ddl_order import order_ddls

RANGE = (
    "PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN (20))"
)


def ddl(sql: str, table: str = "t", *, database: str = "d", **fields: object) -> SchemaChange:
    position = TopicPosition("t", 0, 0)
    stated: dict[str, object] = {"commit_ts": 100, "position": position, **fields}
    return SchemaChange(database=database, table=table, sql=sql, **stated)  # type: ignore[arg-type]


def stated(table: str, *columns: str, database: str = "d", **fields: object) -> TableSchema:
    return TableSchema(
        database,
        table,
        tuple(Column(name, ColumnType("int")) for name in columns or ("id",)),
        **fields,  # type: ignore[arg-type]
    )


def told(effects: Sequence[Effect]) -> list[str]:
    """Effects in a word each."""
    said = []
    for effect in effects:
        match effect:
            case TableDropped(database, table):
                said.append(f"drop {database}.{table}")
            case TableRenamed(database, table, schema):
                said.append(f"rename {database}.{table} {schema.database}.{schema.table}")
            case TableRecovered(database, table, schema, ago):
                said.append(f"recover {database}.{table} {schema.database}.{schema.table} {ago}")
            case TablePaused(database, table):
                said.append(f"pause {database}.{table}")
            case AllTablesPaused():
                said.append("pause all")
            case PartitionsEmptied(schema, _, names):
                said.append(f"empty {schema.table} {' '.join(names)}")
            case PartitionExchanged(schema, _, partition, other):
                said.append(f"exchange {schema.table} {partition} {other.database}.{other.table}")
            case TableCreated(schema) | TableAltered(schema) | TableTruncated(schema):
                word = type(effect).__name__.removeprefix("Table").lower()
                said.append(f"{word} {schema.database}.{schema.table}")
    return said


def tables(catalog: SchemaCatalog) -> set[str]:
    return {f"{schema.database}.{schema.table}" for schema in catalog}


# Statements, one after the other, and what the last one does.
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
        last = catalog.change(change)
    assert told(last) == effects


@given(st.data())
def test_renames_of_one_statement_end_the_same_in_whichever_order_they_arrive(
    data: st.DataObject,
) -> None:
    """As long as no name is left, or taken, twice: then one order alone makes sense."""
    names = ["a", "b", "c", "d", "e", "f"]
    there = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=5))
    where = {name: name for name in there}
    left: set[str] = set()
    taken: set[str] = set()
    changes = []
    for _ in range(data.draw(st.integers(1, 6))):
        sources = sorted(set(where) - left)
        targets = sorted(set(names) - set(where) - taken)
        if not sources or not targets:
            break
        old, new = data.draw(st.sampled_from(sources)), data.draw(st.sampled_from(targets))
        where[new] = where.pop(old)
        left.add(old)
        taken.add(new)
        changes.append(ddl(f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", new))
    catalog = SchemaCatalog()
    for name in there:
        catalog.put(stated(name, f"of_{name}"))
    for change in order_ddls(data.draw(st.permutations(changes)), catalog):
        catalog.change(change)
    assert {s.table: s.columns[0].name for s in catalog} == {
        name: f"of_{origin}" for name, origin in where.items()
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Orders", "ORDERS", True),
        ("ÄÖ", "äö", True),
        ("Σ", "σ", True),
        ("straße", "STRASSE", False),
        ("a.b", "a_b", False),
    ],
)
def test_names_are_compared_letter_by_letter_in_lower_case(
    one: str, other: str, same: bool
) -> None:
    assert (table_key(one, other) == table_key(other, one)) is same


def test_a_paused_table_is_followed_even_if_nothing_else_is_known_of_it() -> None:
    catalog = SchemaCatalog()
    assert told(catalog.change(ddl("ALTER TABLE t BEND"))) == ["pause d.t"]
    moved = catalog.change(ddl("RENAME TABLE d.t TO d.u", "u"))
    assert told(moved) == ["rename d.t d.u"]
    assert told(catalog.change(ddl("CREATE TABLE c LIKE u", "c"))) == ["pause d.c"]
    assert told(catalog.change(ddl("DROP TABLE u", "u"))) == ["drop d.u"]
    assert told(catalog.change(ddl("CREATE TABLE u (id int)", "u"))) == ["created d.u"]
    assert told(catalog.change(ddl("CREATE TABLE d2.v LIKE d.u", "v"))) == ["created d2.v"]


def test_a_rename_that_may_mean_two_tables_pauses_them_and_the_name_they_take() -> None:
    catalog = SchemaCatalog()
    for database in ("a", "b"):
        catalog.put(stated("t", database=database))
    change = ddl("ALTER TABLE t RENAME AS c.s", "s", database="c")
    assert told(catalog.change(change)) == ["pause a.t", "pause b.t", "pause c.s"]


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": stated("s", "id", database="c", table_id=2)},
        {"schema": stated("s", "id", "x", database="c")},
        {"pre_schema": stated("t", database="b")},
    ],
)
def test_what_a_message_states_tells_which_table_is_renamed(fields: dict[str, object]) -> None:
    catalog = SchemaCatalog()
    catalog.put(stated("t", "id", database="a", table_id=1))
    catalog.put(stated("t", "id", "x", database="b", table_id=2))
    change = ddl("ALTER TABLE t RENAME AS c.s", "s", database="c", **fields)
    assert told(catalog.change(change)) == ["rename b.t c.s"]
    assert tables(catalog) == {"a.t", "c.s"}


def test_a_stated_schema_from_before_a_drop_is_past() -> None:
    catalog = SchemaCatalog()
    catalog.put(stated("t", version=50))
    assert not catalog.is_past(stated("t", version=50))
    catalog.change(ddl("DROP TABLE t", commit_ts=60))
    assert catalog.is_past(stated("T", version=50))
    assert not catalog.is_past(stated("t", version=60))
    catalog.change(ddl("DROP DATABASE d", "", commit_ts=70))
    assert catalog.is_past(stated("never seen", version=60))


def test_tables_have_their_databases_collation() -> None:
    catalog = SchemaCatalog()
    catalog.change(ddl("CREATE DATABASE d COLLATE utf8mb4_general_ci", ""))
    (created,) = catalog.change(
        ddl("CREATE TABLE t (a varchar(5), b int, c text collate utf8mb4_bin)")
    )
    assert isinstance(created, TableCreated)
    assert [c.type.collation for c in created.schema.columns] == [
        "utf8mb4_general_ci",
        None,
        "utf8mb4_bin",
    ]
    (own,) = catalog.change(ddl("CREATE TABLE u (a varchar(5)) COLLATE utf8mb4_unicode_ci", "u"))
    assert isinstance(own, TableCreated)
    assert own.schema.columns[0].type.collation == "utf8mb4_unicode_ci"


def test_a_key_of_the_tables_own_comes_before_a_declared_one() -> None:
    catalog = SchemaCatalog({"D.T": ("ID",), "d.u": ("x",)})
    known = catalog.put(stated("t", "id", "x"))
    assert known.key == ("id",)
    (renamed,) = catalog.change(ddl("RENAME TABLE t TO s", "s"))
    assert isinstance(renamed, TableRenamed)
    assert renamed.schema.key == ("id",)
    (renamed,) = catalog.change(ddl("RENAME TABLE s TO u", "u"))
    assert isinstance(renamed, TableRenamed)
    assert renamed.schema.key == ("x",)
    (altered,) = catalog.change(ddl("ALTER TABLE u ADD PRIMARY KEY (x, id)", "u"))
    assert isinstance(altered, TableAltered)
    assert altered.schema.key == ("x", "id")


def test_a_handle_key_has_no_virtual_column() -> None:
    virtual = Column("v", ColumnType("int"), nullable=False, generated="virtual")
    plain = (
        Column("a", ColumnType("int"), nullable=False),
        Column("b", ColumnType("int"), nullable=False),
    )
    keys = (Index("one", ("v",), unique=True), Index("two", ("a", "b"), unique=True))
    assert TableSchema("d", "t", (virtual, *plain), keys).key == ("a", "b")


def test_a_ddl_names_all_tables_it_is_about() -> None:
    catalog = SchemaCatalog()
    for sql, names in (
        ("RENAME TABLE a TO x.b", {("d", "a"), ("x", "b"), ("d", "t")}),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x.N", {("d", "t"), ("x", "n")}),
        ("ALTER TABLE t ADD c INT", {("d", "t")}),
        ("BEND", {("d", "t")}),
    ):
        assert set(catalog.names(ddl(sql))) == names
