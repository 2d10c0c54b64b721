"""Structs as JSON text, even if a table name contains bytes that are not valid UTF-8."""

import json
from threading import Lock
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making = Lock()


def write_json(value: msgspec.Struct) -> str:
    """Write a struct as JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # msgspec cannot encode lone surrogates; the standard library escapes them.
        return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"))


def read_json(text: str, kind: type[_T]) -> _T:
    """Read the JSON text that `write_json` wrote."""
    decoder = find_decoder(kind)
    try:
        read: _T = decoder.decode(text)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(text), type=kind, str_keys=True)
    return read


def find_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, which one thread makes while others wait.

    msgspec describes a struct when it first reads one.  A second thread that reads one meanwhile
    gets half of the description, and the process dies.  So whatever threads may be the first to
    read is read by a decoder from here, or by one that its module makes when it is imported.
    """
    with _making:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        return decoder
