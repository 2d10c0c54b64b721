"""The checksum in a schema file's name: CRC-32 of the names and columns in Go's JSON notation.

TiCDC does not hash the statement, its type and the table version, so equal checksums mean equal
columns.  This module hashes every value as its exact text in the file, so it need not reproduce how
Go escapes strings and prints numbers.
"""

import zlib
from collections.abc import Mapping, Sequence

import msgspec

# The order in which Go prints the keys of a column; a file may have another order.
_KEYS = (
    "ColumnId",
    "ColumnName",
    "ColumnType",
    "ColumnDefault",
    "ColumnPrecision",
    "ColumnScale",
    "ColumnNullable",
    "ColumnIsPk",
    "ColumnElems",
)
_KEY_ORDER = {key: index for index, key in enumerate(_KEYS)}

_strings = msgspec.json.Decoder(list[msgspec.Raw])
_string = msgspec.json.Decoder(str)


def compute_schema_checksum(
    table: msgspec.Raw, schema: msgspec.Raw, columns: Sequence[Mapping[str, msgspec.Raw]]
) -> int:
    """Compute the checksum from the JSON texts in a schema file."""
    by_name = sorted(columns, key=lambda column: _string.decode(column["ColumnName"]).encode())
    listed = _print_block(b"[", [_print_column(column) for column in by_name], b"]", depth=1)
    members = [
        b'"Table": ' + bytes(table),
        b'"Schema": ' + bytes(schema),
        # The file states 1, but TiCDC hashes before setting it.
        b'"Version": 0',
        b'"TableColumns": ' + listed,
        b'"TableColumnsTotal": %d' % len(columns),
    ]
    return zlib.crc32(_print_block(b"{", members, b"}", depth=0))


def _print_column(column: Mapping[str, msgspec.Raw]) -> bytes:
    keys = list(column)
    if all(key in _KEY_ORDER for key in keys):
        keys.sort(key=_KEY_ORDER.__getitem__)
    members = [msgspec.json.encode(key) + b": " + _print_value(bytes(column[key])) for key in keys]
    return _print_block(b"{", members, b"}", depth=2)


def _print_value(text: bytes) -> bytes:
    if not text.startswith(b"["):
        return text
    return _print_block(b"[", [bytes(item) for item in _strings.decode(text)], b"]", depth=3)


def _print_block(start: bytes, items: list[bytes], end: bytes, depth: int) -> bytes:
    if not items:
        return start + end
    outer = b"\n" + b"    " * depth
    inner = outer + b"    "
    return start + inner + (b"," + inner).join(items) + outer + end
