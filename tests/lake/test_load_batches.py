"""Of every row, Spark gets each value once: typed by the rules, or as the text that it was."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lake.test_typed_arrays import TEXTS, TYPES, as_rules_have_it, in_delta
from ticdc_assets.dumpling.rows import BatchBuilder
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.lake.load.batches import add_typed
from ticdc_assets.schema.types.value_reader import make_reader

SCHEMA = TableSchema("d", "t", tuple(Column(f"c{n}", type) for n, type in enumerate(TYPES)))
WIDTH = len(TYPES)
HOSTILE = st.text() | st.binary(max_size=4).map(lambda b: b.decode("utf-8", "surrogateescape"))
ORDINARY = st.sampled_from(["1", "0", "2024-01-02", "2024-01-02 03:04:05", "a", "AA==", "12:00:00"])
# Of rows that are alike, whole columns are typed.
ROWS = st.one_of(
    st.lists(st.lists(st.none() | texts, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=3)
    for texts in (ORDINARY, TEXTS, TEXTS | HOSTILE)
)


def build(rows: list[list[str | None]], problem_at: int | None) -> pa.RecordBatch:
    builder = BatchBuilder(WIDTH)
    for number, row in enumerate(rows):
        if number == problem_at:
            builder.add_problem(number, "it is no row", b"\xff")
        builder.add(number, row)
    (batch,) = builder.flush()
    return batch


@settings(max_examples=200)
@given(rows=ROWS, problem_at=st.none() | st.integers(0, 2))
def test_a_value_is_typed_or_its_text_is_kept(
    rows: list[list[str | None]], problem_at: int | None
) -> None:
    batch = build(rows, problem_at)

    typed = add_typed(batch, 7, SCHEMA, typed=True).to_pylist()
    texts = add_typed(batch, 7, SCHEMA, typed=False).to_pylist()

    for row, kept, before in zip(typed, texts, batch.to_pylist(), strict=True):
        assert row["source"] == kept["source"] == 7
        assert kept["untyped"] == before
        assert {kept[f"v{n}"] for n in range(WIDTH)} == {None}
        left = row["untyped"]
        if left is None:
            assert before["problem"] is None
            assert not before["escaped"]
            left = dict.fromkeys(before)
        else:
            own = ("offset", "problem", "raw", "escaped")
            assert [left[name] for name in own] == [before[name] for name in own]
        for n, column in enumerate(SCHEMA.columns):
            check(row[f"v{n}"], left[f"c{n}"], before[f"c{n}"], column)


def check(value: Any, left: str | None, text: str | None, column: Column) -> None:
    if value is None:
        assert left == text
        return
    assert left is None
    assert text is not None
    expected = make_reader(column.type, True)(text)
    assert in_delta(value, column.type) == as_rules_have_it(expected, column.type)


def test_ordinary_rows_are_typed_whole() -> None:
    """Otherwise every row takes the long way."""
    schema = TableSchema("d", "t", SCHEMA.columns[:2])
    builder = BatchBuilder(2)
    builder.add(0, ["1", None])
    (batch,) = builder.flush()

    assert add_typed(batch, 0, schema, typed=True).to_pylist() == [
        {"source": 0, "untyped": None, "v0": 1, "v1": None}
    ]
