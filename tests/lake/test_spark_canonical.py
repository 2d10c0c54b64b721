"""The canonical texts and hashes that Spark computes are those of the pure module."""

import base64
import re

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake.canal import FEED
from tests.lake.upstream_copy import type_images
from tests.rows.texts import CASES
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, list_delta_columns
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value_reader import make_reader
from ticdc_assets.schema.types.value_writer import make_writer
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.verify.canonical import ComparedColumn, hash_values, make_canonical
from ticdc_assets.verify.lake_hashes import write_canonical, write_hash
from ticdc_assets.verify.side import ALL_HASHES, Comparison, Entry, Side, Span, Texts
from ticdc_assets.verify.small_lake import SmallLakeSide
from ticdc_assets.verify.spark_lake import SparkLakeSide
from ticdc_assets.views.large_tables import make_frame


def test_spark_computes_the_texts_and_the_hash_that_we_compute(spark: SparkSession) -> None:
    """Of every text of every type, those that no server may write included."""
    chosen = [declared for declared in CASES if "vector" not in declared]
    types = [parse_type(declared) for declared in chosen]
    columns = tuple(Column(f"c{number}", type) for number, type in enumerate(types))
    schema = TableSchema("d", "t", columns)
    texts = [
        [text for text in CASES[declared] if is_valid(text, type)]
        for declared, type in zip(chosen, types, strict=True)
    ]
    count = max(map(len, texts))
    images = [
        {
            c.name: column[n] if n < len(column) else None
            for c, column in zip(columns, texts, strict=True)
        }
        for n in range(count)
    ]
    compared = [
        ComparedColumn(c.name, c.type, delta, c.type)
        for c, delta in zip(columns, list_delta_columns(schema), strict=True)
    ]
    typed = Rows(type_images(images, schema), pa.array(range(count), pa.int64()))
    lake = LakeSession(spark, Lake("nowhere", "f"), FEED)
    selected = [write_canonical(c).alias(c.name) for c in compared]
    frame = make_frame(lake, typed, Incarnation(id="d.t-1", schema=schema, created_ts=1)).orderBy(
        COMMIT_TS
    )
    found = frame.select(*selected, write_hash(compared).alias("hash")).collect()

    assert len(found) == count
    for image, row in zip(images, found, strict=True):
        expected = [canonical_of(image[c.name], c.type) for c in compared]
        assert [None if value is None else bytes(value) for value in row[:-1]] == expected
        assert row["hash"] == hash_values(expected, compared)


def canonical_of(text: str | None, type: ColumnType) -> bytes | None:
    if text is not None and type.name == "timestamp" and EITHER in text:
        # Only the lake's map has both moments.
        return make_canonical(text, type)
    return make_canonical(make_writer(type)(make_reader(type, member_names=True)(text)), type)


def is_valid(text: str, type: ColumnType) -> bool:
    try:
        value = make_reader(type, member_names=True)(text)
    except InvalidValue:
        return False
    if isinstance(value, bytes) and base64.b64encode(value).decode() != text:
        # The pure reader accepts more padding than others do.
        return False
    # Other lone surrogates stand for no byte.
    return not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


@pytest.mark.parametrize(
    "declared", [pytest.param("bigint", marks=pytest.mark.all_cases), "bigint unsigned"]
)
def test_spark_sums_up_the_spans_that_we_sum_up(spark: SparkSession, declared: str) -> None:
    """Wherever the spans begin and end, whatever their parts: beyond BIGINT, too."""
    type = parse_type(declared)
    low, high = (0, 1 << 64) if type.unsigned else (-(1 << 63), 1 << 63)
    columns = (Column("id", type, nullable=False),)
    (delta,) = list_delta_columns(TableSchema("d", "t", columns))
    key = ComparedColumn("id", type, delta, type)
    comparison = Comparison("d", "t", (key,), (key,), key)
    ids = sorted({low, low + 1, 0, 1, 2, 5, 1 << 40, high - 2, high - 1, *range(100, 140)})
    made = spark.createDataFrame([(str(id),) for id in ids], "id string")
    none = f"CAST(NULL AS map<string, string>) {INEXACT}"
    frame = made.selectExpr(f"CAST(id AS {delta.type}) id", none)
    ours = SmallLakeSide([(str(id).encode(),) for id in ids], comparison)
    theirs = SparkLakeSide(frame, comparison)
    for spans in (
        [Span(low, high)],
        [Span(low, 1), Span(1, 100), Span(100, 120), Span(130, high)],
        [Span(2, 5)],
    ):
        for parts in (1, 2, 512):
            assert dict(theirs.sum_parts(spans, parts)) == dict(ours.sum_parts(spans, parts))
        assert sorted(theirs.list_entries(spans)) == sorted(ours.list_entries(spans))
    assert sorted(theirs.read_rows([low, 1, 7])) == sorted(ours.read_rows([low, 1, 7]))


@pytest.mark.parametrize("kind", ["in this process", "with Spark"])
def test_equal_rows_of_a_table_without_a_key_are_listed_once(
    request: pytest.FixtureRequest, kind: str
) -> None:
    types = {"a": parse_type("int"), "b": parse_type("varchar(9)")}
    columns = tuple(Column(name, type) for name, type in types.items())
    deltas = list_delta_columns(TableSchema("d", "t", columns))
    compared = tuple(
        ComparedColumn(c.name, c.type, delta, c.type)
        for c, delta in zip(columns, deltas, strict=True)
    )
    comparison = Comparison("d", "t", compared, (), None)
    counts: dict[Texts, int] = {(b"1", b"x"): 3000, (b"2", None): 1, (None, None): 2}
    side: Side
    if kind == "with Spark":
        none = f"CAST(NULL AS map<string, string>) {INEXACT}"
        rows = [
            (None if a is None else int(a), b and b.decode(), n) for (a, b), n in counts.items()
        ]
        made = request.getfixturevalue("spark").createDataFrame(rows, "a int, b string, n int")
        repeated = made.selectExpr("a", "b", none, "explode(sequence(1, n)) one")
        side = SparkLakeSide(repeated.drop("one"), comparison)
    else:
        side = SmallLakeSide([row for row, n in counts.items() for _ in range(n)], comparison)

    entries = list(side.list_entries([ALL_HASHES]))
    places = {row: hash_values(row, compared) for row in counts}
    assert sorted(entries) == sorted(
        Entry(places[row], (), places[row], n) for row, n in counts.items()
    )
    chosen = [row for row in counts if row[0] is not None]
    found = list(side.read_rows([places[row] for row in chosen]))
    assert sorted(found) == sorted((places[row], row) for row in chosen)
