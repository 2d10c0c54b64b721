"""What workers type with Arrow is what the rules in Python say, or is left to Spark."""

import struct
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dumpling.test_round_trip import golden_tables
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.lake.load.typed_arrays import type_texts
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value_reader import make_reader

TYPES = [
    *(ColumnType(name, unsigned=u) for name in ("tinyint", "int", "bigint") for u in (False, True)),
    *(ColumnType("bit", length=n) for n in (1, 63, 64)),
    *(ColumnType(name) for name in ("year", "float", "double", "date", "time", "text", "blob")),
    *(ColumnType("decimal", length=p, decimals=s) for p, s in ((5, 2), (38, 1), (38, 30), (65, 0))),
    *(ColumnType(name, decimals=6) for name in ("datetime", "timestamp")),
    ColumnType("enum", elements=("a", "b c")),
    ColumnType("set", elements=("a", "b")),
    ColumnType("json"),
    ColumnType("vector"),
]
DIGITS = st.text("0123456789-+.eE", max_size=8)
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(" "))
TEXTS = st.one_of(
    DIGITS,
    MOMENTS,
    MOMENTS.map(lambda text: text[:10]),
    MOMENTS.map(lambda text: text[11:]),
    st.integers(-(1 << 64), 1 << 65).map(str),
    # A multiple of 2^128 in units of the last place, nearly.
    st.sampled_from(["340282367", "-340282367", "3402823669209384634633746074317682114.6"]),
    st.floats(allow_nan=False).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.binary(max_size=6).map(lambda b: b.hex()),
    st.sampled_from(["", "a", "b c", "a,b", "AA==", "AAE=", "A===", "0x1F", "nan", "inf", "1e400"]),
    st.sampled_from(["0000-00-00", "2024-02-30", "0001-01-01", "2024-01-01 00:00:00|2024-01-01"]),
    st.sampled_from(["0000-00-00 00:00:00", "2024-01-01 24:00:00", "2024-01-01T00:00:00", "[1,2]"]),
    st.sampled_from(["-838:59:59", "839:00:00", "2155", "1900", "0", "-0", "٣", "1_0", " 1", "1 "]),
)


def compare(texts: list[str | None], type: ColumnType) -> bool:
    """Compare with the rules; return whether Arrow typed the texts."""
    typed = type_texts(pa.array(texts, pa.string()), type)
    if typed is None:
        return False
    assert typed.type == get_arrow_type(type)
    read = make_reader(type, True)
    for text, value in zip(texts, typed.to_pylist(), strict=True):
        expected = read(text)
        assert (value is None) == (expected is None), (text, value)
        if value is not None:
            assert in_delta(value, type) == as_rules_have_it(expected, type), text
    return True


def in_delta(value: Any, type: ColumnType) -> object:
    match describe(type).kind:
        case "float":
            return struct.pack("<d", value)
        case "datetime":
            # The digits of the fraction are the column's.
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        case "date":
            return value.isoformat()
    return value


def as_rules_have_it(value: Any, type: ColumnType) -> object:
    match describe(type).kind:
        case "float":
            return struct.pack("<d", value)
        case "datetime":
            return datetime.fromisoformat(value)
    return value


@pytest.mark.parametrize("type", TYPES, ids=str)
@settings(max_examples=60)
@given(texts=st.lists(st.none() | TEXTS, min_size=1, max_size=3))
def test_any_text_is_typed_by_the_rules_or_not_at_all(
    type: ColumnType, texts: list[str | None]
) -> None:
    try:
        compare(texts, type)
    except InvalidValue as problem:
        pytest.fail(f"typed what is invalid: {problem}")


def test_nearly_all_golden_columns_are_typed() -> None:
    """Otherwise the test above compares nothing."""
    left = set()
    for schema, rows in golden_tables():
        for place, column in enumerate(c for c in schema.columns if c.generated != "virtual"):
            if not compare([row[place] for row in rows], column.type):
                left.add(describe(column.type).kind)
    # Dates that are none, and what Arrow cannot type.
    assert left <= {"set", "vector", "date", "datetime", "decimal"}
