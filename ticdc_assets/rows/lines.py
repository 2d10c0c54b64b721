"""Rows as JSON lines with the texts that MySQL prints, and their order for people."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.stored import Stored, read_stored
from ticdc_assets.rows.table_rows import leave_out_kept, read_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value_writer import make_writer

_NUMBERS = ("integer", "decimal", "float", "bit", "year")


def format_columns(columns: Mapping[str, Stored], schema: TableSchema) -> list[bytes]:
    """Format rows as JSON lines, in the order given; they have the columns of the schema."""
    texts = write_texts(columns, schema)
    rows = zip(*texts.values(), strict=True)
    return [dump(dict(zip(texts, row, strict=True))).encode() + b"\n" for row in rows]


def write_texts(columns: Mapping[str, Stored], schema: TableSchema) -> dict[str, list[str | None]]:
    """Return the texts of each column; bytes that are not UTF-8 are lone surrogates."""
    return {c.name: _write(columns[c.name], c) for c in list_stored_columns(schema)}


def format_blocks(
    blocks: Iterable[Mapping[str, pa.Array]], schema: TableSchema
) -> Iterator[list[bytes]]:
    """Format blocks of the rows of a Delta table as `format_columns` does, without kept ones."""
    live = (leave_out_kept(block, schema) for block in blocks)
    return (format_columns(read_columns(block, schema), schema) for block in live)


def _write(stored: Stored, column: Column) -> list[str | None]:
    write = make_writer(column.type)
    try:
        return list(map(write, read_stored(stored, column.type)))
    except InvalidValue as problem:
        raise InvalidValue(problem.reason, column=column.name) from None


def sort_by_key(lines: Iterable[bytes], schema: TableSchema) -> list[bytes]:
    """Sort lines by the key of their table, numbers as numbers; without a key by their bytes."""
    columns = list_key_columns(schema)
    readers = [(column.name, _make_reader(column)) for column in columns]

    def order(line: bytes) -> tuple[Any, ...]:
        row = load(line.decode())
        texts = [(row[name], read) for name, read in readers]
        # A declared key may be NULL.
        return (*((text is not None, read(text or "0")) for text, read in texts), line)

    return sorted(lines, key=order if columns else None)


def list_key_columns(schema: TableSchema) -> list[Column]:
    """Return the columns of the key that rows are printed with."""
    names = {fold_name(name): place for place, name in enumerate(schema.key)}
    columns = [c for c in list_stored_columns(schema) if fold_name(c.name) in names]
    return sorted(columns, key=lambda column: names[fold_name(column.name)])


def _make_reader(column: Column) -> Callable[[str], Decimal | bytes]:
    """Return what orders a text of a column."""
    return Decimal if describe(column.type).kind in _NUMBERS else _encode


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
