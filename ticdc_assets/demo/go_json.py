"""Write JSON as Go does: its escapes and its indentation."""

import json
import re
from json.encoder import encode_basestring

_HTML = re.compile("[<>&\u2028\u2029]")
_ESCAPES = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def escaped(text: str) -> str:
    """Escape the characters that Go escapes for HTML, in a message or a part of it."""
    if _HTML.search(text) is None:
        return text
    return _HTML.sub(lambda match: _ESCAPES[match[0]], text)


def string(text: str) -> str:
    """Encode a string as `encoding/json` does."""
    return escaped(encode_basestring(text))


def raw_string(text: str) -> str:
    """Encode a string with fewer short escapes than `encoding/json`, and without HTML escapes."""
    quoted = encode_basestring(text)
    if "\b" not in text and "\f" not in text:
        return quoted
    parts = re.split("([\b\f])", text)
    inner = [f"\\u{ord(p):04x}" if p in ("\b", "\f") else encode_basestring(p)[1:-1] for p in parts]
    return '"' + "".join(inner) + '"'


def easy_string(text: str) -> str:
    """Encode a string as `easyjson` does."""
    return escaped(raw_string(text))


def indented(value: object) -> str:
    """Encode a document with four spaces per level."""
    return escaped(json.dumps(value, indent=4, ensure_ascii=False))


def compact(value: object) -> str:
    """Encode a document without spaces."""
    return escaped(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
