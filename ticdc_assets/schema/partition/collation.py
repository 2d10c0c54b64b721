"""Comparing and hashing texts under a collation, as partitioning needs it.

Keys are exact, or there are none: a text with a character whose weight this module does not know
raises `InvalidValue`.  The Unicode Collation Algorithm is known for ASCII, for Latin letters with
accents and for Chinese characters; `general_ci` for the common scripts.
"""

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase, digits
from typing import Any

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType

# TiDB's default collations, for columns that state only a charset.  That of utf8mb4 is a variable
# of the session, and a table without a charset has the collation of its database.
_DEFAULTS = {
    "ascii": "ascii_bin",
    "binary": "binary",
    "gb18030": "gb18030_chinese_ci",
    "gbk": "gbk_chinese_ci",
    "latin1": "latin1_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8_bin",
}

# What an unknown collation may be.
POSSIBLE_COLLATIONS = (
    "utf8mb4_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_bin",
)


def get_collation(type: ColumnType) -> str | None:
    """Return the collation of a text column; None if nothing states it."""
    name = type.collation or _DEFAULTS.get(type.charset or "")
    return None if name is None else name.lower().replace("utf8mb3_", "utf8_")


def make_collation_sort_key(collation: str) -> Callable[[str], Any]:
    """Return the function that computes the sort key of a text."""
    key = _SORT_KEYS.get(_family(collation))
    if key is None:
        raise InvalidValue(f"the order of texts under collation {collation} is not supported")
    return key


def make_hash_key(collation: str) -> Callable[[str], bytes] | None:
    """Return the function that computes TiDB's collation key of a text; None if it is unknown."""
    return _HASH_KEYS.get(_family(collation))


def _family(collation: str) -> str:
    if collation in ("ascii_bin", "latin1_bin", "utf8_bin", "utf8mb4_bin"):
        return "bin"
    if collation in ("utf8_general_ci", "utf8mb4_general_ci"):
        return "general_ci"
    if collation in ("utf8_unicode_ci", "utf8mb4_unicode_ci"):
        return "unicode_ci"
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


def _general_key(text: str) -> bytes:
    return b"".join(map(_general_weight, _up_to_invalid(text.rstrip(" "))))


def _up_to_invalid(text: str) -> str:
    """Cut a text at its first invalid byte, where TiDB stops comparing."""
    for at, char in enumerate(text):
        if "\ud800" <= char <= "\udfff":
            return text[:at]
    return text


@lru_cache(maxsize=4096)
def _general_weight(char: str) -> bytes:
    """Return a character's weight, its capital without accents."""
    code = ord(char)
    if code > 0xFFFF:
        return b"\xff\xfd"
    block = code >> 8
    if block not in _CASED_BLOCKS:
        return code.to_bytes(2)
    if not any(first <= code <= last for first, last in _EXACT_RANGES):
        raise InvalidValue(f"the weight of {char!r} under general_ci is unknown")
    if char == "ß":
        base = "S"
    elif char in "Йй" or block in (0x21, 0x24, 0xFF):
        base = char
    else:
        base = unicodedata.normalize("NFD", char)[0]
    upper = base.upper()
    return ord(upper if len(upper) == 1 else base).to_bytes(2)


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


def _chinese_key(text: str) -> str:
    """Return the key of an ASCII text; Chinese characters sort by their pronunciation."""
    if not text.isascii():
        raise InvalidValue(f"the order of {text[:80]!r} under a Chinese collation is unknown")
    return text.rstrip(" ").upper()


# Signs that GBK's collation takes for one another, and a tilde for a Y.
_GBK_SIGNS = str.maketrans({"[": "\\", "]": "[", "~": "Y"})


def _gbk_chinese_key(text: str) -> str:
    return _chinese_key(text).translate(_GBK_SIGNS)


# --- the Unicode algorithm ---------------------------------------------------

# The order of characters in version 4.0.0 of the algorithm (unicode_ci) and in 9.0.0 (0900).
_MARKS = "_-,;:!?.'\"()[]{}@*/\\&#%"
_UCA_400 = f"\t\n\v\f\r `^{_MARKS}+<=>|~${digits}{ascii_lowercase}"
_UCA_900 = f"\t\n\v\f\r {_MARKS}`^+<=>|~${digits}{ascii_lowercase}"


def _make_unicode_key(order: str) -> Callable[[str], tuple[int, ...]]:
    ranks = {char: rank for rank, char in enumerate(order)}

    @lru_cache(maxsize=4096)
    def weigh(char: str) -> tuple[int, ...]:
        if "\u4e00" <= char <= "\u9fa5":
            # Chinese characters sort after all others, by code.
            return (ord(char),)
        weights = []
        for part in "ss" if char == "ß" else unicodedata.normalize("NFD", char):
            is_letter = part.isascii() and part.isalpha()
            # Accents and control characters have no weight.
            if (is_letter or part == char) and part.lower() in ranks:
                weights.append(ranks[part.lower()])
            elif not ("\u0300" <= part <= "\u034e" or part < " " or part == "\x7f"):
                raise InvalidValue(f"the weight of {char!r} under the collation is unknown")
        return tuple(weights)

    return lambda text: tuple(weight for char in text for weight in weigh(char))


def _make_padded(key: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: key(text.rstrip(" "))


_SORT_KEYS: dict[str, Callable[[str], Any]] = {
    "bin": _padded,
    "binary": encode,
    "utf8mb4_0900_bin": encode,
    "general_ci": _general_key,
    "unicode_ci": _make_padded(_make_unicode_key(_UCA_400)),
    "utf8mb4_0900_ai_ci": _make_unicode_key(_UCA_900),
    "gbk_bin": _make_charset_key("gbk"),
    "gbk_chinese_ci": _gbk_chinese_key,
    "gb18030_bin": _make_charset_key("gb18030"),
    "gb18030_chinese_ci": _chinese_key,
}

_HASH_KEYS: dict[str, Callable[[str], bytes]] = {
    "bin": _padded,
    "binary": encode,
    "utf8mb4_0900_bin": encode,
    "general_ci": _general_key,
    "gbk_bin": _make_charset_key("gbk"),
}
