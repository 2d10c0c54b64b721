"""The fast path for CSV files of ordinary dialects: whole blocks, column by column.

`pyarrow.csv` is more lenient than the notation, so the reader proves every block: written again by
the rules of the dialect, the values must give the very bytes they were read from.  At the first
block that fails, the reader stops and `scanner` takes over.
"""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.protocols.csv.shape import Convert, Shape
from ticdc_assets.protocols.csv.written_rows import RowWriter, get_content

_BLOCK = 1 << 20
_CONTROLS = bytes(range(0x20))
# Stating the types: inferring them takes many times as long as the work on a small block.
_OPS = pa.array(["I", "U", "D"], pa.string())
_TRUE = pa.scalar(b"true", pa.binary())
_FALSE = pa.scalar(b"false", pa.binary())
_NO = pa.scalar(False, pa.bool_())


class Block(NamedTuple):
    """The records of a block as the columns of `batch.ROWS`, without their numbers."""

    columns: list[pa.Array]
    end: int


class _Disproof(Exception):
    """A block that does not, or not provably, follow the notation."""


class ColumnarReader:
    """Reads records of one shape, in the dialects that `serves` accepts."""

    def __init__(self, dialect: CsvDialect, shape: Shape, version: int) -> None:
        self._dialect = dialect
        self._shape = shape
        self._version = version
        self._quote = dialect.quote.encode()
        self._null = dialect.null.encode()
        quoted = [True] * shape.width
        if shape.commit_ts is not None:
            quoted[shape.commit_ts] = False
        if shape.is_update is not None:
            quoted[shape.is_update] = False
        quoted[shape.first :] = [field.quoted for field in shape.fields]
        self._quoted = quoted
        self._labels = [
            (b"," if place else b"{") + json.dumps(field.name).encode() + b":"
            for place, field in enumerate(shape.fields)
        ]

    @staticmethod
    def serves(dialect: CsvDialect) -> bool:
        return (
            len(dialect.quote) == len(dialect.delimiter) == 1
            and (dialect.quote + dialect.delimiter).isascii()
            and dialect.terminator in ("\r\n", "\n")
        )

    def blocks(self, data: bytes, start: int) -> Iterator[Block]:
        """Yield blocks for as long as each is proven exact."""
        source = pa.py_buffer(data)
        try:
            for table in self._open(source.slice(start)):
                if not table.num_rows:
                    continue
                end = start + self._prove(table, source, start)
                yield Block(self._columns(table, source, start, end), end)
                start = end
        except (pa.ArrowException, _Disproof, MalformedMessage, ValueError):
            return

    def _open(self, source: pa.Buffer) -> Iterator[pa.RecordBatch]:
        names = [str(place) for place in range(self._shape.width)]
        reader = arrow_csv.open_csv(
            source,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=_BLOCK, column_names=names
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._dialect.delimiter,
                quote_char=self._dialect.quote,
                newlines_in_values=True,
            ),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[self._dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return iter(reader)

    def _prove(self, table: pa.RecordBatch, source: pa.Buffer, start: int) -> int:
        """Write the block again and compare; return its length in bytes."""
        parts = RowWriter()
        for place, (column, quoted) in enumerate(zip(table.columns, self._quoted, strict=True)):
            if place:
                parts.literal(self._dialect.delimiter.encode())
            holds_quotes = self._quote in _content(column)
            if not quoted:
                if holds_quotes:
                    raise _Disproof
                parts.column(column)
                continue
            if holds_quotes:
                column = pc.replace_substring(column, self._quote, self._quote * 2)
            parts.wrapped(column, self._quote)
        parts.literal(self._dialect.terminator.encode())
        written = get_content(parts.join(self._null))
        if not written.equals(source.slice(start, written.size)):
            raise _Disproof
        return int(written.size)

    def _columns(
        self, table: pa.RecordBatch, source: pa.Buffer, start: int, end: int
    ) -> list[pa.Array]:
        shape, columns = self._shape, table.columns
        if any(column.null_count for column in columns[: shape.first]):
            raise _Disproof
        op = columns[0].cast(pa.string())
        if not pc.all(pc.is_in(op, _OPS)).as_py():
            raise _Disproof
        if shape.commit_ts is None:
            commit_ts = pa.repeat(pa.scalar(self._version, pa.int64()), len(op))
        else:
            commit_ts = _commit_ts(columns[shape.commit_ts])
        if shape.is_update is None:
            is_update = pa.repeat(_NO, len(op))
        else:
            flag = columns[shape.is_update]
            is_update = pc.equal(flag, _TRUE)
            if not pc.all(pc.or_(is_update, pc.equal(flag, _FALSE))).as_py():
                raise _Disproof
        line_ends = len(self._dialect.terminator) * len(op)
        block = source.slice(start, end - start).to_pybytes()
        has_controls = len(block) - len(block.translate(None, _CONTROLS)) != line_ends
        return [
            op,
            columns[2].cast(pa.string()),
            columns[1].cast(pa.string()),
            commit_ts,
            is_update,
            self._images(columns[shape.first :], has_controls),
        ]

    def _images(self, columns: Sequence[pa.Array], has_controls: bool) -> pa.Array:
        """Return the row images as JSON."""
        parts = RowWriter()
        for label, field, column in zip(self._labels, self._shape.fields, columns, strict=True):
            parts.literal(label)
            if field.convert is not None:
                column = _convert_column(column, field.convert)
            parts.wrapped(_escape(column, has_controls), b'"')
        parts.literal(b"}")
        # The cast checks that it is UTF-8.
        return parts.join(b"null").cast(pa.string())


def _commit_ts(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    # Arrow also accepts signs and hexadecimal digits.
    if not pc.all(pc.ascii_is_decimal(text)).as_py() or pc.max(pc.binary_length(text)).as_py() > 19:
        raise _Disproof
    return text.cast(pa.int64())


def _convert_column(column: pa.Array, convert: Convert) -> pa.Array:
    values = [None if value is None else convert(value) for value in column.to_pylist()]
    return pa.array(values, pa.binary())


def _escape(column: pa.Array, has_controls: bool) -> pa.Array:
    content = _content(column)
    for special in (b"\\", b'"'):
        if special in content:
            column = pc.replace_substring(column, special, b"\\" + special)
    if has_controls:
        for control in _CONTROLS:
            if control in content:
                column = pc.replace_substring(column, bytes([control]), b"\\u%04x" % control)
    return column


def _content(column: pa.Array) -> bytes:
    content: bytes = get_content(column).to_pybytes()
    return content
