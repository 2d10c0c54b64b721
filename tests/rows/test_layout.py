"""Rows are the same in any layout of their table; only their files differ."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.plan.layout import Layout, choose_layout, is_written_anew
from ticdc_assets.rows.clustering import find_clustering_column, split_by_column
from ticdc_assets.rows.merging import PUT, list_merge
from ticdc_assets.rows.stored import Stored
from ticdc_assets.rows.table import TableResult
from ticdc_assets.rows.table_rows import (
    MAX_BIGINT,
    Rows,
    TooLarge,
    make_no_rows,
    read_table,
    write_table,
)

UNSIGNED = ColumnType("bigint", unsigned=True)
ID = Column("id", ColumnType("int"), nullable=False)
SCHEMA = TableSchema(
    "d",
    "t",
    (ID, Column("u", UNSIGNED), Column("_inexact", ColumnType("varchar", length=9))),
    (Index("PRIMARY", ("id",), unique=True, primary=True),),
)
BIGINTS = Layout(bigints=True)
# Of two kinds: what a BIGINT holds, and what it does not.
NUMBERS = st.none() | st.integers(0, MAX_BIGINT) | st.integers(MAX_BIGINT + 1, (1 << 64) - 1)


def make_rows(numbers: list[int | None]) -> Rows:
    count = len(numbers)
    decimals = [None if number is None else Decimal(number) for number in numbers]
    columns = {
        "id": Stored(pa.array(range(count), pa.int32())),
        "u": Stored(pa.array(decimals, pa.decimal128(20, 0))),
        "_inexact": Stored(pa.array(map(str, numbers), pa.string())),
    }
    return Rows(columns, pa.array(range(100, 100 + count), pa.int64()))


@given(st.lists(NUMBERS, max_size=6))
def test_a_bigint_gives_the_same_rows_again_or_names_the_first_that_it_cannot_hold(
    numbers: list[int | None],
) -> None:
    rows = make_rows(numbers)
    large = [n for n in enumerate(numbers) if n[1] is not None and n[1] > MAX_BIGINT]
    if large:
        with pytest.raises(TooLarge) as caught:
            write_table(rows, SCHEMA, BIGINTS)
        place, value = large[0]
        assert (caught.value.value, caught.value.commit_ts) == (value, 100 + place)
        assert str(value) not in str(caught.value)
        return
    written = write_table(rows, SCHEMA, BIGINTS)
    assert written.schema.field("u").type == pa.int64()
    assert read_table(written, SCHEMA) == read_table(write_table(rows, SCHEMA), SCHEMA)


@given(st.lists(st.none() | st.integers(-9, 9), min_size=1), st.integers(1, 200))
def test_files_hold_all_rows_in_the_order_of_a_column(numbers: list[int | None], size: int) -> None:
    rows = pa.table({"v": pa.array(numbers, pa.int32()), "place": range(len(numbers))})
    files = list(split_by_column(rows, "v", size))
    joined = pa.concat_tables(files)
    wanted = sorted(enumerate(numbers), key=lambda each: (each[1] is None, each[1] or 0, each[0]))
    assert joined.to_pylist() == [{"v": value, "place": place} for place, value in wanted]
    # Whatever the rows are: no file is much larger than it should be, nor empty.
    assert all(file.num_rows for file in files)


def test_a_layout_is_chosen_by_the_columns_that_a_table_has() -> None:
    def choose(name: str) -> Layout:
        return choose_layout([TableLayout(("*.*",), cluster_by=name)], SCHEMA)

    assert choose("U") == Layout(cluster_by="u")
    assert find_clustering_column(SCHEMA, choose("_INEXACT")) == "_inexact_"
    assert find_clustering_column(SCHEMA, Layout()) is None
    assert find_clustering_column(SCHEMA, Layout(cluster_by="gone")) is None
    assert "does not have" in (choose("x").fault or "")
    document = TableSchema("d", "t", (ID, Column("j", ColumnType("json"))))
    fault = choose_layout([TableLayout(("d.t",), cluster_by="j")], document).fault
    assert fault is not None
    assert "by whose type json rows are not sorted" in fault


def test_rows_are_written_again_only_if_their_files_change() -> None:
    without = TableSchema("d", "t", (ID,))
    assert is_written_anew(SCHEMA, Layout(), BIGINTS)
    assert is_written_anew(SCHEMA, BIGINTS, Layout())
    assert not is_written_anew(without, Layout(), BIGINTS)
    sorted_by_id = Layout(cluster_by="id")
    assert is_written_anew(without, Layout(), sorted_by_id)
    # Sorted files do no harm.
    assert not is_written_anew(without, sorted_by_id, Layout())
    assert not is_written_anew(SCHEMA, Layout(), Layout(fault="x"))


@pytest.mark.parametrize("key", [("u",), ()])
def test_a_merge_removes_no_row_that_its_table_cannot_have(key: tuple[str, ...]) -> None:
    """It came and went within the window."""
    indexes = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    schema = TableSchema("d", "t", (Column("u", UNSIGNED, nullable=not key),), indexes)
    values = pa.array([Decimal(7), Decimal(MAX_BIGINT + 1)], pa.decimal128(20, 0))
    gone = Rows({"u": Stored(values)}, pa.array([5, 6], pa.int64()))
    result = TableResult(make_no_rows(schema), gone=[gone])
    merge = list_merge(result, None, schema, BIGINTS)
    assert (merge["u"].to_pylist(), merge[PUT].to_pylist()) == ([7], [False])
