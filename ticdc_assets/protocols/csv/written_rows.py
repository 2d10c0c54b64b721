"""Rows written from their columns: what a reader compares with the bytes that it read."""

import pyarrow as pa
import pyarrow.compute as pc

# Stating the types: inferring them takes many times as long as the work on a small block.
_NOTHING = pa.scalar(b"", pa.binary())


class RowWriter:
    """Joins literals, which all rows share, and binary columns."""

    def __init__(self) -> None:
        self._parts: list[pa.Scalar | pa.Array] = []
        self._pending = b""

    def literal(self, text: bytes) -> None:
        self._pending += text

    def column(self, column: pa.Array) -> None:
        self._parts += [pa.scalar(self._pending, pa.binary()), column]
        self._pending = b""

    def wrapped(self, column: pa.Array, quote: bytes) -> None:
        """Add a column whose values are quoted and whose nulls are not."""
        if column.null_count:
            mark = pa.scalar(quote, pa.binary())
            self.column(pc.binary_join_element_wise(mark, column, mark, _NOTHING))
            return
        self._pending += quote
        self.column(column)
        self._pending = quote

    def join(self, null: bytes) -> pa.Array:
        """Return the rows; `null` stands for nulls."""
        parts = [*self._parts, pa.scalar(self._pending, pa.binary())]
        return pc.binary_join_element_wise(
            *parts, _NOTHING, null_handling="replace", null_replacement=null
        )


def get_content(column: pa.Array) -> pa.Buffer:
    """Return all values of a binary column, concatenated."""
    _validity, offsets, content = column.buffers()
    if content is None:
        return pa.py_buffer(b"")
    places = memoryview(offsets).cast("i")
    first = places[column.offset]
    return content.slice(first, places[column.offset + len(column)] - first)
