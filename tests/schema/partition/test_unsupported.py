"""Partitionings and rows whose partition is uncertain raise."""

import pytest

from tests.schema.partition.partitionings import lists, numbered, ranges, table
from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, ColumnType, Partitioning, TableSchema
from ticdc_assets.schema.partition.locate import make_locator


@pytest.mark.parametrize(
    "partitioning",
    [
        ranges(by="a"),
        ranges("10", "10", by="a"),
        ranges("MAXVALUE", "10", by="a"),
        ranges("NULL", by="a"),
        ranges("b", by="a"),
        ranges("'10'", by="a"),
        ranges(("1", "2"), by="a"),
        ranges("'10'", columns="a"),
        ranges("1", columns="d"),
        ranges("'2024-13-01'", columns="d"),
        ranges("'x'", columns="j"),
        ranges("1", columns="missing"),
        ranges(("1",), columns="a d"),
        lists(["1.5"], by="a"),
        lists([("1", "2")], columns="a"),
        numbered("hash", 0, by="a"),
        numbered("key", 2),
    ],
)
def test_an_invalid_partitioning_is_unsupported(partitioning: Partitioning) -> None:
    schema = TableSchema(
        "db",
        "t",
        tuple(Column(n, ColumnType(t)) for n, t in (("a", "int"), ("d", "date"), ("j", "json"))),
    )
    with pytest.raises(UnsupportedDdl):
        make_locator(partitioning, schema)


def test_a_row_without_the_partitioning_column_is_an_invalid_value() -> None:
    find = make_locator(numbered("hash", 2, by="`A`"), table(a="int"))
    assert find({"A": 3}) == "p1"
    with pytest.raises(InvalidValue, match="'a'"):
        find({"b": 3})
