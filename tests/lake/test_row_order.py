"""Rows for people are in the order of their key: in this process, and as Spark sorts them."""

from pyspark.sql import SparkSession

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.rows.lines import sort_by_key
from ticdc_assets.views.large_tables import format_lines

COLUMNS = (
    Column("note", ColumnType("varchar", length=20)),
    Column("Part", ColumnType("decimal", length=5, decimals=2), nullable=False),
    Column("id", ColumnType("bigint", unsigned=True), nullable=False),
    Column("code", ColumnType("varchar", length=20), nullable=False),
)
KEY = Index("PRIMARY", ("id", "part", "code"), unique=True, primary=True)
IN_ORDER = [
    ("9", "1.00", "x"),
    ("10", "-2.50", "x"),
    ("10", "-0.50", "x"),
    ("10", "9.00", "x"),
    ("10", "10.00", "10"),
    ("10", "10.00", "9"),
    ("10", "10.00", "é"),
    ("18446744073709551615", "0.00", "x"),
]


def make_lines() -> list[bytes]:
    rows = ({"note": "n", "Part": part, "id": id, "code": code} for id, part, code in IN_ORDER)
    return [dump(row).encode() + b"\n" for row in rows]


def test_numbers_of_a_key_are_in_the_order_of_numbers(spark: SparkSession) -> None:
    schema = TableSchema("d", "t", COLUMNS, (KEY,))
    lines = make_lines()
    assert sort_by_key(sorted(lines), schema) == lines != sorted(lines)
    values = [f"('n', {part}BD, {id}BD, '{code}')" for id, part, code in sorted(IN_ORDER)]
    rows = spark.sql(
        "SELECT note, CAST(part AS decimal(5,2)) AS Part, CAST(id AS decimal(20,0)) AS id, code,"
        " CAST(NULL AS map<string, string>) AS _inexact"
        f" FROM VALUES {', '.join(values)} AS t(note, part, id, code)"
    )
    assert list(format_lines(rows.repartition(3), schema, by_key=True)) == lines


def test_without_a_key_rows_are_in_the_order_of_their_bytes() -> None:
    schema = TableSchema("d", "t", COLUMNS)
    assert sort_by_key(make_lines(), schema) == sorted(make_lines())
