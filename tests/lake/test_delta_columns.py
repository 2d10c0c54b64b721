"""The columns of current tables: names, types and comments."""

from typing import Any, cast

import pytest

from tests.lake.texts import CASES
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.lake.columns.text_values import read_text_values
from ticdc_assets.rows.columns import (
    choose_delta_names,
    format_mysql_type,
    list_delta_columns,
    make_delta_name,
)
from ticdc_assets.schema.types.mysql_type import parse_type


def test_delta_names_are_distinct_and_not_reserved() -> None:
    assert make_delta_name("a b.c;d") == "a b.c;d"
    assert make_delta_name("a`b") == "aˋb"
    assert make_delta_name("_Commit_TS") == "_Commit_TS_"
    assert make_delta_name("_inexact") == "_inexact_"
    columns = ["_COMMIT_TS", "_commit_ts_", "a`b", "aˋb", "σ", "ς", "id"]
    schema = TableSchema("d", "t", tuple(Column(name, ColumnType("int")) for name in columns))
    names = list(choose_delta_names(schema).values())
    assert names == ["_COMMIT_TS__", "_commit_ts_", "aˋb_", "aˋb", "σ_", "ς", "id"]
    # Letters that Java takes for equal are equal to Python in upper and lower case too.
    assert len({name.upper().lower() for name in [*names, "_commit_ts"]}) == len(columns) + 1


def test_a_comment_states_the_upstream_type() -> None:
    columns = (
        Column("id", parse_type("bigint unsigned"), nullable=False, comment="the 'key'"),
        Column("v", parse_type("int"), generated="virtual"),
        Column("s", parse_type("int"), generated="stored"),
        Column("d", parse_type("decimal(60,2)")),
        Column("e", parse_type("enum('a','it''s')"), nullable=False),
        Column("x", ColumnType("decimal")),
    )
    found = list_delta_columns(TableSchema("d", "t", columns))
    assert [(c.name, c.type) for c in found] == [
        ("id", "decimal(20,0)"),
        ("s", "int"),
        ("d", "string"),
        ("e", "string"),
        ("x", "string"),
    ]
    assert found[0].comment == "bigint unsigned NOT NULL: the 'key'"
    assert found[2].comment.startswith("decimal(60,2); kept as exact text")
    assert found[3].comment == "enum('a','it''s') NOT NULL"
    with pytest.raises(InvalidValue, match="'g'"):
        list_delta_columns(TableSchema("d", "t", (Column("g", ColumnType("geometry")),)))


def test_formatted_types_parse_back() -> None:
    for text in CASES:
        type = parse_type(text)
        if "'" not in text:
            assert parse_type(format_mysql_type(type)) == type


@pytest.mark.parametrize("kind", ["enum", "set"])
@pytest.mark.parametrize("member_names", [False, True])
def test_a_member_that_is_not_utf8_is_an_error_of_its_table(kind: str, member_names: bool) -> None:
    # Before a session is needed: Java would take none of the members.
    type = ColumnType(kind, elements=("a", "\udcff"))
    text = cast(Any, None)
    with pytest.raises(InvalidValue, match="is not UTF-8"):
        read_text_values(text, text, type, member_names=member_names)
