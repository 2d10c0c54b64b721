"""Values of ours as JSON, whatever is in their texts: names of tables may hold bytes of no text."""

import json
from typing import TypeVar

import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)


def write_json(value: msgspec.Struct) -> str:
    """Write a value down."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # The other encoder escapes lone surrogates.
        return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"))


def read_json(text: str, kind: type[_T]) -> _T:
    """Take up what `write_json` wrote."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(text), type=kind, str_keys=True)
