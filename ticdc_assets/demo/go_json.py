"""JSON as Go writes it: what is escaped, and how it is indented."""

import json
import re
from json.encoder import encode_basestring

_HTML = re.compile("[<>&\u2028\u2029]")
_ESCAPES = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def escaped(text: str) -> str:
    """Escape what Go escapes for the sake of HTML, in whole messages or parts of them."""
    if _HTML.search(text) is None:
        return text
    return _HTML.sub(lambda match: _ESCAPES[match[0]], text)


def string(text: str) -> str:
    """A string as `encoding/json` writes it."""
    return escaped(encode_basestring(text))


def raw_string(text: str) -> str:
    """A string with fewer short escapes than Go's own encoder has, and HTML left alone."""
    quoted = encode_basestring(text)
    if "\b" not in text and "\f" not in text:
        return quoted
    parts = re.split("([\b\f])", text)
    inner = [f"\\u{ord(p):04x}" if p in ("\b", "\f") else encode_basestring(p)[1:-1] for p in parts]
    return '"' + "".join(inner) + '"'


def easy_string(text: str) -> str:
    """A string as `easyjson` writes it."""
    return escaped(raw_string(text))


def indented(value: object) -> str:
    """A document with four blanks a level."""
    return escaped(json.dumps(value, indent=4, ensure_ascii=False))


def compact(value: object) -> str:
    """A document without blanks."""
    return escaped(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
