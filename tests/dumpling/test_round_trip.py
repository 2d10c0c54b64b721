"""What the exporter writes, the reader gives back: all types, dialects and compressions."""

import base64
import io
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pytest

from tests.dumpling.exporter import (
    FORMATTERS,
    Compression,
    ExportOptions,
    Row,
    compress,
    list_written,
)
from tests.truth import TrueTable, truth
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.path import ExportFile, parse_path
from ticdc_assets.dumpling.reader import Range, read_rows
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.schema.types.mysql_type import describe, parse_type

UTC = {"time_zone": "UTC"}
DIALECTS = {
    "sql": ExportOptions("sql", Dialect(**UTC)),
    "sql without escapes": ExportOptions("sql", Dialect(escape_backslash=False, **UTC)),
    "sql, complete": ExportOptions("sql", Dialect(**UTC), complete_insert=True),
    "csv": ExportOptions("csv", Dialect(**UTC)),
    "csv without escapes": ExportOptions("csv", Dialect(escape_backslash=False, **UTC)),
    "csv, LF": ExportOptions("csv", Dialect(terminator="\n", **UTC)),
    "csv without header": ExportOptions("csv", Dialect(has_header=False, **UTC)),
    "csv, hex": ExportOptions("csv", Dialect(binary="hex", **UTC)),
    "csv, base64": ExportOptions("csv", Dialect(binary="base64", **UTC)),
    "csv, other signs": ExportOptions(
        "csv", Dialect(separator="|+|", quote="'", null="NULL", escape_backslash=False, **UTC)
    ),
    "csv without quotes": ExportOptions("csv", Dialect(separator="\t", quote="", **UTC)),
    "parquet": ExportOptions("parquet", Dialect(**UTC)),
}


def read(
    content: bytes,
    file: ExportFile,
    schema: TableSchema,
    dialect: Dialect,
    parts: Sequence[Range] = (Range(),),
) -> list[pa.RecordBatch]:
    return list(
        chain.from_iterable(
            read_rows(io.BytesIO(content), file, schema, dialect, part) for part in parts
        )
    )


def texts_of(batches: Sequence[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        for row in batch.to_pylist():
            assert row["problem"] is None, row
            texts = [text for name, text in row.items() if name.startswith("c")]
            assert not row["escaped"]
            yield texts


def schema_of(true: TrueTable) -> TableSchema:
    columns = [
        Column(c["name"], parse_type(c["mysql_type"]), c["nullable"], generated=_stored(c))
        for c in true.columns
    ]
    return TableSchema(true.database, true.table, tuple(columns))


def _stored(column: dict[str, object]) -> str | None:
    return "stored" if column.get("generated") == "STORED" else None


def images_of(true: TrueTable) -> list[Row]:
    """The rows in the convention of row images, with names of members: bytes in base64."""
    encodings = [c["enc"] for c in true.columns]
    return [
        [
            base64.b64encode(bytes.fromhex(t)).decode() if t is not None and e == "hex" else t
            for t, e in zip(row, encodings, strict=True)
        ]
        for row in true.rows
    ]


def golden_tables() -> list[tuple[TableSchema, list[Row]]]:
    points = truth("types")
    return [(schema_of(t), images_of(t)) for t in points[max(points)].values()]


def keeps_moments(text: str | None, column: Column) -> str | None:
    """A value as Parquet can hold it."""
    if text is None or column.type.name not in ("datetime", "timestamp"):
        return text
    if text.startswith("0000") or "-00" in text:
        return None
    return text if "." in text else f"{text}.000000"


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        (name, compression)
        for name, options in DIALECTS.items()
        for compression in ("", ".gz", ".snappy", ".zst")
        # Parquet compresses pages, not files.
        if not (compression and options.format == "parquet")
    ],
)
def test_golden_rows_come_back(name: str, compression: Compression) -> None:
    options = DIALECTS[name]
    for schema, rows in golden_tables():
        content = compress(FORMATTERS[options.format](schema, rows, options), compression)
        file = parse_path(f"db.t.000000000.{options.format}{compression}")
        assert file is not None
        got = list(texts_of(read(content, file, schema, options.dialect)))
        if options.format != "parquet":
            assert got == [list(row) for row in rows], schema.table
        else:
            compare_numbers(got, rows, list_written(schema))


def compare_numbers(got: Sequence[Row], rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Compare with what Parquet holds: numbers and moments have other texts."""
    assert len(got) == len(rows)
    for mine, theirs in zip(got, rows, strict=True):
        for text, true, column in zip(mine, theirs, columns, strict=True):
            kind = describe(column.type).kind
            if text is not None and true is not None and kind in ("float", "integer", "decimal"):
                assert float(text) == float(true)
            elif column.type.name in ("datetime", "timestamp") and true is not None:
                expected = keeps_moments(true, column)
                assert (text or "")[:23] == (expected or "")[:23]
            else:
                assert text == true, column
