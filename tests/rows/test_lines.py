"""Rows as lines, in the order of their key."""

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.rows.lines import sort_by_key

KEY = (Index("PRIMARY", ("id",), unique=True, primary=True),)
SCHEMA = TableSchema(
    "d", "t", (Column("id", ColumnType("int")), Column("v", ColumnType("varchar"))), KEY
)


def test_lines_with_bytes_that_are_not_utf8_have_a_place_by_their_key() -> None:
    rows = [{"id": "10", "v": "a"}, {"id": "9", "v": "\udcff"}, {"id": "-1", "v": None}]
    lines = [dump(row).encode() + b"\n" for row in rows]
    assert sort_by_key(lines, SCHEMA) == [lines[2], lines[1], lines[0]]
