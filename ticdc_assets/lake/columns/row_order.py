"""The order of rows for people: by the key of their table, numbers as numbers."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec

from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.types.mysql_type import describe

_NUMBERS = ("integer", "decimal", "float", "bit", "year")
_Texts = dict[str, str | None]


def sort_by_key(lines: Iterable[bytes], schema: TableSchema) -> list[bytes]:
    """Sort rows, which are JSON lines as `show` prints them; without a key by their bytes."""
    columns = list_key_columns(schema)
    readers = [(column.name, _make_reader(column)) for column in columns]
    decode = msgspec.json.Decoder(_Texts).decode

    def order(line: bytes) -> tuple[Any, ...]:
        row = decode(line)
        texts = [(row[name], read) for name, read in readers]
        # A declared key may be NULL.
        return (*((text is not None, read(text or "0")) for text, read in texts), line)

    return sorted(lines, key=order if columns else None)


def list_key_columns(schema: TableSchema) -> list[Column]:
    """Return the columns of the key that rows are printed with."""
    names = {fold_name(name): place for place, name in enumerate(schema.key)}
    columns = [c for c in schema.columns if fold_name(c.name) in names and c.generated != "virtual"]
    return sorted(columns, key=lambda column: names[fold_name(column.name)])


def _make_reader(column: Column) -> Callable[[str], Decimal | bytes]:
    """Return what orders a text of a column."""
    return Decimal if describe(column.type).kind in _NUMBERS else _encode


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
