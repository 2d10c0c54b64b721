"""Which windows of a history concern only rows with events."""

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.plan.steps import Alter, TableWork
from ticdc_assets.rows.versions import is_by_row
from ticdc_assets.schema.effect import ColumnAdded

ID = Column("id", ColumnType("int"), nullable=False)
KEY = (Index("PRIMARY", ("id",), unique=True, primary=True),)


def add(column: Column) -> TableWork:
    before, after = (TableSchema("d", "t", columns, KEY) for columns in ((ID,), (ID, column)))
    step = Alter(after, (ColumnAdded(column),), 5, "")
    return TableWork("t", before, False, (step,))


def test_a_ddl_that_only_a_table_without_rows_can_take_is_not_by_row() -> None:
    assert is_by_row(add(Column("v", ColumnType("int"))))
    default = Column("u", ColumnType("varchar"), default="uuid()", default_is_expression=True)
    assert not is_by_row(add(default))
