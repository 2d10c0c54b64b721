"""The quoting of Go's `strconv.Quote`, without the outer quotes: how bytes travel as text.

Printable text is literal; the quote, the backslash and everything not printable is escaped: `\\n`
and its like, `\\x` and two digits for a byte that is not UTF-8, `\\u` and `\\U` for a code point.
"""

import re

from ticdc_assets.errors import MalformedMessage

# What Go always escapes: controls, every space but the ASCII one, formatting characters, private
# use.  (Which letters exist depends on the version of Unicode; these do not.)
_UNPRINTABLE = (
    r"\x00-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ud800-\uf8ff\ufeff\ufff9-\ufffb\U000e0001-\U000e007f\U000f0000-\U0010ffff"
)
# Go never writes ASCII and surrogates as code points.
_POINT = r"u(?!00[0-7]|d[89a-f])[0-9a-f]{4}|U00(?:0[1-9a-f]|10)[0-9a-f]{4}"
# Possessive: matching a long text takes no memory.
_QUOTED = re.compile(rf'(?:[^\\"{_UNPRINTABLE}]++|\\(?:[abfnrtv\\"]|x[0-9a-f]{{2}}|{_POINT}))*+')
_CODE_POINT = re.compile(rf"\\(?:{_POINT})")
_TO_ESCAPE = re.compile(rf'[\\"{_UNPRINTABLE}]')

_SHORT = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    "\\": r"\\", '"': r"\"",
}  # fmt: skip


def is_quoted(text: str) -> bool:
    """Return whether Go can have written a text as quoted."""
    return _QUOTED.fullmatch(text) is not None


def unquote(text: str) -> bytes:
    """Return the bytes of a quoted text; raise `MalformedMessage` for any other text."""
    if not is_quoted(text):
        raise MalformedMessage("not text quoted by Go")
    if "\\" not in text:
        return text.encode()
    # Every backslash begins an escape, so no text can be mistaken for another.
    text = text.replace(r"\\", r"\x5c")
    if r"\u" in text or r"\U" in text:
        text = _CODE_POINT.sub(lambda match: chr(int(match[0][2:], 16)), text)
    # Python's escapes mean the same for all that is left, one byte each.
    return text.encode().decode("unicode_escape").encode("latin-1")


def quote(octets: bytes) -> str:
    """Quote bytes as Go does."""
    return _TO_ESCAPE.sub(_escape, octets.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        # A byte that is not UTF-8, as `surrogateescape` represents it.
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
