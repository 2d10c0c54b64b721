"""The batches that all readers yield: the texts of rows, column by column.

A batch has `offset`, where the row starts in the decompressed file (in a Parquet file: the number
of the row, from 0); `problem`, why it is no row, and then `raw`, its bytes; `escaped`; and the
texts of the table's stored columns as `c0`, `c1`, ….  In a row with bytes that are not UTF-8, all
texts are `escaped`, as `events.escaped_text` does.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, a2b_hex, b2a_base64
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from ticdc_assets.dumpling.dialect import Dialect, open_zone
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.escaped_text import escape_text
from ticdc_assets.protocols.timestamp import to_utc
from ticdc_assets.schema.types.mysql_type import Kind, describe

OWN_FIELDS = ("offset", "problem", "raw", "escaped")
_MAX_ROWS = 10_000
_MAX_BYTES = 8 << 20
_MAX_RAW = 1 << 20
_MAX_REASON = 300
_MOST_BITS = 64

Convert = Callable[[bytes], str]


def make_batch_schema(width: int) -> pa.Schema:
    """Return the columns of the batches of a table."""
    texts = [(f"c{place}", pa.string()) for place in range(width)]
    types = (pa.int64(), pa.string(), pa.binary(), pa.bool_())
    return pa.schema([*zip(OWN_FIELDS, types, strict=True), *texts])


def list_stored(schema: TableSchema) -> list[Column]:
    """List the columns that a current table has."""
    return [column for column in schema.columns if column.generated != "virtual"]


def get_kind(column: Column) -> Kind:
    """Return the kind of a column's type; raise `InvalidValue` for an unknown type."""
    return describe(column.type).kind


class Converter:
    """Turns the bytes of a column into texts of row images."""

    def __init__(self, column: Column, dialect: Dialect, *, encoded: bool) -> None:
        """`encoded`: binary values are written as the dialect says."""
        self.kind = get_kind(column)
        self._encoding = dialect.binary if encoded else "utf8"
        self.zone: ZoneInfo | None = None
        if column.type.name == "timestamp" and dialect.time_zone is not None:
            self.zone = open_zone(dialect.time_zone)
        # Whether the text is what the bytes are.
        self.is_plain = self.kind not in ("binary", "bit") and self.zone in (None, ZoneInfo("UTC"))

    def __call__(self, value: bytes) -> str:
        """Convert one value; raise `MalformedMessage`."""
        if self.kind == "binary":
            return b2a_base64(self._decode(value), newline=False).decode("ascii")
        if self.kind == "bit":
            return self._read_bits(value)
        text = value.decode("utf-8", "surrogateescape")
        return text if self.zone is None else to_utc(text, self.zone)

    def _read_bits(self, value: bytes) -> str:
        content = self._decode(value)
        if len(content) * 8 > _MOST_BITS:
            raise MalformedMessage(f"a BIT of {len(content)} bytes")
        return str(int.from_bytes(content, "big"))

    def _decode(self, value: bytes) -> bytes:
        try:
            match self._encoding:
                case "hex":
                    return a2b_hex(value)
                case "base64":
                    return a2b_base64(value, strict_mode=True)
        except (Base64Error, ValueError) as error:
            raise MalformedMessage(f"{error}: is it of another --csv-output-dialect?") from None
        return value


class ScannedRow(NamedTuple):
    """The values of a row, None for NULL, and which have quotes; `end` is behind it."""

    values: list[bytes | None]
    quoted: list[bool]
    end: int
    problem: str | None = None


class BatchBuilder:
    """Collects rows, one by one, into batches of bounded size."""

    def __init__(self, width: int) -> None:
        self._schema = make_batch_schema(width)
        self._nothing = [None] * width
        self._rows: list[tuple[int, str | None, bytes | None, bool, Sequence[str | None]]] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= _MAX_ROWS or self._bytes >= _MAX_BYTES

    def add(self, offset: int, texts: Sequence[str | None]) -> None:
        """Add a row."""
        content = "".join(filter(None, texts))
        try:
            content.encode()
        except UnicodeEncodeError:
            texts = [None if text is None else escape_text(text) for text in texts]
            self._rows.append((offset, None, None, True, texts))
        else:
            self._rows.append((offset, None, None, False, texts))
        self._bytes += len(content)

    def add_problem(self, offset: int, reason: str, raw: bytes) -> None:
        """Add what is no row."""
        raw = bytes(raw[:_MAX_RAW])
        reason = reason.encode("utf-8", "backslashreplace").decode()[:_MAX_REASON]
        self._rows.append((offset, reason, raw, False, self._nothing))
        self._bytes += len(raw)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what was collected."""
        if not self._rows:
            return
        offsets, problems, raws, escaped, texts = zip(*self._rows, strict=True)
        columns = zip(*texts, strict=True)
        values = [*(offsets, problems, raws, escaped), *columns]
        arrays = [pa.array(v, f.type) for v, f in zip(values, self._schema, strict=True)]
        self._rows, self._bytes = [], 0
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class RowAdder:
    """Adds scanned rows to a builder, with their values as texts of row images.

    `places` are those of a row's values among the columns; None for one that the table lacks.
    """

    def __init__(
        self,
        builder: BatchBuilder,
        places: Sequence[int | None],
        converters: Sequence[Converter],
        bare: Container[str],
    ) -> None:
        """`bare`: the kinds whose values have no quotes, until a row shows otherwise."""
        self._builder = builder
        self._places = places
        self._converters = converters
        self.quoted = [place is None or converters[place].kind not in bare for place in places]

    def add(self, row: ScannedRow, offset: int, raw: bytes) -> None:
        """Add a row that starts at an offset, or the reason why it is none."""
        if row.problem is not None:
            self._builder.add_problem(offset, row.problem, raw)
            return
        try:
            self._builder.add(offset, self._convert(row.values))
        except (MalformedMessage, ValueError) as error:
            self._builder.add_problem(offset, str(error), raw)
            return
        for place, (value, quoted) in enumerate(zip(row.values, row.quoted, strict=True)):
            if value is not None:
                self.quoted[place] = quoted

    def _convert(self, values: Sequence[bytes | None]) -> list[str | None]:
        if len(values) != len(self._places):
            raise MalformedMessage(f"{len(values)} values for {len(self._places)} columns")
        texts: list[str | None] = [None] * len(self._converters)
        for place, value in zip(self._places, values, strict=True):
            if place is not None and value is not None:
                texts[place] = self._converters[place](value)
        return texts
