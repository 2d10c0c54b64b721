"""The canonical text of a value, and the hash of a row: the same bytes on both sides.

Of most types it is the text that MySQL prints.  FLOAT and DOUBLE are their exact mantissa and
exponent, because no two programs print floats alike; texts and binary values are their bytes.  In
the text of a row, a short value has its length in front, and of a long one there is only the MD5.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ticdc_assets.events import ColumnType
from ticdc_assets.rows.columns import DeltaColumn
from ticdc_assets.schema.types.float_text import format_plain, round_to_float32
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.upstream.sql import fit_fraction

# What is longer than this is read as its MD5.
MOST_BYTES = 4096
MD5_MARK = b"md5:"
# A hash is this many bits of an MD5: in hexadecimal, 15 digits.
HASH_DIGITS = 15
HASH_END = 1 << (4 * HASH_DIGITS)
NULL = "~"
_SHORT = ("char", "varchar", "var_string", "binary", "varbinary", "enum", "set")
_BYTES: tuple[Kind, ...] = ("text", "binary", "enum", "set", "json")
_MANTISSA_BITS = 52


@dataclass(frozen=True)
class ComparedColumn:
    """A column of both sides: its name and type upstream, its column in Delta, its type there."""

    name: str
    type: ColumnType
    delta: DeltaColumn
    lake_type: ColumnType

    @property
    def kind(self) -> Kind:
        return describe(self.type).kind

    @property
    def has_bytes(self) -> bool:
        """Whether its canonical texts may have any bytes, and not only digits and signs."""
        return self.kind in _BYTES

    @property
    def is_long(self) -> bool:
        """Whether the text of a row has the MD5 of its values in their place."""
        return self.has_bytes and describe(self.type).name not in _SHORT


def make_canonical(text: str | None, type: ColumnType) -> bytes | None:
    """Return the canonical text of a value that `value_writer` has written."""
    if text is None:
        return None
    match describe(type).kind:
        case "binary":
            return bytes.fromhex(text)
        case "float":
            return _format_exactly(float(text), single=type.name == "float").encode()
        case "datetime" | "time":
            return fit_fraction(text, type).encode()
        case _:
            return text.encode("utf-8", "surrogateescape")


def _format_exactly(number: float, *, single: bool) -> str:
    """Format a number as sign, 53-bit mantissa, `p` and exponent."""
    if single:
        number = round_to_float32(number)
    if number == 0:
        return "0"
    fraction, exponent = math.frexp(abs(number))
    mantissa = int(math.ldexp(fraction, _MANTISSA_BITS + 1))
    return f"{'-' if number < 0 else ''}{mantissa}p{exponent - 1}"


def shorten(text: bytes | None, column: ComparedColumn) -> bytes | None:
    """Return a canonical text, or its MD5 if it is too long to be read."""
    if text is None or not column.is_long or len(text) <= MOST_BYTES:
        return text
    return MD5_MARK + hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


def format_canonical(text: bytes | None, column: ComparedColumn) -> str | None:
    """Format a canonical text for people; bytes that are not UTF-8 are escaped."""
    if text is None:
        return None
    if column.kind == "float" and text != b"0":
        return _format_float(text.decode(errors="backslashreplace"))
    return text.hex() if column.kind == "binary" else text.decode(errors="backslashreplace")


def _format_float(text: str) -> str:
    """Format an exact number; a copy may have other texts, such as `nan`."""
    mantissa, _, exponent = text.partition("p")
    try:
        return format_plain(repr(math.ldexp(int(mantissa), int(exponent) - _MANTISSA_BITS)))
    except (ValueError, OverflowError):
        return text


def hash_values(texts: Sequence[bytes | None], columns: Iterable[ComparedColumn]) -> int:
    """Return the hash of canonical texts: of a row, or of its key."""
    parts = (_write_part(text, column) for text, column in zip(texts, columns, strict=True))
    return int(hashlib.md5(b",".join(parts), usedforsecurity=False).hexdigest()[:HASH_DIGITS], 16)


def _write_part(text: bytes | None, column: ComparedColumn) -> bytes:
    if text is None:
        return NULL.encode()
    if column.is_long:
        return hashlib.md5(text, usedforsecurity=False).hexdigest().encode()
    return b"%d:%s" % (len(text), text) if column.has_bytes else text
