"""The texts that DuckDB makes of what a copy holds are those that `canonical` states."""

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.events import ColumnType
from ticdc_assets.rows.columns import DeltaColumn
from ticdc_assets.verify.batch_side import BatchSide, ReadColumn
from ticdc_assets.verify.canonical import ComparedColumn, hash_values, make_canonical
from ticdc_assets.verify.copy_values import (
    MACROS,
    Incomparable,
    choose_reading,
    normalize_json,
)
from ticdc_assets.verify.side import ALL_HASHES, Comparison, Digest

T = ColumnType
ENUM = T("enum", elements=("a", "b'c"))
DOUBLE, FLOAT = T("double"), T("float")
MONEY = T("decimal", length=10, decimals=2)


def read(type: ColumnType, values: Sequence[Any], held: pa.DataType) -> list[bytes | None]:
    """Return the canonical texts of values that a copy holds in an Arrow type."""
    array = pa.array(values, held)
    reading = choose_reading(type, held, "c0")
    if reading.prepare is not None:
        array = reading.prepare(array)
    CONNECTION.register("made", pa.table({"c0": array}))
    return [row[0] for row in CONNECTION.execute(f"SELECT {reading.sql} FROM made").fetchall()]


CONNECTION = duckdb.connect()
for macro in MACROS:
    CONNECTION.execute(macro)
U64 = 18446744073709551615
READ: list[tuple[ColumnType, pa.DataType, Any, str]] = [
    (T("bigint", unsigned=True), pa.uint64(), U64, str(U64)),
    (T("bigint", unsigned=True), pa.decimal128(38, 2), Decimal(U64), str(U64)),
    (T("bigint"), pa.string(), "-007", "-7"),
    (T("bigint"), pa.string(), "1.5", "1.5"),
    (T("bigint"), pa.float64(), -3.0, "-3"),
    (T("bigint"), pa.float64(), 2.5, "2.5"),
    (T("tinyint", length=1), pa.bool_(), True, "1"),
    (T("bit", length=64), pa.binary(), b"\xff" * 8, str(U64)),
    (T("bit", length=9), pa.binary(2), b"\x01\x00", "256"),
    (T("decimal", length=10, decimals=2), pa.decimal128(10, 2), Decimal("-0.50"), "-0.50"),
    (T("decimal", length=10, decimals=2), pa.decimal128(12, 4), Decimal("1.5"), "1.50"),
    (T("decimal", length=10, decimals=2), pa.decimal128(12, 4), Decimal("1.5001"), "1.5001"),
    (T("decimal", length=10, decimals=2), pa.decimal128(9, 0), Decimal(100), "100.00"),
    (T("decimal", length=10, decimals=2), pa.int8(), 7, "7.00"),
    (T("decimal", length=10, decimals=2), pa.float64(), 0.1 + 0.2, "0.30"),
    (T("decimal", length=65, decimals=30), pa.string(), "1.5", "1.5" + "0" * 29),
    (T("date"), pa.date32(), date(1, 1, 1), "0001-01-01"),
    (T("date"), pa.timestamp("us"), datetime(2024, 2, 29), "2024-02-29"),
    (T("date"), pa.timestamp("us"), datetime(2024, 2, 29, 1), "2024-02-29 01:00:00"),
    (T("datetime"), pa.timestamp("ms"), datetime(2024, 2, 29), "2024-02-29 00:00:00"),
    (T("datetime"), pa.date32(), date(2024, 2, 29), "2024-02-29 00:00:00"),
    (T("datetime", decimals=1), pa.timestamp("us"), datetime(2024, 1, 1), "2024-01-01 00:00:00.0"),
    (T("datetime"), pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
    (T("datetime"), pa.string(), "2024-01-01T10:00:00.500Z", "2024-01-01 10:00:00.5"),
    (T("timestamp"), pa.string(), "2024-01-01 10:00:00+00:00", "2024-01-01 10:00:00"),
    (T("timestamp"), pa.timestamp("us", "Asia/Tokyo"), 0, "1970-01-01 00:00:00"),
    (T("time", decimals=2), pa.time64("us"), time(1, 2, 3, 500000), "01:02:03.50"),
    (T("time"), pa.string(), "-838:59:59", "-838:59:59"),
    (ENUM, pa.int8(), 2, "b'c"),
    (ENUM, pa.int8(), 0, ""),
    (ENUM, pa.dictionary(pa.int8(), pa.string()), "a", "a"),
    (T("set"), pa.list_(pa.string()), ["x", "y"], "x,y"),
    (T("set"), pa.large_list(pa.string()), ["x", "y"], "x,y"),
    (FLOAT, pa.float16(), np.float16(1.5), "6755399441055744p0"),
    (T("varchar", length=9), pa.binary(), b"\xff", "\udcff"),
    (T("varchar", length=9), pa.large_string(), " é ", " é "),
    (T("vector"), pa.list_(pa.float64()), [1.0, 0.1], "[1.0,0.1]"),
    (MONEY, pa.decimal256(50, 10), Decimal("12.3"), "12.30"),
    (T("bigint"), pa.decimal256(50, 10), Decimal(5), "5"),
    (MONEY, pa.string(), "-0.0", "0.00"),
    # What no value upstream is equal to, and no error either.
    (MONEY, pa.string(), "1.2.3", "1.2.3"),
    (FLOAT, pa.float64(), 1e300, "1e+300"),
    (DOUBLE, pa.float64(), math.nan, "nan"),
    (T("bit", length=8), pa.binary(), b"\x05" * 9, "0x" + "05" * 9),
    (T("bit", length=8), pa.binary(), b"", "0x"),
    (T("date"), pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
    (ENUM, pa.int8(), 3, "number 3 "),
    (ENUM, pa.int8(), -1, "number -1 "),
    (ENUM, pa.uint64(), 2, "b'c"),
    (T("set"), pa.list_(pa.string()), ["x", None], "x,(NULL)"),
    (T("vector"), pa.list_(pa.float64()), [1.0, None, 1e300], "[1.0,null,1e+300]"),
    (T("set"), pa.list_(pa.string()), ["x,y"], "x;y"),
    (DOUBLE, pa.string(), "4503599627370496p0", "4503599627370496P0"),
    (T("bigint"), pa.string(), "~", "!"),
    (T("bigint"), pa.string(), "1,2", "1;2"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "held", "value", "text"), READ)
def test_what_a_copy_holds_has_the_text_upstream(
    type: ColumnType, held: pa.DataType, value: Any, text: str
) -> None:
    assert read(type, [value, None], held) == [text.encode("utf-8", "surrogateescape"), None]


@pytest.mark.parametrize(
    ("type", "held"),
    [
        (T("bigint"), pa.timestamp("us")),
        (T("bit", length=3), pa.string()),
        (T("decimal", length=16, decimals=2), pa.float64()),
        (T("datetime"), pa.int64()),
        (T("time"), pa.duration("us")),
        (T("varchar", length=9), pa.int64()),
        (T("blob"), pa.string()),
        (T("json"), pa.struct([("a", pa.int64())])),
        (T("set", elements=("a",)), pa.int64()),
        (T("enum"), pa.int64()),
        (T("vector"), pa.string()),
    ],
)
def test_what_cannot_be_compared_is_said(type: ColumnType, held: pa.DataType) -> None:
    with pytest.raises(Incomparable):
        choose_reading(type, held, "c0")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_have_the_text_of_their_bits(numbers: list[float]) -> None:
    powers = [2.0**n for n in (-1074, -1022, -1, 0, 1, 1023)]
    numbers += [*powers, *(math.nextafter(power, 0) for power in powers)]
    texts = [make_canonical(repr(number), DOUBLE) for number in numbers]
    assert read(DOUBLE, numbers, pa.float64()) == texts
    assert read(DOUBLE, list(map(repr, numbers)), pa.string()) == texts
    small = [number for number in numbers if abs(number) < 3.4e38]
    assert read(FLOAT, small, pa.float64()) == [make_canonical(repr(n), FLOAT) for n in small]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.randoms(),
)
def test_json_has_one_form_whatever_its_spaces_and_the_order_of_its_keys(
    value: Any, shuffled: Any
) -> None:
    def shuffle(part: Any) -> Any:
        if isinstance(part, dict):
            items = list(part.items())
            shuffled.shuffle(items)
            return {key: shuffle(inner) for key, inner in items}
        return [shuffle(inner) for inner in part] if isinstance(part, list) else part

    one = json.dumps(value, indent=2)
    other = json.dumps(shuffle(value), ensure_ascii=False, separators=(",", ":"))
    assert normalize_json(one) == normalize_json(other)
    assert json.loads(normalize_json(one) or b"") == value


def test_values_that_differ_in_json_stay_apart() -> None:
    texts = ['{"a":1}', '{"a":"1"}', '{"a":1.5}', "[1]", "[]", "null", "1e999", "{", ""]
    assert len({normalize_json(text) for text in texts}) == len(texts)
    assert normalize_json("1e3") == normalize_json("1000.0") == b"1000"


def test_json_of_bytes_that_are_no_text_is_one_that_differs() -> None:
    texts = pa.array([b'{"a": "\xff"}', b'{ "a": 1}'], pa.binary()).view(pa.string())
    prepare = choose_reading(T("json"), texts.type, "c0").prepare
    assert prepare is not None
    assert prepare(texts).to_pylist() == [b'{"a": "\xff"}', b'{"a":1}']
    assert prepare(pa.array(['{ "a": 1}']).dictionary_encode()).to_pylist() == [b'{"a":1}']


class Rows:
    """Rows in two units."""

    state = None
    bytes_read = 0
    units = 2

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = {field.name: field.type for field in table.schema}

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        half = len(self._table) // 2
        part = self._table.slice(half) if unit else self._table.slice(0, half)
        yield from part.select(list(columns)).combine_chunks().to_batches()


def test_the_hashes_of_rows_are_those_of_every_other_side() -> None:
    types = (T("bigint"), T("varchar", length=9), T("varbinary", length=9), T("longtext"), DOUBLE)
    columns = tuple(
        ComparedColumn(f"c{n}", type, DeltaColumn(f"d{n}", "", "", f"c{n}"), type)
        for n, type in enumerate(types)
    )
    table = pa.table(
        {
            "c0": [1, -2, 3],
            "c1": ["~", None, "1:a,b"],
            "c2": [b"\xff,\x00", b"", None],
            "c3": ["long " * 2000, None, ""],
            "c4": [0.1, -0.0, None],
        }
    )
    texts = [
        (b"1", b"~", b"\xff,\x00", b"long " * 2000, make_canonical("0.1", DOUBLE)),
        (b"-2", None, b"", None, b"0"),
        (b"3", b"1:a,b", None, b"", None),
    ]
    comparison = Comparison("d", "t", columns, columns[:2], None)
    read_by = {
        column: ReadColumn(
            column.name,
            column.name,
            choose_reading(column.type, table.schema.field(column.name).type, column.name),
        )
        for column in columns
    }
    side = BatchSide(Rows(table), comparison, read_by)
    hashes = [hash_values(row, columns) for row in texts]
    assert dict(side.sum_parts([ALL_HASHES], 1)) == {ALL_HASHES: Digest(3, sum(hashes))}
    entries = sorted(entry[:3] for entry in side.list_entries([ALL_HASHES]))
    positions = [hash_values(row[:2], columns[:2]) for row in texts]
    assert entries == sorted(zip(positions, [row[:2] for row in texts], hashes, strict=True))
    rows = dict(side.read_rows(positions))
    assert rows[positions[1]] == texts[1]
    assert rows[positions[0]][:3] == texts[0][:3]
    assert (rows[positions[0]][3] or b"").startswith(b"md5:")


def test_equal_rows_without_a_key_are_listed_once() -> None:
    type = T("bigint")
    column = ComparedColumn("c0", type, DeltaColumn("d0", "", "", "c0"), type)
    comparison = Comparison("d", "t", (column,), (), None)
    reading = ReadColumn("c0", "c0", choose_reading(type, pa.int64(), "c0"))
    side = BatchSide(Rows(pa.table({"c0": [7] * 1000})), comparison, {column: reading})
    (first, second) = side.list_entries([ALL_HASHES])
    assert (first, first.copies, first.hash) == (second, 500, hash_values([b"7"], [column]))
    assert list(side.read_rows([first.position])) == [(first.position, (b"7",))]
