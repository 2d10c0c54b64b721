"""Table schemas: the key that identifies a row."""

from ticdc_assets.events import Column, ColumnType, Index, TableSchema


def test_a_handle_key_has_no_virtual_columns() -> None:
    virtual = Column("v", ColumnType("int"), nullable=False, generated="virtual")
    plain = (
        Column("a", ColumnType("int"), nullable=False),
        Column("b", ColumnType("int"), nullable=False),
    )
    keys = (Index("one", ("v",), unique=True), Index("two", ("a", "b"), unique=True))
    assert TableSchema("d", "t", (virtual, *plain), keys).key == ("a", "b")
