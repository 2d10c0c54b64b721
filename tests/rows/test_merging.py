"""What is merged into a large table, where DDLs of the window changed its columns."""

import pyarrow as pa
import pytest

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.plan.steps import Alter, TableWork
from ticdc_assets.rows.column_moves import map_columns
from ticdc_assets.rows.merging import PUT, can_be_merged, list_merge
from ticdc_assets.rows.stored import store_values
from ticdc_assets.rows.table import TableResult
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange, ColumnRenamed

KEY = (Index("PRIMARY", ("id",), unique=True, primary=True),)
ID = Column("id", ColumnType("int"), nullable=False)


def make(values: dict[str, list[object]], schema: TableSchema) -> Rows:
    types = {column.name: column.type for column in schema.columns}
    columns = {name: store_values(each, types[name]) for name, each in values.items()}
    return Rows(columns, pa.array([5] * len(values["id"]), pa.int64()))


def test_rows_that_went_are_named_by_their_keys_whatever_other_columns_were() -> None:
    before = TableSchema("d", "t", (ID, Column("c", ColumnType("int"))), KEY)
    after = TableSchema("d", "t", (ID, Column("c", ColumnType("bigint"))), KEY)
    concerned = make({"id": [1, 2], "c": [7, 8]}, before)
    put = make({"id": [1], "c": [1 << 40]}, after)
    result = TableResult(put, gone=[make({"id": [3]}, before)])
    listed = list_merge(result, concerned, after)
    assert listed.select(["id", "c", PUT]).sort_by("id").to_pylist() == [
        {"id": 1, "c": 1 << 40, PUT: True},
        {"id": 2, "c": None, PUT: False},
        {"id": 3, "c": None, PUT: False},
    ]


V, W = (Column(name, ColumnType("int")) for name in "vw")


@pytest.mark.parametrize(
    ("columns", "indexes", "change", "merges"),
    [
        ((ID, V), (), None, False),
        ((ID, V), KEY, ColumnRenamed("v", "w"), True),
        ((ID, V), KEY, ColumnAdded(W), True),
        ((ID, V, W), KEY, ColumnRenamed("v", "w"), False),
        ((ID, V, W), KEY, ColumnAdded(W), False),
    ],
)
def test_a_new_key_and_a_column_that_rows_have_shown_need_all_rows(
    columns: tuple[Column, ...],
    indexes: tuple[Index, ...],
    change: ColumnChange | None,
    merges: bool,
) -> None:
    before = TableSchema("d", "t", columns, indexes)
    after = TableSchema("d", "t", (ID, W), KEY)
    alter = Alter(after, () if change is None else (change,), 5, "")
    assert can_be_merged(TableWork("t", before, False, (alter,))) == merges


def test_a_column_renamed_to_one_that_rows_have_shown_takes_its_place() -> None:
    before = TableSchema("d", "t", (ID, V, W), KEY)
    moves = map_columns(before, [ColumnRenamed("v", "w")], TableSchema("d", "t", (ID, W), KEY))
    assert moves == {"id": "id", "v": "w"}
