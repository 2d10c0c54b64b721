"""Structs as JSON text, even if a table name contains bytes that are not valid UTF-8."""

import json
from typing import TypeVar

import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)


def write_json(value: msgspec.Struct) -> str:
    """Write a struct as JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # msgspec cannot encode lone surrogates; the standard library escapes them.
        return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"))


def read_json(text: str, kind: type[_T]) -> _T:
    """Read the JSON text that `write_json` wrote."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(text), type=kind, str_keys=True)
