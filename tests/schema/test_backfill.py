"""The values of existing rows in an added column."""

import pytest

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType
from ticdc_assets.events.tso import compose
from ticdc_assets.schema.conversion.convert import backfill
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value_writer import write_value

COMMIT_TS = compose(1_714_564_805_678)  # 2024-05-01 12:00:05.678 UTC

# (type, nullable, default, default_is_expression) and the text of existing rows.
DEFAULTS = [
    (("int", True, None, False), None),
    (("int", False, None, False), "0"),
    (("decimal(5,2)", False, None, False), "0.00"),
    (("double", False, None, False), "0"),
    (("bit(4)", False, None, False), "0"),
    (("year", False, None, False), "0"),
    (("year", False, "0000", False), "0"),
    (("year", False, "0", False), "2000"),
    (("date", False, None, False), "0000-00-00"),
    (("datetime(2)", False, None, False), "0000-00-00 00:00:00.00"),
    (("time(2)", False, None, False), "00:00:00.00"),
    (("char(3)", False, None, False), ""),
    (("binary(3)", False, None, False), "000000"),
    (("varbinary(3)", False, None, False), ""),
    (("blob", False, None, False), ""),
    (("enum('x','y')", False, None, False), "x"),
    (("set('x','y')", False, None, False), ""),
    (("json", False, None, False), "null"),
    (("int", True, "2.5", False), "3"),
    (("decimal(10,3)", True, "1.5", False), "1.500"),
    (("float", True, "1e2", False), "100"),
    (("bit(8)", True, "10", False), "10"),
    (("datetime(3)", True, "2024-01-01 00:00:00", False), "2024-01-01 00:00:00.000"),
    (("timestamp", True, "2024-01-01", False), "2024-01-01 00:00:00"),
    (("time", True, "1:2:3", False), "01:02:03"),
    (("char(5)", True, "ab ", False), "ab"),
    (("binary(3)", True, "YQ==", False), "610000"),
    (("varbinary(8)", True, "AP8=", False), "00efbfbd"),
    (("enum('2','1')", True, "1", False), "1"),
    (("enum('x','y')", True, "2", False), "y"),
    (("set('x','y')", True, "y,x", False), "x,y"),
    (("year", True, "99", False), "1999"),
    (("datetime(0)", True, "CURRENT_TIMESTAMP", True), "2024-05-01 12:00:05"),
    (("timestamp(2)", True, "current_timestamp(2)", True), "2024-05-01 12:00:05.67"),
    (("timestamp(6)", True, "NOW(6)", True), "2024-05-01 12:00:05.678000"),
    (("datetime", True, "CURRENT_TIMESTAMP(1)", False), "2024-05-01 12:00:05.6"),
    (("date", True, "(CURRENT_DATE)", True), "2024-05-01"),
    (("varchar(30)", True, "CURRENT_TIMESTAMP", False), "CURRENT_TIMESTAMP"),
]


@pytest.mark.parametrize(("declared", "expected"), DEFAULTS)
def test_existing_rows_get_the_declared_or_implicit_default(
    declared: tuple[str, bool, str | None, bool], expected: str | None
) -> None:
    type_text, nullable, default, is_expression = declared
    column = Column("c", parse_type(type_text), nullable, default, is_expression)
    assert write_value(backfill(column, COMMIT_TS), column.type) == expected


def test_an_expression_or_a_generated_column_cannot_be_backfilled() -> None:
    with pytest.raises(InvalidValue):
        backfill(
            Column("c", ColumnType("varchar"), default="uuid()", default_is_expression=True), 0
        )
    with pytest.raises(InvalidValue):
        backfill(Column("c", ColumnType("int"), generated="stored"), 0)
