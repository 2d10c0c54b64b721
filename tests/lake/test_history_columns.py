"""The columns of a history: plain names for the newest type, `name@type` for older ones."""

from functools import reduce

from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.lake.history.columns import HistoryColumn, fit_columns


def schema(**types: str) -> TableSchema:
    columns = []
    for name, text in types.items():
        kind, _, length = text.partition(":")
        size = [int(number) for number in length.split(".") if number]
        type = ColumnType(kind, length=size[0] if size else None, decimals=[*size, 0, 0][1])
        columns.append(Column(name.replace("__at__", "@"), type))
    return TableSchema("d", "t", tuple(columns))


def fit(*schemas: TableSchema) -> dict[str, str]:
    start: list[HistoryColumn] = []
    return {column.name: column.type for column in reduce(fit_columns, schemas, start)}


def test_columns_that_are_gone_stay_behind_the_others() -> None:
    assert fit(schema(a="int", b="int"), schema(c="int", b="int")) == {
        "c": "int",
        "b": "int",
        "a": "int",
    }


def test_a_wider_type_takes_the_column() -> None:
    assert fit(schema(a="int"), schema(a="bigint")) == {"a": "bigint"}
    assert fit(schema(a="bigint"), schema(a="int")) == {"a": "bigint"}
    assert fit(schema(a="decimal:10.2"), schema(a="decimal:12.4")) == {"a": "decimal(12,4)"}


def test_another_type_moves_the_old_values_aside() -> None:
    assert fit(schema(a="decimal:10.2"), schema(a="varchar:9")) == {
        "a": "string",
        "a@decimal_10_2": "decimal(10,2)",
    }


def test_a_type_that_comes_back_gets_its_values_back() -> None:
    found = fit(schema(a="int"), schema(a="varchar:9"), schema(a="int"), schema(a="varchar:9"))
    assert found == {"a": "string", "a@int": "int"}
    assert fit(schema(a="int"), schema(a="varchar:9"), schema(a="bigint")) == {
        "a": "bigint",
        "a@string": "string",
        "a@int": "int",
    }


def test_sources_are_the_stored_columns() -> None:
    stored = [HistoryColumn("a", "int", sources=("a",))]
    fitted = reduce(fit_columns, [schema(a="varchar:9"), schema(a="int")], stored)
    assert {column.name: column.sources for column in fitted} == {"a": ("a",), "a@string": ()}


def test_no_column_has_a_name_of_ours_or_that_of_a_type() -> None:
    found = fit(schema(_valid_from="int", _VALID_TO_="int", a__at__int="int", a="int"))
    assert list(found) == ["_valid_from_", "_VALID_TO__", "a@@int", "a"]
    assert fit(schema(a="int", a__at__int="date"), schema(a="varchar:9", a__at__int="date")) == {
        "a": "string",
        "a@@int": "date",
        "a@int": "int",
    }
