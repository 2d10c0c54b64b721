"""Stated schemas reconciled with replayed DDL, and schemas inferred from rows."""

import json

import pytest
from msgspec.structs import replace

from ticdc_assets.events import (
    Column,
    ColumnType,
    Index,
    Op,
    Partition,
    Partitioning,
    RowChange,
    TableSchema,
    TopicPosition,
)
from ticdc_assets.schema.effect import ColumnAdded, ColumnConverted, ColumnDropped
from ticdc_assets.schema.inference import (
    adopt_observed_columns,
    find_contradiction,
    find_type_changes,
    infer_schema,
)
from ticdc_assets.schema.reconciliation import adopt_stated_types, mark_hidden_columns, reconcile
from ticdc_assets.schema.types.mysql_type import parse_type

INT, TEXT = ColumnType("int"), ColumnType("varchar")


def schema(*names: str, **fields: object) -> TableSchema:
    columns = tuple(Column(name, INT) for name in names)
    return replace(TableSchema("d", "t", columns, origin="replayed"), **fields)


@pytest.mark.parametrize(
    ("replayed", "stated", "order"),
    [
        ("c a b", "c a b", "c a b"),
        # By column id, as the classic server has it.
        ("c a b", "a b c", "c a b"),
        ("C a b", "a b c", "c a b"),
        # A column that only one side knows says nothing about the order of the others.
        ("a c", "a b c", "a b c"),
        ("c a", "a b c", "c a b"),
        ("c x a", "a c", "c a"),
        ("c a b", "_V$_i_0 a b c", "c a b _V$_i_0"),
    ],
)
def test_columns_are_in_table_order(replayed: str, stated: str, order: str) -> None:
    joined = reconcile(schema(*replayed.split()), schema(*stated.split()))
    assert " ".join(c.name for c in joined.columns) == order


def test_ddl_adds_the_attributes_that_are_not_stated() -> None:
    whole = Column(
        "e",
        ColumnType("enum", elements=("a", "b"), charset="gbk", collation="gbk_bin"),
        default="now()",
        default_is_expression=True,
        generated="stored",
        comment="c",
    )
    cut = Partitioning("hash", (Partition("p0"),), expression="e")
    replayed = schema(columns=(whole,), partitioning=cut, declared_key=("e",))
    stated = schema(columns=(Column("e", ColumnType("enum"), False, "x"),), version=7, table_id=3)
    joined = reconcile(replayed, replace(stated, origin="stated"))
    assert joined.columns == (replace(whole, nullable=False),)
    assert (joined.partitioning, joined.declared_key) == (cut, ("e",))
    assert (joined.version, joined.table_id, joined.origin) == (7, 3, "stated")
    # What is stated otherwise is believed.
    other = schema(columns=(Column("e", ColumnType("set", elements=("z",)), default="z"),))
    assert reconcile(replayed, other).columns[0].type == ColumnType("set", elements=("z",))


def test_hidden_columns_of_an_index_over_an_expression_are_virtual() -> None:
    hidden = {c.name: c.generated for c in reconcile(schema("a"), schema("a", "_V$_i_0")).columns}
    assert hidden == {"a": None, "_V$_i_0": "virtual"}
    assert mark_hidden_columns(schema("_v$_i_0")).columns[0].generated == "virtual"


PRIMARY = Index("PRIMARY", ("b", "a"), unique=True, primary=True)
UNIQUE = Index("u", ("c",), unique=True)


@pytest.mark.parametrize(
    ("stated", "indexes"),
    [
        # Schema files state the primary key only, its columns in the table's order.
        ((replace(PRIMARY, columns=("a", "b")),), (PRIMARY, UNIQUE)),
        ((replace(PRIMARY, columns=("a", "c")),), (replace(PRIMARY, columns=("a", "c")), UNIQUE)),
        ((), (UNIQUE,)),
    ],
)
def test_indexes_that_are_not_stated_come_from_ddl(
    stated: tuple[Index, ...], indexes: tuple[Index, ...]
) -> None:
    replayed = schema("a", "b", "c", indexes=(PRIMARY, UNIQUE))
    assert reconcile(replayed, schema("a", "b", "c", indexes=stated)).indexes == indexes


@pytest.mark.parametrize("indexes", [(PRIMARY,), (replace(UNIQUE, name="v"),), ()])
def test_simple_states_all_indexes_there_are(indexes: tuple[Index, ...]) -> None:
    replayed = schema("a", "b", "c", indexes=(PRIMARY, UNIQUE))
    stated = schema("a", "b", "c", indexes=indexes, table_id=7)
    assert reconcile(replayed, stated).indexes == indexes


def test_column_changes_adopt_the_stated_types() -> None:
    octets, moment = ColumnType("varbinary", length=5), ColumnType("timestamp")
    stated = schema(
        columns=(
            Column("b", octets, default="YWI="),
            Column("t", moment, default="2024-01-01 00:00:00"),
            Column("n", ColumnType("int", length=11), default="lossy"),
            Column("k", octets),
        )
    )
    steps = [
        ColumnAdded(Column("b", TEXT, default="ab")),
        ColumnAdded(Column("t", moment, default="2024-01-01 08:00:00")),
        ColumnAdded(Column("n", INT, default="5")),
        ColumnConverted("k", INT, TEXT),
        ColumnDropped("x"),
    ]
    assert adopt_stated_types(steps, stated) == (
        ColumnAdded(stated.columns[0]),
        ColumnAdded(stated.columns[1]),
        ColumnAdded(replace(stated.columns[2], default="5")),
        ColumnConverted("k", INT, octets),
        ColumnDropped("x"),
    )


def row(observed: str | None, image: str, key: tuple[str, ...] | None = None) -> RowChange:
    return RowChange(
        op=Op.INSERT,
        commit_ts=1,
        database="d",
        table="t",
        position=TopicPosition("t", 0, 0),
        after=image,
        observed=observed,
        key_columns=key,
    )


def test_an_inferred_schema_has_the_columns_of_the_row_in_order_and_its_key() -> None:
    observed = '{"b":"int unsigned not null","a":"varchar","k":"int"}'
    inferred = infer_schema(row(observed, '{"k":"1","a":"x","b":"2"}', ("k",)))
    assert inferred is not None
    assert inferred.columns == (
        Column("k", INT, nullable=False),
        Column("a", TEXT),
        Column("b", ColumnType("int", unsigned=True), nullable=False),
    )
    assert (inferred.key, inferred.origin) == (("k",), "inferred")
    assert infer_schema(row(None, "{}")) is None


def test_rows_add_and_widen_columns_that_no_ddl_has_stated() -> None:
    known = replace(
        schema("k", "a", "v", indexes=(Index("PRIMARY", ("k",), True, True),)), origin="inferred"
    )
    same = row('{"k":"int","a":"int"}', "{}")
    assert adopt_observed_columns(known, same) is known
    assert adopt_observed_columns(known, row(None, "{}")) is known
    other = row('{"K":"smallint","a":"bigint","v":"varchar","n":"date"}', "{}", ("a",))
    shown = adopt_observed_columns(known, other)
    assert [(c.name, c.type.name) for c in shown.columns] == [
        ("k", "int"),
        ("a", "bigint"),
        ("v", "int"),
        ("n", "date"),
    ]
    assert (shown.key, shown.origin) == (("k",), "inferred")
    assert find_type_changes(known, shown) == (ColumnConverted("a", INT, ColumnType("bigint")),)
    keyless = replace(schema("k", "a"), origin="inferred")
    assert adopt_observed_columns(keyless, row('{"k":"int"}', "{}", ("k",))).key == ("k",)
    assert adopt_observed_columns(keyless, row('{"k":"int"}', "{}", ("z",))) is keyless


@pytest.mark.parametrize("origin", ["stated", "replayed"])
def test_rows_change_no_column_that_a_ddl_has_stated(origin: str) -> None:
    known = replace(schema("k", "a"), origin=origin)
    other = row('{"k":"bigint","a":"int","n":"date"}', "{}", ("k",))
    assert adopt_observed_columns(known, other) is known
    # Without a commit ts, a row may come before a DDL with the same milliseconds.
    early = replace(other, ordering="milliseconds")
    assert len(adopt_observed_columns(known, early).columns) == 3
    in_folder = replace(early, schema_version=7)
    assert adopt_observed_columns(known, in_folder) is known


@pytest.mark.parametrize(
    ("known", "stated", "contradicts"),
    [
        ("int", "int", False),
        ("int", "smallint", False),
        ("int", "smallint unsigned", False),
        ("int", "int unsigned", True),
        ("int unsigned", "int", True),
        ("int", "bigint", True),
        ("int", "varchar", True),
        ("varchar(9)", "int", True),
        ("varchar(9)", "longtext", False),
        ("varchar(9)", "var_string", False),
        ("text", "blob", True),
        ("varchar(9) charset binary", "varbinary", False),
        ("varbinary(9)", "blob", False),
        ("double", "float", False),
        ("float", "double", True),
        ("decimal(9,2)", "decimal unsigned", False),
        ("decimal(9,2) unsigned", "decimal", True),
        ("datetime", "timestamp", True),
        ("enum('a')", "enum", False),
        ("enum('a')", "set", True),
        ("bit(8)", "bit", False),
        ("tinyint(1)", "bool", False),
    ],
)
def test_a_row_contradicts_its_schema_where_the_column_could_not_hold_every_value(
    known: str, stated: str, contradicts: bool
) -> None:
    table = TableSchema("d", "t", (Column("a", parse_type(known)),))
    observed = json.dumps({"a": stated})
    found = find_contradiction(table, row(observed, "{}"))
    assert (found is not None) is contradicts
    assert find_contradiction(table, row('{"b":"int"}', "{}")) is not None
    flagged = find_contradiction(table, row(observed, "{}"), by_flags=True)
    # A flag states unsigned, and it may be lost.
    assert (flagged is not None) is (contradicts and "unsigned" not in known + stated)
