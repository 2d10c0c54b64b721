"""Read rows of current tables from their Arrow columns, and print them as Spark does.

`writing` and `conversion.format_rows` state the same rules as Spark expressions; tests compare the
two on every type.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.rows.columns import (
    INEXACT,
    DeltaColumn,
    fold_case,
    list_delta_columns,
    list_stored_columns,
)
from ticdc_assets.schema.types.float_text import float32_digits, format_plain
from ticdc_assets.schema.types.mysql_type import Kind, decimal_shape, describe, map_to_delta_type
from ticdc_assets.schema.types.row import RowWriter
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import Reader, make_reader

# What `escaped_text` writes for bytes that are not UTF-8, for lone surrogates, and for backslashes.
_ESCAPE = re.compile(r"\\(?:x([89a-f][0-9a-f])|u(d[0-9a-f]{3})|(x5c))")

_Values = Sequence[Any]


def format_blocks(
    blocks: Iterator[Mapping[str, pa.Array]], schema: TableSchema
) -> Iterator[list[bytes]]:
    """Format blocks of rows as JSON lines, in the order given."""
    write = RowWriter(schema)
    for rows in read_blocks(blocks, schema):
        yield [dump(write(row)).encode() + b"\n" for row in rows]


def read_blocks(
    blocks: Iterator[Mapping[str, pa.Array]], schema: TableSchema
) -> Iterator[list[dict[str, Value]]]:
    """Read blocks of rows as typed rows, in the order given."""
    columns = [
        (delta, column.name, column.type)
        for delta, column in zip(
            list_delta_columns(schema), list_stored_columns(schema), strict=True
        )
    ]
    readers = {name: make_reader(type, member_names=True) for _, name, type in columns}
    for block in blocks:
        arrays = {fold_case(name): array for name, array in block.items()}
        exact_texts = _list_exact_texts(arrays)
        values = [
            _apply_exact_texts(
                _VALUES.get(describe(type).kind, _read_texts)(
                    arrays[fold_case(delta.name)], type, readers[name]
                ),
                delta,
                exact_texts,
                readers[name],
            )
            for delta, name, type in columns
        ]
        names = [name for _, name, _ in columns]
        yield [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _list_exact_texts(arrays: Mapping[str, pa.Array]) -> list[dict[str, str]] | None:
    """Return the map of every row; None if no row has one."""
    maps = arrays.get(fold_case(INEXACT))
    if maps is None or maps.null_count == len(maps):
        return None
    return [dict(entries or ()) for entries in maps.to_pylist()]


def _apply_exact_texts(
    values: _Values, delta: DeltaColumn, exact_texts: list[dict[str, str]] | None, read: Reader
) -> _Values:
    """Return values, with the exact ones where the column does not hold them."""
    if exact_texts is None:
        return values
    return [
        read(_unescape(texts[delta.name])) if delta.name in texts else value
        for value, texts in zip(values, exact_texts, strict=True)
    ]


def _unescape(escaped_text: str) -> str:
    """Read a text of the map, as `escaped_text.unescape_image` does."""
    return _ESCAPE.sub(_unescape_one, escaped_text)


def _unescape_one(match: re.Match[str]) -> str:
    byte, unit, _ = match.groups()
    if byte is not None:
        return chr(0xDC00 + int(byte, 16))
    return "\\" if unit is None else chr(int(unit, 16))


def _read_texts(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    return [read(text) for text in array.to_pylist()]


def _read_numbers(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    numbers = array.to_pylist()
    if pa.types.is_decimal(array.type):
        return [None if number is None else int(number) for number in numbers]
    return list(numbers)


def _read_stored(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    return list(array.to_pylist())


def _read_decimals(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    shape = decimal_shape(type)
    if shape is None or map_to_delta_type(type) == "string":
        return _read_texts(array, type, read)
    # A file that is older than a change of the type has fewer digits.
    return list(array.cast(pa.decimal128(*shape)).to_pylist())


def _read_dates(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    # Python has no year 0.
    return _read_texts(array.cast(pa.string()), type, read)


def _read_datetimes(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    naive = array.cast(pa.timestamp("us")).cast(pa.string())
    return [None if text is None else read(_fit(text, type)) for text in naive.to_pylist()]


def _fit(text: str, type: ColumnType) -> str:
    """Return a datetime with as many decimals as its type has, or as it needs."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(type.decimals or 0, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _read_vectors(array: pa.Array, type: ColumnType, read: Reader) -> _Values:
    return [None if vector is None else _format_vector(vector) for vector in array.to_pylist()]


def _format_vector(numbers: Sequence[float]) -> str:
    return f"[{','.join(format_plain(float32_digits(number)) for number in numbers)}]"


_VALUES: dict[Kind, Callable[[pa.Array, ColumnType, Reader], _Values]] = {
    "integer": _read_numbers,
    "bit": _read_numbers,
    "year": _read_numbers,
    "float": _read_stored,
    "binary": _read_stored,
    "decimal": _read_decimals,
    "date": _read_dates,
    "datetime": _read_datetimes,
    "vector": _read_vectors,
}
