"""Parquet files of Dumpling.

Integers and DECIMALs are numbers, FLOAT is a double, DATETIME and TIMESTAMP are microseconds
without a zone (NULL for a date that is none), all other types the bytes of their texts.
"""

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_assets.dumpling.columns import FileColumns
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.rows import (
    BatchBuilder,
    Converter,
    list_stored,
    make_batch_schema,
)
from ticdc_assets.dumpling.source import RecordingSource, Source
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import TableSchema

_MAX_ROWS = 10_000
# What Arrow raises for content that is not Parquet.
_DAMAGE = (pa.ArrowException, OSError, UnicodeError)


class ParquetReader:
    """Reads the rows of a file as batches."""

    def __init__(self, source: Source, schema: TableSchema, dialect: Dialect) -> None:
        """Raise `MalformedMessage` if the file is not Parquet with the table's columns."""
        self._columns = list_stored(schema)
        self._schema = schema
        self._converters = [Converter(c, dialect, encoded=False) for c in self._columns]
        self._source = RecordingSource(source)
        try:
            # The file is a Python object, which no other thread may read.
            self._file = pq.ParquetFile(cast(Any, self._source), pre_buffer=False)
            names = self._file.schema_arrow.names
        except _DAMAGE as error:
            raise MalformedMessage(f"not a Parquet file: {self._explain(error)}") from None
        self._places = FileColumns(schema).find(names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        offset, stated, damage = 0, self._file.metadata.num_rows, None
        try:
            for batch in self._file.iter_batches(_MAX_ROWS, use_threads=False):
                yield from self._read(batch, offset)
                offset += batch.num_rows
        except _DAMAGE as error:
            damage = f"damaged from here on: {self._explain(error)}"
        if damage is None and offset != stated:
            # Arrow ends at a column chunk that states too few values.
            damage = f"damaged: it has {offset} of {stated} rows"
        if damage is not None:
            builder = BatchBuilder(len(self._columns))
            builder.add_problem(offset, damage, b"")
            yield from builder.flush()

    def _explain(self, error: Exception) -> str:
        """Describe damage; raise the error of the storage, if it is the reason."""
        if self._source.error is not None:
            raise self._source.error from None
        return str(error)

    def _read(self, batch: pa.RecordBatch, offset: int) -> Iterator[pa.RecordBatch]:
        count = batch.num_rows
        values: list[pa.Array] = [None] * len(self._columns)
        for place, column in zip(self._places, batch.columns, strict=True):
            if place is not None:
                values[place] = _get_bytes(column)
        try:
            texts = [self._convert(place, column) for place, column in enumerate(values)]
        except (pa.ArrowException, MalformedMessage, ValueError):
            yield from self._read_rows(values, offset)
            return
        offsets = pa.array(range(offset, offset + count), pa.int64())
        own = [offsets, pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())]
        own.append(pa.repeat(pa.scalar(False, pa.bool_()), count))
        schema = make_batch_schema(len(texts))
        yield pa.RecordBatch.from_arrays([*own, *texts], schema=schema)

    def _convert(self, place: int, column: pa.Array) -> pa.Array:
        convert = self._converters[place]
        if convert.is_plain:
            # The cast checks that it is UTF-8.
            return column.cast(pa.string())
        values = [None if value is None else convert(value) for value in column.to_pylist()]
        return pa.array(values, pa.string())

    def _read_rows(self, columns: list[pa.Array], offset: int) -> Iterator[pa.RecordBatch]:
        builder = BatchBuilder(len(columns))
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        for number, row in enumerate(rows, offset):
            try:
                texts = [
                    None if value is None else convert(value)
                    for convert, value in zip(self._converters, row, strict=True)
                ]
            except (MalformedMessage, ValueError) as error:
                builder.add_problem(number, str(error), b"")
            else:
                builder.add(number, texts)
        yield from builder.flush()


def _get_bytes(column: pa.Array) -> pa.Array:
    """Return the values of a column as the bytes of their texts."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_timestamp(column.type):
        # Without a fraction of its own, a text has the digits of the column's type or none.
        # `strftime` gives the same texts, and takes thirty times as long.
        moments = column if column.type.tz is None else pc.local_timestamp(column)
        return moments.cast(pa.string()).cast(pa.binary())
    texts = column.cast(pa.string())
    if pa.types.is_decimal(column.type) and pc.any(pc.match_substring(texts, "E")).as_py():
        values = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        texts = pa.array(values, pa.string())
    return texts.cast(pa.binary())
