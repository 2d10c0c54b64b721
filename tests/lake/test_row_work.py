import base64
import itertools
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.golden import find_folder, open_lines
from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, ColumnType, Partition, Partitioning, TableSchema
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.columns.conversion import (
    check_conversion,
    check_partitioning,
    convert_rows,
    format_mysql_lines,
    locate_partitions,
)
from ticdc_assets.lake.columns.reading import name_values, parse_images, type_columns
from ticdc_assets.lake.views.large_tables import format_lines
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.row import RowReader

BEGIN = 450000000000000000


def schema_of(**types: str) -> TableSchema:
    columns = tuple(Column(name, parse_type(text)) for name, text in types.items())
    return TableSchema("d", "t", columns)


def of_images(spark: SparkSession, images: list[str]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(images)), "at int, image string")


def true_columns() -> list[tuple[str, list[str | None], list[str | None]]]:
    """The golden truth by MySQL type: texts as images have them, and as MySQL prints them."""
    cells: dict[str, dict[str, str]] = {}
    for workload in ("types", "lifecycle", "random_1"):
        for line in open_lines(find_folder(workload) / "truth.jsonl"):
            for at, column in enumerate(line["columns"]):
                found = cells.setdefault(column["mysql_type"], {})
                for text in (row[at] for row in line["rows"] if row[at] is not None):
                    is_hex = column["enc"] == "hex"
                    found[base64.b64encode(bytes.fromhex(text)).decode() if is_hex else text] = text
    return [(type, list(found), list(found.values())) for type, found in cells.items() if found]


def test_every_true_value_survives_delta_and_printing(spark: SparkSession) -> None:
    columns = true_columns()
    assert len(columns) > 80
    schema = schema_of(**{f"c{i}": type for i, (type, _, _) in enumerate(columns)})
    names = [column.name for column in schema.columns]
    images = [
        dump(dict(zip(names, row, strict=True)))
        for row in itertools.zip_longest(*(texts for _, texts, _ in columns))
    ]
    printed = itertools.zip_longest(*(true for _, _, true in columns))
    lines = [dump(dict(zip(names, row, strict=True))) for row in printed]
    escaped = F.lit(False)
    image = parse_images(schema, F.col("image"), escaped)
    frame = of_images(spark, images).select(image.alias("p"))
    values = type_columns(schema, F.col("p"), escaped, member_names=True)
    current = frame.select(*name_values(values))
    stored = current.withColumn(INEXACT, F.map_from_entries(INEXACT)).repartition(3)
    found = list(format_lines(stored, schema, by_key=False))
    assert found == sorted(line.encode() + b"\n" for line in lines)


def test_vectors_are_printed_as_tidb_prints_them() -> None:
    schema = schema_of(v="vector")
    images = [dump({"v": v}) for v in ("[1.0, 2.5]", "[0.10000000149011612,1E20,-0.0]", "[]", None)]
    assert [load(line)["v"] for line in format_mysql_lines(images, schema)] == [
        "[1,2.5]",
        "[0.1,100000000000000000000,-0]",
        "[]",
        None,
    ]


BEFORE = schema_of(
    id="bigint", price="decimal(10,2)", bin="varbinary(8)", day="datetime(3)", e="enum('a','b')",
    f="float", bits="bit(8)", gone="int", s="set('x','y')",
)  # fmt: skip
STEPS: tuple[ColumnChange, ...] = (
    ColumnDropped("gone"),
    ColumnConverted("price", parse_type("decimal(10,2)"), parse_type("varchar(12)")),
    ColumnConverted("bin", parse_type("varbinary(8)"), parse_type("binary(4)")),
    ColumnConverted("day", parse_type("datetime(3)"), parse_type("date")),
    ColumnRenamed("e", "f2"),
    ColumnConverted("f2", parse_type("enum('a','b')"), parse_type("varchar(3)")),
    ColumnConverted("s", parse_type("set('x','y')"), parse_type("set('x','y','z')")),
    ColumnAdded(Column("gone", parse_type("binary(2)"), default="QQ==")),
    ColumnAdded(Column("n", parse_type("int"), nullable=False)),
)
AFTER = schema_of(
    id="bigint", price="varchar(12)", bin="binary(4)", day="date", f2="varchar(3)", f="float",
    bits="bit(8)", s="set('x','y','z')", gone="binary(2)", n="int",
)  # fmt: skip


def test_rows_go_through_steps_as_in_the_reference_model(spark: SparkSession) -> None:
    row: dict[str, Any] = {
        "id": "7", "price": "1.50", "bin": "AP8=", "day": "2024-01-31 23:59:59.600", "e": "b",
        "f": "0.1", "bits": "200", "gone": "1", "s": "x,y",
    }  # fmt: skip
    images = [dump(row), dump(dict.fromkeys(row) | {"id": "8"}), dump({"id": "9", "f": "1e+20"})]
    table = ModelTable(BEFORE)
    read = RowReader(BEFORE, member_names=True)
    for image in images:
        table.put(read(image))
    table.alter(AFTER, STEPS, BEGIN)

    frame = convert_rows(of_images(spark, images), "image", BEFORE, STEPS, BEGIN)
    assert frame.columns == ["at", "image", "problem"]
    rows = frame.sort("at").collect()
    assert [row.problem for row in rows] == [None] * 3
    lines = [
        line.encode() + b"\n" for line in format_mysql_lines([row.image for row in rows], AFTER)
    ]
    assert sorted(lines) == encode_rows(table)
    # Also as they are, the images say what the steps made.
    assert load(rows[0].image)["bin"] == base64.b64encode(b"\x00\xff\x00\x00").decode()


def test_rows_that_cannot_be_converted_say_why(spark: SparkSession) -> None:
    schema = schema_of(id="int", b="blob")
    steps = (ColumnConverted("b", parse_type("blob"), parse_type("text")),)
    images = [
        dump({"id": "1", "b": "YQ=="}),
        dump({"id": "2", "b": "/w=="}),
        dump({"id": "x"}),
        "{",
    ]
    rows = convert_rows(of_images(spark, images), "image", schema, steps, 1).sort("at").collect()
    assert [row.image for row in rows] == [dump({"id": "1", "b": "a"}), None, None, None]
    assert rows[0].problem is None
    assert rows[1].problem.startswith("column 'b': the bytes are not valid")
    assert rows[2].problem.startswith("column 'id': 'x' is not")
    assert rows[3].problem.startswith("row image")


@pytest.mark.parametrize(
    "step",
    [
        ColumnAdded(
            Column("j", ColumnType("varchar"), default="uuid()", default_is_expression=True)
        ),
        ColumnConverted("id", parse_type("date"), parse_type("bit(3)")),
        ColumnAdded(Column("g", ColumnType("geometry"))),
    ],
)  # fmt: skip
def test_an_impossible_conversion_fails_before_any_job(step: ColumnChange) -> None:
    with pytest.raises(InvalidValue):
        check_conversion(schema_of(id="int"), (step,), 1)


def test_rows_are_located_in_their_partitions(spark: SparkSession) -> None:
    schema = schema_of(id="int", name="varchar(10)")
    parts = (Partition("low", less_than=("10",)), Partition("p`2", less_than=("20",)))
    by = Partitioning("range", parts, expression="`id`")
    ids = ["9", "10", "20", None, "x"]
    rows = locate_partitions(
        of_images(spark, [dump({"id": i}) for i in ids]), "image", schema, by, DdlContext()
    )
    assert rows.columns == ["at", "image", "partition", "problem"]
    found = rows.sort("at").collect()
    assert [row.partition for row in found] == ["low", "p`2", None, "low", None]
    assert [row.problem is None for row in found] == [True, True, True, True, False]
    sleeping = Partitioning("range", parts, expression="sleep(id)")
    with pytest.raises(UnsupportedDdl):
        check_partitioning(schema, sleeping, DdlContext())
