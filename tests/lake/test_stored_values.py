"""Rows are printed from Arrow as MySQL prints them, whatever the type."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.schema.types.mysql_type import parse_type

UTC = pa.timestamp("us", "UTC")
DAY, MICROS = 86_400, 1_000_000


def shown(type: ColumnType, array: pa.Array, exact: list[Any] | None = None) -> list[str | None]:
    schema = TableSchema("d", "t", (Column("c", type),))
    block = {"c": array, "_commit_ts": pa.array([1] * len(array))}
    if exact is not None:
        block[INEXACT] = pa.array(exact, pa.map_(pa.string(), pa.string()))
    ((*lines,),) = format_blocks([block], schema)
    return [json.loads(line)["c"] for line in lines]


@pytest.mark.parametrize(
    ("type", "array", "texts"),
    [
        ("int", pa.array([-5, None], pa.int32()), ["-5", None]),
        # A file that is older than the column's type.
        ("bigint", pa.array([7], pa.int8()), ["7"]),
        ("bigint unsigned", pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)), [str(2**64 - 1)]),
        ("bit(64)", pa.array([Decimal(2**63)], pa.decimal128(20, 0)), [str(2**63)]),
        ("bit(5)", pa.array([17], pa.int64()), ["17"]),
        ("year", pa.array([0, 1999], pa.int16()), ["0", "1999"]),
        ("float", pa.array([0.1, 16777216.0, -0.0], pa.float32()), ["0.1", "16777216", "-0"]),
        ("double", pa.array([0.1, 1e20, 5e-324], pa.float64()), None),
        ("decimal(10,2)", pa.array([Decimal("-0.50")], pa.decimal128(10, 2)), ["-0.50"]),
        ("decimal(12,4)", pa.array([Decimal("1.5")], pa.decimal128(5, 1)), ["1.5000"]),
        ("decimal(20,10)", pa.array([Decimal("0E-10")], pa.decimal128(20, 10)), ["0.0000000000"]),
        ("decimal(60,2)", pa.array(["1" * 58 + ".25"]), ["1" * 58 + ".25"]),
        ("varchar(9)", pa.array(['"\\\u0000ü', "", None]), ['"\\\u0000ü', "", None]),
        ("json", pa.array(['{"a": 1}']), ['{"a": 1}']),
        ("varbinary(9)", pa.array([b"\x00\xff", b""]), ["00ff", ""]),
        ("date", pa.array([date(1, 1, 1), None]), ["0001-01-01", None]),
        # Python has no year 0.
        ("date", pa.array([-719_528], pa.date32()), ["0000-01-01"]),
        ("datetime", pa.array([datetime(9999, 12, 31, 23, 59, 59)]), ["9999-12-31 23:59:59"]),
        ("datetime(3)", pa.array([-719_528 * DAY * MICROS + 70_000], pa.timestamp("us")),
         ["0000-01-01 00:00:00.070"]),
        ("datetime(6)", pa.array([0], pa.timestamp("us")), ["1970-01-01 00:00:00.000000"]),
        ("timestamp(3)", pa.array([1_500], UTC), ["1970-01-01 00:00:00.0015"]),
        ("timestamp", pa.array([1_700_000_000 * MICROS, None], UTC), ["2023-11-14 22:13:20", None]),
        ("time(2)", pa.array(["-838:59:59.00"]), ["-838:59:59.00"]),
        ("enum('a','b,c')", pa.array(["b,c", ""]), ["b,c", ""]),
        ("set('x','y')", pa.array(["x,y", ""]), ["x,y", ""]),
        ("vector", pa.array([[1.0, 2.5, 0.1], []], pa.list_(pa.float32())), ["[1,2.5,0.1]", "[]"]),
        ("int", pa.nulls(2), [None, None]),
        ("decimal(9,3)", pa.nulls(1), [None]),
        ("timestamp", pa.nulls(1), [None]),
        ("vector", pa.nulls(1), [None]),
    ],
)  # fmt: skip
def test_a_value_is_printed(type: str, array: pa.Array, texts: list[str | None] | None) -> None:
    if texts is None:
        texts = ["0.1", "100000000000000000000", f"0.{'0' * 323}5"]
    assert shown(parse_type(type), array) == texts


def test_exact_texts_take_the_place_of_what_a_column_holds() -> None:
    texts = pa.array(["caf?", "a\\b", None])
    exact = [{"c": r"caf\xe9\x5c\ud800"}, None, {"other": "x"}]
    assert shown(parse_type("varchar(9)"), texts, exact) == ["caf\udce9\\\ud800", "a\\b", None]
    days = pa.array([None, None], pa.date32())
    assert shown(parse_type("date"), days, [{"c": "0000-00-00"}, None]) == ["0000-00-00", None]
    moments = pa.array([0], UTC)
    either = [{"c": "2024-11-03 05:30:00|2024-11-03 06:30:00"}]
    assert shown(parse_type("timestamp"), moments, either) == ["2024-11-03 05:30:00"]
