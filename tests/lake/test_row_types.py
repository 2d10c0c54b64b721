"""Spark types every text as the Python reader does, and never raises."""

import json
import random
from calendar import monthrange
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.lake.texts import CASES, TEXTS, UNKNOWN
from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.columns.escaped_text import has_undecodable_text, may_be_undecodable
from ticdc_assets.lake.columns.reading import (
    TypedColumn,
    has_unknown_columns,
    is_malformed,
    name_values,
    parse_images,
    type_columns,
)
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.rows.columns import format_mysql_type, list_delta_columns
from ticdc_assets.schema.types.mysql_type import describe, parse_type
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import write_value


def table(types: Sequence[ColumnType], database: str = "d", name: str = "t") -> TableSchema:
    return TableSchema(database, name, tuple(Column(f"c{i}", t) for i, t in enumerate(types)))


TYPES = [*map(parse_type, CASES), *map(ColumnType, UNKNOWN)]
COLUMNS = [*CASES.values(), *UNKNOWN.values()]


def images(columns: Sequence[Sequence[str | None]]) -> list[str]:
    """Make rows of which the n-th holds the n-th text of every column."""
    rows = max(map(len, columns))
    return [
        dump({f"c{i}": texts[n] if n < len(texts) else None for i, texts in enumerate(columns)})
        for n in range(rows)
    ]


def make_images(spark: SparkSession, texts: Sequence[str | None]) -> DataFrame:
    images = spark.createDataFrame(list(enumerate(texts)), "at int, image string")
    return images.withColumn("escaped", has_undecodable_text(F.col("image")))


def parse(frame: DataFrame, schema: TableSchema, *, may_escape: bool = True) -> DataFrame:
    image = parse_images(schema, F.col("image"), F.col("escaped") if may_escape else None)
    return frame.select("at", "image", "escaped", image.alias("p"))


def type_all(
    schema: TableSchema, *, member_names: bool, may_escape: bool = True
) -> list[TypedColumn]:
    escaped = F.col("escaped") if may_escape else None
    return type_columns(schema, F.col("p"), escaped, member_names=member_names)


def round_trip(
    spark: SparkSession,
    schema: TableSchema,
    rows: Sequence[str],
    *,
    member_names: bool,
    may_escape: bool = True,
) -> Iterator[tuple[dict[str, Any], dict[str, bool], dict[str, bool]]]:
    """Type images and write them back: yield the image, the invalid and the inexact columns."""
    columns = type_all(schema, member_names=member_names, may_escape=may_escape)
    frame = parse(make_images(spark, rows), schema, may_escape=may_escape).select(
        "at",
        *name_values(columns),
        F.array(*(column.invalid for column in columns)).alias("invalid!"),
        F.array(
            *(F.lit(False) if column.inexact is None else column.inexact for column in columns)
        ).alias("inexact!"),
    )
    found = dict(frame.dtypes[1:-3])
    assert found == {delta.name: delta.type for delta in list_delta_columns(schema)}
    names = [column.name for column in columns]
    written = frame.select("at", write_images(schema).alias("image"), "invalid!", "inexact!")
    for row in sorted(written.collect()):
        yield (
            load(row[1]),
            dict(zip(names, row[2], strict=True)),
            dict(zip(names, row[3], strict=True)),
        )


def is_day(text: str) -> bool:
    """Return whether the date exists, in the year 0 too."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    return month >= 1 and 1 <= day <= monthrange(year or 2000, month)[1]


def expected(text: str | None, type: ColumnType, member_names: bool) -> tuple[str | None, str]:
    """Return what MySQL prints, by the Python reader and writer, and the problem if any."""
    try:
        printed = write_value(read_value(text, type, member_names=member_names), type)
    except InvalidValue:
        return None, "invalid"
    if printed is None or text is None:
        return None, ""
    kind = describe(type).kind
    if kind == "binary" and (len(text) % 4 or text.endswith("===")):
        # Python accepts padding after complete groups.
        return None, "invalid"
    if "|" in text and kind == "datetime":
        # One of two moments: the first.
        return expected(printed, type, member_names)[0], "inexact"
    if kind in ("date", "datetime"):
        if not is_day(printed):
            return printed, "inexact"
        if "." in printed:
            printed = printed.rstrip("0").rstrip(".")
        if type.decimals:
            whole, _, fraction = printed.partition(".")
            printed = f"{whole}.{fraction.ljust(type.decimals, '0')}"
    if any("\ud800" <= char <= "\udfff" for char in printed):
        return printed, "inexact"
    if kind == "vector":
        printed = str([read_value(part, ColumnType("float")) for part in elements(printed)])
    return printed, ""


def may_escape(image: str) -> bool:
    return may_be_undecodable(pa.chunked_array([[image]]))


def elements(vector: str) -> list[str]:
    inner = vector[1:-1]
    return [part.strip() for part in inner.split(",")] if inner.strip() else []


def compare_with_reader(
    spark: SparkSession, columns: Sequence[Sequence[str]], *, member_names: bool
) -> None:
    schema = table(TYPES)
    rows = images(columns)
    results = [*round_trip(spark, schema, rows, member_names=member_names)]
    pairs = zip(rows, results, strict=True)
    plain = {row: result for row, result in pairs if not may_escape(row)}
    same = round_trip(spark, schema, [*plain], member_names=member_names, may_escape=False)
    assert [*same] == [*plain.values()]
    wrong = []
    for row, (back, invalid, inexact) in zip(rows, results, strict=True):
        for name, text in load(row).items():
            column = schema.column(name)
            assert column is not None
            printed, unreadable = expected(back[name], column.type, True)
            problem = "invalid" if invalid[name] else "inexact" if inexact[name] else unreadable
            want = expected(text, column.type, member_names)
            if (printed, problem) != want:
                wrong.append((format_mysql_type(column.type)[:40], text, back[name], problem, want))
    assert not wrong, f"{len(wrong)}: " + "\n".join(str(case)[:300] for case in wrong[:40])


@pytest.mark.parametrize("member_names", [False, True])
def test_every_text_is_typed_as_the_reader_types_it(
    spark: SparkSession, member_names: bool
) -> None:
    compare_with_reader(spark, COLUMNS, member_names=member_names)


ALPHABET = "0123456789+-.eE: \n,=abAB[]/xnf\t\u00a0é１\\\udc80\udcff\ud812"


def mutate(texts: Sequence[str], rng: random.Random, count: int) -> list[str]:
    """Insert, delete or replace a few letters of each text."""
    made = []
    for _ in range(count):
        letters = list(rng.choice(texts))
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            at = rng.randrange(len(letters) + 1)
            letters[at : at + rng.randrange(2)] = rng.choice(("", rng.choice(ALPHABET)))
        made.append("".join(letters))
    return made


@settings(max_examples=2)
@given(seed=st.integers(0, 1 << 32), member_names=st.booleans())
def test_almost_correct_texts_are_typed_as_the_reader_types_them(
    spark: SparkSession, seed: int, member_names: bool
) -> None:
    rng = random.Random(seed)
    columns = [mutate(texts, rng, 300) for texts in COLUMNS]
    compare_with_reader(spark, columns, member_names=member_names)


ODD_NAMES = (
    "a",
    "B",
    "a b.c,d;e",
    "x`y",
    "select",
    'q"uote',
    "日本",
    "_commit_ts",
    "σ",
    "ς",
    "İ",
    "back\\slash",
)
ODD = TableSchema("d", "t", (
    *(Column(name, ColumnType("varchar")) for name in ODD_NAMES),
    Column("Virtual", ColumnType("int"), generated="virtual"),
))  # fmt: skip


def test_odd_names_are_found(spark: SparkSession) -> None:
    row = {name: f"is {name}" for name in ODD_NAMES}
    some = {"日本": None, "İ": "x"}
    bytes_too = {**row, "back\\slash": "\udce9\\", "a": "\\"}
    texts = [dump(row), dump(some), "{}", dump(bytes_too)]
    frame = parse(make_images(spark, texts), ODD)
    frame = frame.select("at", *name_values(type_all(ODD, member_names=True)))
    written = frame.select("at", write_images(ODD).alias("image")).sort("at").collect()
    empty: dict[str, str | None] = dict.fromkeys(ODD_NAMES)
    wanted = [row, empty | some, empty, bytes_too]
    assert [json.loads(line[1]) for line in written] == wanted


def test_columns_that_the_schema_lacks_are_found(spark: SparkSession) -> None:
    cases = {
        "{}": False,
        '{"a": "1"}': False,
        '{"A": null, "Virtual": "1"}': True,
        '{"a": null, "Virtual": "1"}': False,
        '{"a": "1", "c": null}': True,
        '{"Σ": "1"}': True,
        '{"σ": "1"}': False,
        '{"\\u0061": "1"}': False,
        '{"": "1"}': True,
        '{"ab": {"a": "1"}}': True,
    }
    frame = make_images(spark, list(cases)).sort("at")
    found = frame.select(has_unknown_columns(ODD, F.col("image"))).collect()
    assert [row[0] for row in found] == list(cases.values())


BROKEN = [
    *("", " ", "null", "[]", "1", '"a"', "{", "}", "{}", " {} ", "{}x", "{}{}", "{} {}"),
    *("[{}]", "{{}}"),
    *('{"a":"1"}', '{ "a" : "1" , "b" : null }', '{"a":1}', '{"a":true}', '{"a":false}'),
    *('{"a":{}}',),
    *('{"a":[]}', '{"a": -1.5e3 }', '{"a":"1",}', '{"a":"1" "b":"2"}', '{"a":"1"}x', '{"a":null}]'),
    *('[{"a":"1"}]', "{'a':'1'}", '{a:"1"}', '{"a":nul}', '{"a":nan}', '{"a":NaN}', '{"a":"1'),
    *('{"a":"\n"}',),
    *('{"a":":5"}', '{"a":"\\":5"}', '{"a":"\\"}x"}', '{":5":"x"}', '{"a\\\\":5}', '{"a\\"":"5"}'),
    *('{"a":"{\\"x\\": 5}"}', '{"a":"1"}{"a":"1"}', '{"a":"1"} , null', '{"a":"1"}\n'),
    *('{"a":"1","a":2}',),
    *('{"a":"\\ud83d\\ude00"}', '{"a":"\\udc80"}', '{"a":"\\x"}', '{"a"}', '{:"1"}'),
    *('{"a"::"1"}', '{,}'),
    *('/* */{"a":"1"}', '{"a":"1"}//', '\ufeff{"a":"1"}', '{"a":"null}x"}', '{"zz":5}'),
    *('{"zz":null}', "{}}"),
    *('{"a":null,"b":"x\\\\"}', '{"a":"\\\\\\\\","b":1}', '{"a":"}"}', '{"a":"\x7f"}'),
    *('{"a":"\\u0000"}',),
]  # fmt: skip


def is_image(text: str) -> bool:
    try:
        load(text)
    except MalformedMessage:
        return False
    return True


def test_malformed_images_are_recognised_and_raise_nothing(spark: SparkSession) -> None:
    rng = random.Random(7)
    letters = '{}[]:," \\nul1atrue\n'
    texts = [*BROKEN, *(dump({"a": text, "b": None}) for text in TEXTS)]
    for _ in range(1500):
        text = list(rng.choice(texts[:120]))
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.randrange(2)] = rng.choice((rng.choice(letters), ""))
        texts.append("".join(text))
    schema = TableSchema("d", "t", (Column("a", ColumnType("int")), Column("b", ColumnType("set"))))
    frame = parse(make_images(spark, [*texts, None]), schema)
    columns = type_all(schema, member_names=False)
    found = frame.sort("at").select(
        is_malformed(F.col("image"), F.col("p")).alias("bad"),
        *(column.value for column in columns),
        *(column.invalid for column in columns),
    )
    bad = [row.bad for row in found.collect()]
    assert bad.pop() is False
    wrong = [text for text, is_bad in zip(texts, bad, strict=True) if is_bad == is_image(text)]
    assert wrong == []
    assert 100 < sum(bad) < len(bad) - 100


def test_bytes_that_are_not_utf8_are_found(spark: SparkSession) -> None:
    texts = [
        {"a": text} for text in (*TEXTS, "\udc80", "a\udcff", "😀\udc80😀", "\\udc80", "\\\udc80")
    ]
    found = (
        make_images(spark, list(map(dump, texts)))
        .sort("at")
        .select(has_undecodable_text(F.col("image")))
    )
    lone = [any("\ud800" <= char <= "\udfff" for char in row["a"]) for row in texts]
    assert [row[0] for row in found.collect()] == lone
    assert all(may_escape(dump(row)) for row, is_bad in zip(texts, lone, strict=True) if is_bad)


def test_the_longest_texts_are_read(spark: SparkSession) -> None:
    schema = TableSchema("d", "t", (Column("a", ColumnType("longtext")),))
    text = F.concat(F.lit('{"a":"'), F.repeat(F.lit("x"), F.lit(21_000_000)), F.lit('"}'))
    frame = (
        spark.range(1)
        .select(text.alias("image"), F.lit(False).alias("escaped"))
        .withColumn("p", parse_images(schema, F.col("image"), F.col("escaped")))
    )
    (value,) = type_all(schema, member_names=False)
    row = frame.select(
        F.length(value.value).alias("length"),
        is_malformed(F.col("image"), F.col("p")).alias("bad"),
        has_undecodable_text(F.col("image")).alias("broken"),
        has_unknown_columns(schema, F.col("image")).alias("unknown"),
    ).head()  # fmt: skip
    assert row is not None
    assert tuple(row) == (21_000_000, False, False, False)


def test_the_time_zone_of_the_session_has_no_effect(spark: SparkSession) -> None:
    schema = table([parse_type("timestamp(6)"), parse_type("datetime(6)")])
    moments = [
        "2021-10-31 01:30:00.000001",
        "2024-03-10 02:30:00.120000",
        "1970-01-01 00:00:01.000000",
    ]
    rows = images([moments, moments])
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        back = [row for row, _, _ in round_trip(spark, schema, rows, member_names=False)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert back == [load(row) for row in rows]
