"""The checksum in a schema file's name: CRC-32 of the table's shape in Go's JSON notation.

Names, columns and their number are hashed; the statement, its type and the table version are not,
so equal checksums mean equal columns.  Every value is hashed as the exact text of the file, which
avoids reproducing how the encoder escapes a string or prints a number.
"""

import zlib
from collections.abc import Mapping, Sequence

import msgspec

# The order in which the encoder prints the keys of a column, whatever their order in the file.
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
_PLACES = {key: place for place, key in enumerate(_KEYS)}

_strings = msgspec.json.Decoder(list[msgspec.Raw])
_string = msgspec.json.Decoder(str)


def shape_checksum(
    table: msgspec.Raw, schema: msgspec.Raw, columns: Sequence[Mapping[str, msgspec.Raw]]
) -> int:
    """Compute the checksum from the JSON texts of a schema file."""
    by_name = sorted(columns, key=lambda column: _string.decode(column["ColumnName"]).encode())
    listed = _block(b"[", [_column(column) for column in by_name], b"]", depth=1)
    members = [
        b'"Table": ' + bytes(table),
        b'"Schema": ' + bytes(schema),
        # The file says 1 here, but the encoder hashes before it sets that.
        b'"Version": 0',
        b'"TableColumns": ' + listed,
        b'"TableColumnsTotal": %d' % len(columns),
    ]
    return zlib.crc32(_block(b"{", members, b"}", depth=0))


def _column(column: Mapping[str, msgspec.Raw]) -> bytes:
    keys = list(column)
    if all(key in _PLACES for key in keys):
        keys.sort(key=_PLACES.__getitem__)
    members = [msgspec.json.encode(key) + b": " + _value(bytes(column[key])) for key in keys]
    return _block(b"{", members, b"}", depth=2)


def _value(text: bytes) -> bytes:
    if not text.startswith(b"["):
        return text
    return _block(b"[", [bytes(item) for item in _strings.decode(text)], b"]", depth=3)


def _block(start: bytes, items: list[bytes], end: bytes, depth: int) -> bytes:
    if not items:
        return start + end
    outer = b"\n" + b"    " * depth
    inner = outer + b"    "
    return start + inner + (b"," + inner).join(items) + outer + end
