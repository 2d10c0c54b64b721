"""HASH and KEY partitioning."""

from decimal import Decimal
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schema.partition.partitionings import (
    integers,
    locate_partition,
    moments,
    number,
    numbered,
    table,
    texts,
)
from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.schema.types.value import Value


@given(integers, st.integers(1, 1024))
@settings(max_examples=40, deadline=None)
def test_hash_partitions_by_the_absolute_remainder(value: int | None, count: int) -> None:
    find = make_locator(numbered("hash", count, by="a"), table(a="bigint"))
    assert number(find({"a": value})) == abs(value or 0) % count


def test_hash_reads_unsigned_numbers_as_signed() -> None:
    find = make_locator(numbered("hash", 10, by="a"), table(a="bigint unsigned"))
    values = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    assert [number(find({"a": v})) for v in values] == [7, 8, 1]


KEYS: list[tuple[str, st.SearchStrategy[Value], object]] = [
    ("int", st.integers(-(1 << 31), (1 << 31) - 1), str),
    ("bigint unsigned", st.integers(0, (1 << 64) - 1), str),
    ("varchar(20) collate utf8mb4_bin", texts, lambda s: s.rstrip(" ")),
    ("char(20) collate utf8mb4_0900_bin", texts, str),
    ("varbinary(9)", st.binary(max_size=9), bytes.decode),
    ("date", st.dates().map(str), str),
    ("datetime(3)", moments.map(lambda m: m.isoformat(" ", "milliseconds")), str),
    ("decimal(9,2)", st.decimals(-999, 999, places=2), lambda d: f"{d:.2f}"),
    ("double", st.sampled_from([1.0, -0.5, 1e20, 1e-7]), lambda f: f"{Decimal(repr(f)):f}"),
    ("year", st.integers(1901, 2155), str),
    ("enum('a','B ') collate utf8mb4_bin", st.sampled_from(["a", "B"]), str),
]


@given(st.data(), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_key_partitions_by_the_checksum_of_the_column_texts(
    data: st.DataObject, count: int
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    columns = [f"c{n}" for n in range(len(chosen))]
    row, hashed = {}, b""
    for name, (type, values, text_of) in zip(columns, chosen, strict=True):
        if type.startswith("varbinary"):
            row[name] = data.draw(values)
            hashed += row[name]
            continue
        row[name] = data.draw(st.one_of(st.none(), values))
        text = "\0" if row[name] is None else text_of(row[name])
        hashed += text.removesuffix(".0").encode()
    types = dict(zip(columns, (type for type, _, _ in chosen), strict=True))
    explicit = numbered("key", count, columns=" ".join(columns))
    implicit = numbered("key", count)
    expected = crc32(hashed) % count
    assert number(locate_partition(explicit, table(**types), row)) == expected
    assert number(locate_partition(implicit, table(tuple(columns), **types), row)) == expected


def test_key_hashes_upper_case_without_accents_under_general_ci() -> None:
    schema = table(s="varchar(9) collate utf8mb4_general_ci")
    find = make_locator(numbered("key", 1000, columns="s"), schema)
    weights = "BOB\u4e2d\uff21БЕЙ".encode("utf-16-be") + b"\xff\xfd"
    assert number(find({"s": "böb中\uff41бёй😀 "})) == crc32(weights) % 1000
    with pytest.raises(InvalidValue):
        find({"s": "\u0180"})


def test_key_hashes_bits_as_bytes_and_binary_with_trailing_spaces() -> None:
    schema = table(b="bit(20)", raw="varbinary(9)")
    find = make_locator(numbered("key", 1000, columns="b raw"), schema)
    assert number(find({"b": 0x6120, "raw": b"x "})) == crc32(b"\0ax ") % 1000


@pytest.mark.parametrize(
    "type", ["timestamp", "json", "text", "blob", "varchar(5) collate utf8mb4_unicode_ci"]
)
def test_key_partitioning_by_an_unhashable_type_is_unsupported(type: str) -> None:
    with pytest.raises(UnsupportedDdl):
        make_locator(numbered("key", 4, columns="k"), table(k=type))
