"""Rows are found by the texts that `show` prints of their key, in columns of any type."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from ticdc_assets.erase.key_match import KeyColumns, make_choice, make_image_choice

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 120000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([7, 42, None], pa.int8()), "42"),
        (pa.array([Decimal(7), Decimal("42.50"), None], pa.decimal128(9, 2)), "42.50"),
        (pa.array([Decimal(1), Decimal(2**64 - 1), None], pa.decimal128(20, 0)), str(2**64 - 1)),
        (pa.array([b"\x01", b"\x00\xff", None], pa.binary()), "00ff"),
        (pa.array([date(1, 1, 1), date(2024, 2, 29), None], pa.date32()), "2024-02-29"),
        (pa.array([0, MOMENT, None], pa.timestamp("us", "UTC")), "2024-05-06 07:08:09.120"),
        (pa.array([0, MOMENT, None], pa.timestamp("us")), "2024-05-06 07:08:09.120"),
        (pa.array([0.5, 0.1, None], pa.float64()), "0.1"),
        (pa.array(["a", "it's \x00 \u4e16", None], pa.string()), "it's \x00 \u4e16"),
    ],
)
def test_a_key_of_any_type_is_found(values: pa.Array, text: str) -> None:
    rows = pa.table({"stored": values})
    key = KeyColumns((text,), frozenset([("k",)]))
    assert make_choice(key, {"k": "stored"}).choose(rows).to_pylist() == [False, True, False]
    other = KeyColumns(("none of these",), frozenset([("k",)]))
    assert make_choice(other, {"k": "stored"}).choose(rows).to_pylist() == [False, False, False]


def test_inexact_texts_former_names_and_columns_aside_are_the_key_too() -> None:
    exact = pa.array([None, [("k", "caf\\xe9")], None, None], pa.map_(pa.string(), pa.string()))
    rows = pa.table(
        {
            "k": pa.array(["caf?", "caf?", None, None]),
            "old": pa.array([None, None, "caf\udce9".encode(errors="replace").decode(), "x"]),
            "k@int": pa.array([None, None, None, 5], pa.int32()),
            "_inexact": exact,
        }
    )
    physical = {name: name for name in rows.column_names}

    def find(text: str, *names: str) -> list[bool]:
        key = KeyColumns((text,), frozenset((name,) for name in names))
        chosen: list[bool] = make_choice(key, physical).choose(rows).to_pylist()
        return chosen

    assert find("caf?", "k") == [True, False, False, False]
    assert find("caf\udce9", "k") == [False, True, False, False]
    assert find("5", "k") == [False, False, False, True]
    assert find("x", "K", "OLD") == [False, False, False, True]


def test_a_change_keeps_the_side_of_another_row() -> None:
    image = pa.struct([("k", pa.int32()), ("v", pa.string())])
    before = [None, {"k": 1, "v": "a"}, {"k": 1, "v": "b"}, {"k": 2, "v": "c"}, {"k": 3, "v": "d"}]
    after = [{"k": 1, "v": "a"}, {"k": 1, "v": "b"}, {"k": 2, "v": "c"}, {"k": 1, "v": "e"}, None]
    rows = pa.table(
        {
            "operation": ["insert", "update", "update", "update", "delete"],
            "before": pa.array(before, image),
            "after": pa.array(after, image),
        }
    )
    names = {"k": "k", "v": "v"}
    key = KeyColumns(("1",), frozenset([("k",)]))
    physical = {name: name for name in rows.column_names}
    choice = make_image_choice(key, {"before": names, "after": names}, physical)
    chosen = choice.choose(rows)
    assert chosen.to_pylist() == [True, True, True, True, False]
    assert choice.change(rows, chosen).to_pylist() == [
        {"operation": "insert", "before": None, "after": {"k": 2, "v": "c"}},
        {"operation": "delete", "before": {"k": 2, "v": "c"}, "after": None},
        {"operation": "delete", "before": {"k": 3, "v": "d"}, "after": None},
    ]
