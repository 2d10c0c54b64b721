"""Any values in any dialect come back, by the fast path and by the scanners alike."""

import base64
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dumpling.exporter import FORMATTERS, ExportOptions, Row
from tests.dumpling.test_round_trip import DIALECTS, read
from ticdc_assets.dumpling import columnar, sql_reader
from ticdc_assets.dumpling.path import parse_path
from ticdc_assets.dumpling.reader import Range
from ticdc_assets.dumpling.rows import RowAdder
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.escaped_text import unescape_text

SCHEMA = TableSchema(
    "d",
    "t",
    (
        Column("i", ColumnType("bigint")),
        Column("t", ColumnType("text", charset="utf8mb4")),
        Column("b", ColumnType("varbinary", length=99)),
        Column("n", ColumnType("decimal", length=10, decimals=2)),
        Column("bit", ColumnType("bit", length=16)),
        Column("last", ColumnType("varchar", length=99, charset="utf8mb4")),
    ),
)
# Many dialects: enough examples in all.
few = settings(max_examples=20)
# Signs of the notations, and anything else.
SIGNS = st.sampled_from([*"'\"\\,|+\r\n\0\t();xN", "\\N", "NULL", "),\n(", ");\n", "\x1a", "\x02"])
TEXTS = st.lists(SIGNS | st.text(max_size=3)).map("".join)
BAD_TEXTS = st.binary(max_size=6).map(lambda b: b.decode("utf-8", "surrogateescape"))
BYTES = st.binary(max_size=8).map(lambda b: base64.b64encode(b).decode())
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1).map(str)
DECIMALS = st.decimals("-9999", "9999", places=2).map(str)
BITS = st.integers(0, (1 << 16) - 1).map(str)


@pytest.fixture(autouse=True, scope="module")
def any_block() -> Iterator[None]:
    """Read blocks of a few rows as large ones are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_reader, "LEAST_BLOCK", 0)
        yield


def rows_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Row]]:
    columns = (NUMBERS, texts, BYTES, DECIMALS, BITS, texts)
    return st.lists(st.tuples(*(st.none() | values for values in columns)), min_size=1, max_size=12)


def read_back(content: bytes, options: ExportOptions, *parts: Range) -> list[Row]:
    file = parse_path(f"d.t.0.{options.format}")
    assert file is not None
    found = []
    for batch in read(content, file, SCHEMA, options.dialect, parts or (Range(),)):
        for row in batch.to_pylist():
            assert row["problem"] is None, row
            texts = [row[f"c{place}"] for place in range(len(SCHEMA.columns))]
            if row["escaped"]:
                texts = [None if text is None else unescape_text(text) for text in texts]
            found.append(tuple(texts))
    return found


TEXT_DIALECTS = [name for name in DIALECTS if name != "parquet"]


@pytest.mark.parametrize("name", TEXT_DIALECTS)
@few
@given(rows=rows_of(TEXTS | BAD_TEXTS))
def test_any_rows_come_back(name: str, rows: list[Row]) -> None:
    options = DIALECTS[name]
    content = FORMATTERS[options.format](SCHEMA, rows, options)

    assert read_back(content, options) == rows


@pytest.mark.parametrize("name", TEXT_DIALECTS)
@few
@given(rows=rows_of(TEXTS))
def test_scanners_read_what_the_fast_path_reads(name: str, rows: list[Row]) -> None:
    options = DIALECTS[name]
    content = FORMATTERS[options.format](SCHEMA, rows, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar.ColumnarReader, "read", disprove)

        assert read_back(content, options) == rows


def disprove(*_: object) -> pa.RecordBatch:
    raise columnar.Disproof


def test_ordinary_blocks_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above compare the scanners with themselves."""
    scanned: list[object] = []
    monkeypatch.setattr(RowAdder, "add", lambda *a: scanned.append(a))
    rows: list[Row] = [("1", "a'\"\\\n\0", "AAE=", "-1.50", "7", None)] * 50
    for name in ("sql", "sql without escapes", "sql, complete", "csv", "csv, hex", "csv, base64"):
        options = DIALECTS[name]
        content = FORMATTERS[options.format](SCHEMA, rows, options)
        assert read_back(content, options) == rows, name
    assert scanned == []


@pytest.mark.parametrize("name", ["sql", "csv", "csv without header", "csv without quotes"])
@few
@given(
    rows=rows_of(TEXTS),
    cuts=st.lists(st.integers(0, 600), max_size=4).map(sorted),
)
def test_parts_of_a_file_have_each_row_once(
    name: str, rows: list[Row], cuts: Sequence[int]
) -> None:
    options = DIALECTS[name]
    content = FORMATTERS[options.format](SCHEMA, rows, options)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(content))})
    parts = [Range(a, b) for a, b in zip(bounds, [*bounds[1:], None], strict=True)]

    assert read_back(content, options, *parts) == rows


@pytest.mark.parametrize("name", ["sql", "csv", "csv without escapes"])
@few
@given(rows=rows_of(TEXTS))
def test_an_offset_is_where_the_row_starts(name: str, rows: list[Row]) -> None:
    options = DIALECTS[name]
    content = FORMATTERS[options.format](SCHEMA, rows, options)
    file = parse_path(f"d.t.0.{options.format}")
    assert file is not None
    offsets = [
        row["offset"]
        for batch in read(content, file, SCHEMA, options.dialect)
        for row in batch.to_pylist()
    ]
    for offset, row in zip(offsets, rows, strict=True):
        alone = FORMATTERS[options.format](SCHEMA, [row], options)
        if options.format == "sql":
            alone = alone[alone.index(b"VALUES\n") + len(b"VALUES\n") : -len(b";\n")]
        else:
            alone = alone[len(FORMATTERS["csv"](SCHEMA, [], options)) :]
        assert content.startswith(alone, offset)


@pytest.mark.parametrize("name", ["sql", "csv"])
def test_numbers_that_the_driver_takes_for_texts_are_read_fast(name: str) -> None:
    """An older driver does not know `UNSIGNED BIGINT`, so Dumpling quotes the values."""
    base = DIALECTS[name]
    options = ExportOptions(base.format, base.dialect, quoted_types=frozenset({"bigint"}))
    rows: list[Row] = [(str(n), "x", None, None, None, "y") for n in range(50)]
    content = FORMATTERS[options.format](SCHEMA, rows, options)

    assert read_back(content, options) == rows
