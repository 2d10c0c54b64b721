r"""Texts with bytes that are not UTF-8, in a form that Arrow and Delta can hold.

In Python such bytes are lone surrogates (`surrogateescape`).  An escaped text has `\x` and two
hexadecimal digits for each of these bytes, and `\x5c` for a backslash; a lone surrogate that stands
for no byte has `\u` and four digits.  No two texts have the same escaped text.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:x([89a-f][0-9a-f])|u(d[0-9a-f]{3})|(x5c))")
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF


def is_utf8(text: str) -> bool:
    """Return whether a text has no lone surrogate."""
    return text.isascii() or _SURROGATE.search(text) is None


def escape_text(text: str) -> str:
    """Escape a text."""
    return _SURROGATE.sub(_escape_one, text.replace("\\", "\\x5c"))


def _escape_one(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if _FIRST_BYTE <= code <= _LAST_BYTE else f"\\u{code:04x}"


def unescape_text(escaped_text: str) -> str:
    """Return the text that was escaped."""
    return _ESCAPE.sub(_unescape_one, escaped_text)


def _unescape_one(match: re.Match[str]) -> str:
    byte, unit, _ = match.groups()
    if byte is not None:
        return chr(0xDC00 + int(byte, 16))
    return "\\" if unit is None else chr(int(unit, 16))


def replace_bytes(text: str) -> str:
    """Return a text with a question mark for each byte that is not UTF-8."""
    return _SURROGATE.sub("?", text)
