"""ALTER TABLE actions: the schema after each one, and the changes of its columns' values."""

import pytest
from msgspec.structs import replace

from ticdc_assets.errors import UnsupportedDdl
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.schema.alteration import INFERRED_KEY, apply_action
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.partition.named import drop_partitions, find_partitions


def table(definition: str, tail: str = "") -> TableSchema:
    (statement,) = read_ddl(f"CREATE TABLE t ({definition}) {tail}")
    assert isinstance(statement, ddl.CreateTable)
    return TableSchema(
        "d",
        "t",
        tuple(resolve_column(c, statement.charset) for c in statement.columns),
        statement.indexes,
        partitioning=statement.partitioning,
        origin="replayed",
        charset=statement.charset,
    )


def altered(schema: TableSchema, actions: str) -> tuple[TableSchema, list[ColumnChange]]:
    (statement,) = read_ddl(f"ALTER TABLE t {actions}")
    assert isinstance(statement, ddl.AlterTable)
    steps: list[ColumnChange] = []
    for action in statement.actions:
        schema, more = apply_action(action, schema)
        steps += more
    return schema, steps


def names(schema: TableSchema) -> str:
    return " ".join(column.name for column in schema.columns)


def indexes(schema: TableSchema) -> str:
    return ", ".join(f"{i.name}({' '.join(i.columns)})" for i in schema.indexes)


BASE = "id int, a int, b varchar(5), c int as (a) virtual, primary key (id), unique key u(a, b)"


@pytest.mark.parametrize(
    ("actions", "order", "keys"),
    [
        ("ADD x INT", "id a b c x", "PRIMARY(id), u(a b)"),
        ("ADD x INT FIRST", "x id a b c", "PRIMARY(id), u(a b)"),
        ("ADD x INT AFTER A", "id a x b c", "PRIMARY(id), u(a b)"),
        ("ADD x INT AFTER a, ADD y INT AFTER a", "id a y x b c", "PRIMARY(id), u(a b)"),
        ("ADD (x INT, y INT), ADD z INT FIRST", "z id a b c x y", "PRIMARY(id), u(a b)"),
        ("MODIFY b VARCHAR(5) FIRST", "b id a c", "PRIMARY(id), u(a b)"),
        ("MODIFY id INT AFTER b, MODIFY b VARCHAR(5) FIRST", "b a id c", "PRIMARY(id), u(a b)"),
        ("CHANGE a z INT AFTER c", "id b c z", "PRIMARY(id), u(z b)"),
        ("RENAME COLUMN ID TO Id, RENAME COLUMN B TO k", "Id a k c", "PRIMARY(Id), u(a k)"),
        ("MODIFY ID BIGINT", "ID a b c", "PRIMARY(ID), u(a b)"),
        ("DROP a", "id b c", "PRIMARY(id), u(b)"),
        ("DROP a, DROP b", "id c", "PRIMARY(id)"),
        ("DROP COLUMN IF EXISTS q, ADD IF NOT EXISTS A INT", "id a b c", "PRIMARY(id), u(a b)"),
        ("DROP INDEX U", "id a b c", "PRIMARY(id)"),
        ("DROP INDEX `primary`", "id a b c", "u(a b)"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (A, id)", "id a b c", "u(a b), PRIMARY(a id)"),
        ("ADD UNIQUE (A)", "id a b c", "PRIMARY(id), u(a b), A(a)"),
        ("ADD INDEX u (c)", "id a b c", "PRIMARY(id), u(a b), u_2(c)"),
        ("ADD INDEX IF NOT EXISTS u (c)", "id a b c", "PRIMARY(id), u(a b)"),
        ("RENAME INDEX U TO w", "id a b c", "PRIMARY(id), w(a b)"),
    ],
)
def test_columns_and_indexes_are_placed_as_in_mysql(actions: str, order: str, keys: str) -> None:
    schema, _ = altered(table(BASE), actions)
    assert (names(schema), indexes(schema)) == (order, keys)


INT, BIGINT = ColumnType("int"), ColumnType("bigint")


@pytest.mark.parametrize(
    ("actions", "steps"),
    [
        ("ADD x INT DEFAULT 4", [ColumnAdded(Column("x", INT, default="4"))]),
        ("ADD x INT AS (a + 1) VIRTUAL", []),
        ("DROP a", [ColumnDropped("a")]),
        ("RENAME COLUMN A TO z", [ColumnRenamed("a", "z")]),
        ("MODIFY a BIGINT", [ColumnConverted("a", INT, BIGINT)]),
        ("CHANGE a z BIGINT", [ColumnRenamed("a", "z"), ColumnConverted("z", INT, BIGINT)]),
        ("MODIFY c BIGINT AS (a) VIRTUAL", []),
        ("ALTER a SET DEFAULT 7", []),
        ("ADD UNIQUE (b), COMMENT = 'x', DROP INDEX u", []),
    ],
)
def test_actions_that_change_values_return_their_column_changes(
    actions: str, steps: list[ColumnChange]
) -> None:
    assert altered(table(BASE), actions)[1] == steps


def test_a_primary_key_makes_its_columns_not_null_even_after_it_is_dropped() -> None:
    schema, _ = altered(table("a int, b int"), "ADD PRIMARY KEY (b)")
    assert [c.nullable for c in schema.columns] == [True, False]
    schema, _ = altered(schema, "MODIFY b BIGINT")
    assert [c.nullable for c in schema.columns] == [True, False]
    schema, _ = altered(schema, "DROP PRIMARY KEY")
    assert [c.nullable for c in schema.columns] == [True, False]


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ("ADD A INT", "already has a column 'a'"),
        ("RENAME COLUMN a TO B", "already has a column 'b'"),
        ("CHANGE id a INT", "already has a column 'a'"),
        ("DROP x", "has no column 'x'"),
        ("MODIFY x INT", "has no column 'x'"),
        ("RENAME COLUMN x TO y", "has no column 'x'"),
        ("ADD y INT AFTER x", "has no column 'x'"),
        ("ALTER x DROP DEFAULT", "has no column 'x'"),
        ("COALESCE PARTITION 1", "partitions are unknown"),
    ],
)
def test_an_action_that_contradicts_the_known_schema_is_unsupported(
    actions: str, reason: str
) -> None:
    with pytest.raises(UnsupportedDdl, match=reason):
        altered(table(BASE), actions)


@pytest.mark.parametrize(
    "actions",
    ["DROP x", "MODIFY x INT", "RENAME COLUMN x TO y", "ALTER x SET DEFAULT 1"],
)
def test_an_inferred_schema_may_lack_columns_that_an_action_names(actions: str) -> None:
    shown = TableSchema("d", "t", (Column("id", INT),), (), origin="inferred")
    assert altered(shown, actions) == (shown, [])
    assert names(altered(shown, "ADD y INT AFTER x")[0]) == "id y"


@pytest.mark.parametrize("name", ["k", "handle", "primary_2"])
def test_dropping_the_primary_key_drops_an_inferred_key_and_no_index_with_a_name(name: str) -> None:
    columns = (Column("id", INT, nullable=False), Column("a", INT))
    handle = (Index(INFERRED_KEY, ("id",), unique=True),)
    shown = TableSchema("d", "t", columns, handle, origin="inferred")
    more, _ = altered(shown, f"ADD UNIQUE {name} (a)")
    assert indexes(more) == f"(id), {name}(a)"
    assert indexes(altered(more, "DROP PRIMARY KEY")[0]) == f"{name}(a)"
    assert altered(more, f"DROP INDEX {name}")[0] == shown


def test_a_key_that_is_only_stated_as_the_primary_key_is_none() -> None:
    """Simple states the first unique key over NOT NULL columns as `primary`."""
    schema = table("a int not null, b int not null, c int, unique k(b), unique w(a)")
    stated = replace(schema, indexes=(*schema.indexes, Index("primary", ("b",), True, True)))
    for actions, keys in {
        "ADD PRIMARY KEY (b)": "k(b), w(a), PRIMARY(b)",
        "MODIFY b INT NULL": "k(b), w(a)",
        "DROP INDEX k": "w(a)",
        "RENAME COLUMN b TO x": "k(x), w(a)",
        "RENAME INDEX k TO x": "x(b), w(a)",
        "ADD UNIQUE (b, c)": "k(b), w(a), b(b c)",
    }.items():
        changed, _ = altered(stated, actions)
        assert indexes(changed) == keys
        assert changed == altered(schema, actions)[0]
    modified, _ = altered(stated, "MODIFY b INT NULL")
    assert (modified.columns[1].nullable, modified.key) == (True, ("a",))


RANGE = (
    "PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (1), PARTITION b VALUES LESS THAN (5))"
)


@pytest.mark.parametrize(
    ("by", "actions", "partitions"),
    [
        (RANGE, "ADD PARTITION (PARTITION c VALUES LESS THAN (9))", "a b c"),
        (
            RANGE,
            "REORGANIZE PARTITION A INTO"
            " (PARTITION x VALUES LESS THAN (0), PARTITION y VALUES LESS THAN (1))",
            "x y b",
        ),
        (RANGE, "REORGANIZE PARTITION b,a INTO (PARTITION z VALUES LESS THAN (5))", "z"),
        ("PARTITION BY HASH (id) PARTITIONS 2", "ADD PARTITION PARTITIONS 2", "p0 p1 p2 p3"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "COALESCE PARTITION 3", "p0"),
        ("PARTITION BY KEY () (PARTITION k, PARTITION l)", "ADD PARTITION PARTITIONS 1", "k l p2"),
        (RANGE, "PARTITION BY KEY () PARTITIONS 2", "p0 p1"),
    ],
)
def test_generated_partition_names_match_tidb(by: str, actions: str, partitions: str) -> None:
    there = altered(table("id int primary key", by), actions)[0].partitioning
    assert there is not None
    assert " ".join(p.name for p in there.partitions) == partitions


def test_key_partitioning_keeps_the_primary_key_at_its_declaration() -> None:
    schema, _ = altered(
        table("a int, b int, primary key (b, a) nonclustered"), "PARTITION BY KEY () PARTITIONS 2"
    )
    schema, _ = altered(schema, "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)")
    assert schema.partitioning is not None
    assert schema.partitioning.columns == ("b", "a")
    assert altered(schema, "REMOVE PARTITIONING")[0].partitioning is None


def test_partition_names_are_case_insensitive() -> None:
    schema = table("id int primary key", RANGE)
    assert find_partitions(schema, ("B", "a")) == ("a", "b")
    assert find_partitions(drop_partitions(schema, ("A",)), ("B",)) == ("b",)
    with pytest.raises(UnsupportedDdl, match="not all of these partitions are known"):
        find_partitions(schema, ("a", "c"))


def test_partitions_may_be_added_to_a_table_whose_partitions_are_unknown() -> None:
    """No row moves, so the partitions matter only to a later DDL that removes rows."""
    known = table("id INT")
    assert altered(known, "ADD PARTITION PARTITIONS 2") == (known, [])
