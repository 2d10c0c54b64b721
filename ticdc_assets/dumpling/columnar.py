"""The fast path for data files: whole blocks of rows, column by column.

`pyarrow.csv` is more lenient than either notation, so every block is proven: written again, its
values must give the very bytes that they were read from.  A block that fails is left to a scanner.

With backslash escapes, a block is first rewritten so that no quote is escaped, and every byte keeps
its place: two backslashes become NUL STX, and an escaped quote two quotes.  A NUL of a value is
always escaped.
"""

from binascii import a2b_hex
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from msgspec import Struct

from ticdc_assets.dumpling.rows import Converter, make_batch_schema
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.protocols.csv.written_rows import RowWriter, get_content

_BACKSLASH, _NUL = b"\0\2", b"\0\1"
_LITERAL = r"\A[+-]?[0-9.][0-9.eE+-]*\z"
_HEX_VALUE = r"\Ax'(?:[0-9a-fA-F]{2})*'\z"
# Their texts are checked when they are typed.
_NUMBERS = frozenset({"integer", "float", "decimal"})


class Notation(Struct, frozen=True):
    """How rows are written: the signs around them, and around and between their values."""

    opening: bytes
    separator: bytes
    closing: bytes
    # Between rows; in CSV after each.
    joint: bytes
    quote: bytes
    null: bytes
    # What a letter after a backslash stands for; None without such escapes.
    escapes: dict[bytes, bytes] | None
    is_sql: bool


class Disproof(Exception):
    """A block that is not, or not provably, in this notation."""


class ColumnarReader:
    """Reads blocks of rows with the same columns."""

    def __init__(
        self, notation: Notation, places: Sequence[int | None], converters: Sequence[Converter]
    ) -> None:
        """`places`: which stored column each value belongs to, None for no one."""
        self.notation = notation
        self._places = places
        self._converters = converters
        self._schema = make_batch_schema(len(converters))
        self._names = [str(place) for place in range(len(places))]

    def read(self, block: bytes, offset: int, quoted: Sequence[bool]) -> pa.RecordBatch:
        """Read a block that starts at an offset; `quoted` says which values have quotes.

        Raise `Disproof` unless it is proven exact.
        """
        try:
            prepared = self._prepare(block)
            table = self._parse(prepared)
            rows = self._prove(table, prepared, quoted)
            texts: list[pa.Array] = [None] * len(self._converters)
            for place, column, is_quoted in zip(self._places, table.columns, quoted, strict=True):
                if place is not None:
                    texts[place] = self._read_texts(self._converters[place], column, is_quoted)
        except (pa.ArrowException, MalformedMessage, ValueError) as error:
            raise Disproof(str(error)) from None
        count = len(rows)
        ends = pc.add(pc.cumulative_sum(pc.binary_length(rows).cast(pa.int64())), offset)
        offsets = pa.concat_arrays([pa.array([offset], pa.int64()), ends.slice(0, count - 1)])
        nothing = pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        no = pa.repeat(pa.scalar(False, pa.bool_()), count)
        return pa.RecordBatch.from_arrays([offsets, *nothing, no, *texts], schema=self._schema)

    def _prepare(self, block: bytes) -> bytes:
        notation = self.notation
        if notation.escapes is None or b"\\" not in block:
            return block
        if b"\0" in block:
            raise Disproof("a NUL that is not escaped")
        signs = np.frombuffer(block, np.uint8)
        backslashes = np.flatnonzero(signs[:-1] == ord("\\"))
        if (np.diff(backslashes) == 1).any():
            block = block.replace(b"\\\\", _BACKSLASH)
            return block.replace(b"\\" + notation.quote, notation.quote * 2)
        # `replace` takes twice as long.
        quote = ord(notation.quote)
        before_quote = backslashes[signs[backslashes + 1] == quote]
        if not before_quote.size:
            return block
        signs = signs.copy()
        signs[before_quote] = quote
        return signs.tobytes()

    def _parse(self, prepared: bytes) -> pa.RecordBatch:
        notation = self.notation
        text = pa.py_buffer(prepared)
        if notation.opening:
            if not (prepared.startswith(notation.opening) and prepared.endswith(notation.closing)):
                raise Disproof("no rows")
            between = notation.closing + notation.joint + notation.opening
            text = pa.py_buffer(prepared.replace(between, b"\n"))
            start = len(notation.opening)
            text = text.slice(start, text.size - start - len(notation.closing))
        reader = arrow_csv.open_csv(
            text,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=text.size + 1, column_names=self._names
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=notation.separator.decode(),
                quote_char=notation.quote.decode(),
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(self._names, pa.binary()),
                null_values=[notation.null.decode()],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        batches = [batch for batch in reader if batch.num_rows]
        if len(batches) != 1:
            raise Disproof("not one block")
        return batches[0]

    def _prove(self, table: pa.RecordBatch, prepared: bytes, quoted: Sequence[bool]) -> pa.Array:
        """Write the rows again and compare; return them."""
        notation, quote = self.notation, self.notation.quote
        writer = RowWriter()
        writer.literal(notation.opening)
        for number, (place, column, is_quoted) in enumerate(
            zip(self._places, table.columns, quoted, strict=True)
        ):
            if number:
                writer.literal(notation.separator)
            content = get_content(column).to_pybytes()
            if is_quoted:
                if quote in content:
                    column = pc.replace_substring(column, quote, quote * 2)
                writer.wrapped(column, quote)
                continue
            if notation.is_sql:
                self._check_literals(place, column)
            elif quote in content or (b"\\" in content and notation.escapes is not None):
                raise Disproof("a sign that has to be quoted")
            writer.column(column)
        writer.literal(notation.closing + notation.joint)
        rows = writer.join(notation.null)
        written = get_content(rows)
        # In SQL, no joint follows the last row of a block.
        length = written.size - (len(notation.joint) if notation.is_sql else 0)
        if length != len(prepared) or not written.slice(0, length).equals(pa.py_buffer(prepared)):
            raise Disproof("other bytes")
        if notation.escapes is not None and prepared.count(b"\n") != table.num_rows - (
            1 if notation.is_sql else 0
        ):
            raise Disproof("a line break that is not escaped")
        return rows

    def _check_literals(self, place: int | None, column: pa.Array) -> None:
        """Check that the values without quotes are numbers, or of bytes."""
        kind = None if place is None else self._converters[place].kind
        if kind in _NUMBERS:
            return
        pattern = _HEX_VALUE if kind in ("binary", "bit") else _LITERAL
        matches = pc.match_substring_regex(column.cast(pa.string()), pattern)
        if not pc.all(matches, min_count=0).as_py():
            raise Disproof("not a literal")

    def _read_texts(self, convert: Converter, column: pa.Array, is_quoted: bool) -> pa.Array:
        if is_quoted:
            column = self._unescape(column)
        elif self.notation.is_sql and convert.kind in ("binary", "bit"):
            column = pa.array(map(_read_hex_value, column.to_pylist()), pa.binary())
        if convert.is_plain:
            # The cast checks that it is UTF-8.
            return column.cast(pa.string())
        values = [None if value is None else convert(value) for value in column.to_pylist()]
        return pa.array(values, pa.string())

    def _unescape(self, column: pa.Array) -> pa.Array:
        escapes = self.notation.escapes
        if escapes is None:
            return column
        content = get_content(column).to_pybytes()
        if b"\\" in content:
            for letter, sign in escapes.items():
                if b"\\" + letter in content:
                    meaning = _NUL if sign == b"\0" else sign
                    column = pc.replace_substring(column, b"\\" + letter, meaning)
            content = get_content(column).to_pybytes()
            if b"\\" in content:
                raise Disproof("an unknown escape")
        if b"\0" in content:
            for sign, meaning in ((_BACKSLASH, b"\\"), (_NUL, b"\0")):
                if sign in content:
                    column = pc.replace_substring(column, sign, meaning)
        return column


def _read_hex_value(value: bytes | None) -> bytes | None:
    return None if value is None else a2b_hex(value[2:-1])
