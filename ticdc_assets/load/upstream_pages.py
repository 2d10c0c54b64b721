"""Read a table upstream in pages: ranges of its key, of a bounded number of rows each.

A page begins behind the last key of the page before it.  Tables and partitions whose key SQL does
not compare exactly with a literal are one page.
"""

import re
from binascii import b2a_hex
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.rows import BatchBuilder, Converter, list_stored, make_batch_schema
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.upstream.snapshot import Reader, Row
from ticdc_assets.upstream.sql import decode, quote, quote_text, write_text

_ROWS_PER_PAGE = 50_000
_ROW_ID = "_tidb_rowid"
# Places in a row of SHOW INDEX.
_NON_UNIQUE, _INDEX, _COLUMN, _PART = 1, 2, 4, 7
_DIALECT = Dialect(time_zone="UTC")
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?")
# Charsets of which each character is the same again after a way through UTF-8.
_CHARSETS = (None, "utf8mb4", "utf8mb3", "utf8", "ascii", "latin1")


class KeyColumn(NamedTuple):
    """A column by which pages are ordered; `place` is that of its values in a row."""

    name: str
    kind: str
    place: int


class Page(NamedTuple):
    """Where a page is: a partition, and the key behind which it begins."""

    partition: str
    after: tuple[str, ...] | None

    def __str__(self) -> str:
        where = f"partition {self.partition}" if self.partition else "all rows"
        return where if self.after is None else f"{where} after ({', '.join(self.after)})"


class PageReader:
    """Reads the rows of a table as batches of `dumpling.rows`.

    Their `offset` is the number of the row in its page.
    """

    def __init__(self, reader: Reader, schema: TableSchema, *, is_tidb: bool) -> None:
        self._reader = reader
        self._schema = schema
        self._is_tidb = is_tidb
        self._columns = list_stored(schema)
        self._converters = [Converter(c, _DIALECT, encoded=False) for c in self._columns]
        self._batch_schema = make_batch_schema(len(self._columns))
        self._table = f"{quote(schema.database)}.{quote(schema.table)}"
        self._where = (
            f"TABLE_SCHEMA = {quote_text(schema.database)}"
            f" AND TABLE_NAME = {quote_text(schema.table)}"
        )

    def read(self) -> Generator[tuple[Page, pa.RecordBatch]]:
        """Yield all rows."""
        order, hint = self._choose_order()
        for partition in self._list_partitions():
            page: Page | None = Page(partition, None)
            while page is not None:
                last: Row | None = None
                count = 0
                query = self._write_query(page, order, hint)
                with closing(self._reader.stream(query)) as stream:
                    for rows in stream:
                        yield page, self._make_batch(rows, count)
                        count += len(rows)
                        last = rows[-1]
                is_last = not order or count < _ROWS_PER_PAGE or last is None
                page = None if is_last else Page(partition, _write_key(order, last or ()))

    def _write_query(self, page: Page, order: Sequence[KeyColumn], hint: str) -> str:
        selected = [self._write_value(column) for column in self._columns]
        selected += [quote(key.name) for key in order if key.place == len(self._columns)]
        part = f" PARTITION ({quote(page.partition)})" if page.partition else ""
        query = f"SELECT {', '.join(selected) or '1'} FROM {self._table}{part}{hint}"
        if not order:
            return query
        names = [f"{self._table}.{quote(key.name)}" for key in order]
        if page.after is not None:
            query += f" WHERE {_write_after(names, page.after)}"
        return f"{query} ORDER BY {', '.join(names)} LIMIT {_ROWS_PER_PAGE}"

    def _write_value(self, column: Column) -> str:
        name = quote(column.name)
        match describe(column.type).kind:
            case "text":
                return write_text(column.name, column.type, is_tidb=self._is_tidb)
            case "float" if column.type.name == "float":
                # A FLOAT prints six digits; as a DOUBLE it prints all.
                return f"{name} + 0e0"
            case _:
                return f"{name} + 0" if column.type.zerofill else name

    # The order

    def _choose_order(self) -> tuple[list[KeyColumn], str]:
        """Choose the columns by which an index orders all rows, none for one page; and a hint."""
        if self._is_tidb and not self._is_clustered():
            # TiDB finds rows by this number, and by a key only with a look-up per row.
            return [KeyColumn(_ROW_ID, "integer", len(self._columns))], ""
        index = self._find_index()
        order = [self._find_key_column(name) for name in self._schema.own_key]
        if index is None or not order or None in order:
            return [], ""
        hint = "" if self._is_tidb else f" FORCE INDEX ({quote(index)})"
        return [key for key in order if key is not None], hint

    def _is_clustered(self) -> bool:
        found = self._reader.query(
            f"SELECT TIDB_PK_TYPE FROM information_schema.TABLES WHERE {self._where}"
        )
        return [row[0] for row in found] == [b"CLUSTERED"]

    def _find_index(self) -> str | None:
        """Find the index over the whole values of the key; one over their beginnings sorts none."""
        # The information_schema of TiDB does not tell beginnings from whole values.
        found = self._reader.query(f"SHOW INDEX FROM {self._table}")
        key = [fold_name(name) for name in self._schema.own_key]
        for index, rows in groupby(found, lambda row: row[_INDEX]):
            columns = list(rows)
            names = [fold_name(decode(row[_COLUMN])) for row in columns]
            is_whole = all(row[_PART] is None and row[_NON_UNIQUE] == b"0" for row in columns)
            if names == key and is_whole:
                return decode(index)
        return None

    def _find_key_column(self, name: str) -> KeyColumn | None:
        for place, column in enumerate(self._columns):
            if fold_name(column.name) == fold_name(name):
                kind = describe(column.type).kind
                is_exact = kind in ("integer", "decimal", "binary") or (
                    kind == "text" and column.type.charset in _CHARSETS
                )
                return KeyColumn(column.name, kind, place) if is_exact else None
        return None

    def _list_partitions(self) -> list[str]:
        """List the partitions, each of which is read apart; one without a name is the table."""
        if self._schema.partitioning is None:
            return [""]
        found = self._reader.query(
            f"SELECT DISTINCT PARTITION_NAME FROM information_schema.PARTITIONS WHERE {self._where}"
        )
        return [decode(name) for (name,) in found]

    # Rows

    def _make_batch(self, rows: Sequence[Row], offset: int) -> pa.RecordBatch:
        count, width = len(rows), len(self._columns)
        columns = list(zip(*rows, strict=True))[:width]
        try:
            texts = [
                _read_texts(convert, values)
                for convert, values in zip(self._converters, columns, strict=True)
            ]
        except pa.ArrowInvalid:
            # Not UTF-8.
            return self._escape(rows, offset)
        numbers = pa.array(range(offset, offset + count), pa.int64())
        nothing = pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        no = pa.repeat(pa.scalar(False, pa.bool_()), count)
        return pa.RecordBatch.from_arrays(
            [numbers, *nothing, no, *texts], schema=self._batch_schema
        )

    def _escape(self, rows: Sequence[Row], offset: int) -> pa.RecordBatch:
        builder = BatchBuilder(len(self._columns))
        for number, row in enumerate(rows, offset):
            pairs = zip(self._converters, row[: len(self._columns)], strict=True)
            builder.add(number, [None if v is None else convert(v) for convert, v in pairs])
        (batch,) = builder.flush()
        return batch


def _read_texts(convert: Converter, values: Sequence[bytes | None]) -> pa.Array:
    if convert.is_plain:
        # The cast checks that it is UTF-8.
        return pa.array(values, pa.binary()).cast(pa.string())
    texts = [None if value is None else convert(value) for value in values]
    return pa.array(texts, pa.string())


def _write_key(order: Sequence[KeyColumn], row: Row) -> tuple[str, ...]:
    return tuple(_write_literal(key, row[key.place]) for key in order)


def _write_literal(key: KeyColumn, value: bytes | None) -> str:
    """Write the value of a key column in SQL, whatever it is."""
    if value is None:
        raise MalformedMessage(f"the row lacks its key: {key.name}")
    if key.kind in ("text", "binary"):
        introducer = "_utf8mb4" if key.kind == "text" else "_binary"
        return f"{introducer} X'{b2a_hex(value).decode()}'"
    if not _NUMBER.fullmatch(value):
        raise MalformedMessage(f"a value of {key.name} is no number")
    return value.decode()


def _write_after(names: Sequence[str], values: Sequence[str]) -> str:
    """Write that a key is behind another, in the form that an index is used for."""
    name, value = names[0], values[0]
    if len(names) == 1:
        return f"{name} > {value}"
    rest = _write_after(names[1:], values[1:])
    return f"({name} > {value} OR ({name} = {value} AND ({rest})))"
