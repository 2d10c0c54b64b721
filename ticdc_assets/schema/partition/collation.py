"""Comparing and hashing texts under a collation, as partitioning needs it.

Sort keys are exact for the `_bin` collations and for `general_ci` in common scripts.  Those of the
Unicode Collation Algorithm and of the Chinese `_ci` collations are approximate: accents and case do
not count, punctuation sorts before digits, digits before letters.  A hash key is exact, or there is
none.
"""

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType

# TiDB's default collations, for columns that state only a charset.
_DEFAULTS = {
    "ascii": "ascii_bin",
    "binary": "binary",
    "gb18030": "gb18030_chinese_ci",
    "gbk": "gbk_chinese_ci",
    "latin1": "latin1_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8_bin",
}


def get_collation(type: ColumnType) -> str:
    """Return the collation of a text column."""
    name = type.collation or _DEFAULTS.get(type.charset or "", "utf8mb4_bin")
    return name.lower().replace("utf8mb3_", "utf8_")


def make_collation_sort_key(collation: str) -> Callable[[str], Any]:
    """Return the function that computes the sort key of a text."""
    return _SORT_KEYS.get(_family(collation), _unicode_key)


def make_hash_key(collation: str) -> Callable[[str], bytes] | None:
    """Return the function that computes TiDB's collation key of a text; None if it is unknown."""
    return _HASH_KEYS.get(_family(collation))


def _family(collation: str) -> str:
    if collation in ("ascii_bin", "latin1_bin", "utf8_bin", "utf8mb4_bin"):
        return "bin"
    if collation in ("utf8_general_ci", "utf8mb4_general_ci"):
        return "general_ci"
    return collation


def encode(text: str) -> bytes:
    """Return the bytes that TiDB stores for a text."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidValue(f"{text[:80]!r} contains a surrogate that is no escaped byte") from None


def _padded(text: str) -> bytes:
    return encode(text.rstrip(" "))


# --- general_ci --------------------------------------------------------------


def _general_order(text: str) -> bytes:
    return b"".join(_general_weight(char)[0] for char in _up_to_invalid(text.rstrip(" ")))


def _general_hash(text: str) -> bytes:
    parts = []
    for char in _up_to_invalid(text.rstrip(" ")):
        weight, exact = _general_weight(char)
        if not exact:
            raise InvalidValue(f"the weight of {char!r} under general_ci is unknown")
        parts.append(weight)
    return b"".join(parts)


def _up_to_invalid(text: str) -> str:
    """Cut a text at its first invalid byte, where TiDB stops comparing."""
    for at, char in enumerate(text):
        if "\ud800" <= char <= "\udfff":
            return text[:at]
    return text


@lru_cache(maxsize=4096)
def _general_weight(char: str) -> tuple[bytes, bool]:
    """Return a character's weight, its capital without accents, and whether it is exact."""
    code = ord(char)
    if code > 0xFFFF:
        return b"\xff\xfd", True
    block = code >> 8
    if block not in _CASED_BLOCKS:
        return code.to_bytes(2), True
    exact = any(first <= code <= last for first, last in _EXACT_RANGES)
    if char == "ß":
        base = "S"
    elif char in "Йй" or block in (0x21, 0x24, 0xFF):
        base = char
    else:
        base = unicodedata.normalize("NFD", char)[0]
    upper = base.upper()
    return ord(upper if len(upper) == 1 else base).to_bytes(2), exact


# In all other blocks a character's weight is its code.
_CASED_BLOCKS = frozenset((0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x1E, 0x1F, 0x21, 0x24, 0xFF))
# Ranges in which Python's Unicode version has the capitals and accents of general_ci.
_EXACT_RANGES = (
    (0x0000, 0x017F),
    (0x0388, 0x03CE),
    (0x0400, 0x045F),
    (0x1E00, 0x1EF9),
    (0x2160, 0x217F),
    (0x2400, 0x24FF),
    (0xFF00, 0xFFFF),
)


# --- Chinese charsets --------------------------------------------------------


def _make_charset_key(codec: str) -> Callable[[str], bytes]:
    def key(text: str) -> bytes:
        try:
            return text.rstrip(" ").encode(codec)
        except UnicodeEncodeError:
            raise InvalidValue(f"{text[:80]!r} is not {codec}") from None

    return key


def _make_caseless_charset_key(codec: str) -> Callable[[str], bytes]:
    key = _make_charset_key(codec)
    return lambda text: key(text.upper())


# --- the Unicode algorithm ---------------------------------------------------


def _unicode_key(text: str) -> tuple[tuple[int, str], ...]:
    return _unicode_weights(text.rstrip(" "))


def _unicode_weights(text: str) -> tuple[tuple[int, str], ...]:
    weights = []
    for char in unicodedata.normalize("NFKD", text.casefold()):
        group = _GROUPS.get(unicodedata.category(char)[0])
        if group is not None:
            weights.append((group, char))
    return tuple(weights)


# Spaces, punctuation, symbols, digits, letters; marks and controls have no weight.
_GROUPS = {"Z": 0, "P": 1, "S": 2, "N": 3, "L": 4}

_SORT_KEYS: dict[str, Callable[[str], Any]] = {
    "bin": _padded,
    "binary": encode,
    "utf8mb4_0900_bin": encode,
    "general_ci": _general_order,
    "utf8mb4_0900_ai_ci": _unicode_weights,
    "gbk_bin": _make_charset_key("gbk"),
    "gbk_chinese_ci": _make_caseless_charset_key("gbk"),
    "gb18030_bin": _make_charset_key("gb18030"),
    "gb18030_chinese_ci": _make_caseless_charset_key("gb18030"),
}

_HASH_KEYS: dict[str, Callable[[str], bytes]] = {
    "bin": _padded,
    "binary": encode,
    "utf8mb4_0900_bin": encode,
    "general_ci": _general_hash,
    "gbk_bin": _make_charset_key("gbk"),
}
