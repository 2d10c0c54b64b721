"""Events as JSON lines: what `decode` and `events` print, and what tests compare."""

import json

import msgspec

from ticdc_assets.events import (
    Bootstrap,
    Event,
    Quarantined,
    RowChange,
    SchemaChange,
    Watermark,
)

_NAMES: dict[type, str] = {
    RowChange: "row change",
    SchemaChange: "schema change",
    Bootstrap: "bootstrap",
    Watermark: "watermark",
    Quarantined: "quarantined",
}
_IMAGES = ("before", "after", "observed")
_encode = msgspec.json.Encoder().encode


def format_event(event: Event) -> bytes:
    """One event as a JSON line; what it does not state is left out, row images stand as objects."""
    fields: dict[str, object] = {"event": _NAMES[type(event)]}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name == "position":
            fields[name] = str(value)
        elif value is not None:
            fields[name] = msgspec.Raw(_image(value)) if name in _IMAGES else value
    try:
        return _encode(fields) + b"\n"
    except UnicodeEncodeError:
        # Lone surrogates, which stand for bytes that are not UTF-8.
        return _encode({name: _escaped(value) for name, value in fields.items()}) + b"\n"


def _image(image: str) -> bytes:
    # Between values JSON may have line breaks, inside of texts it never has.
    text = image.replace("\n", " ").replace("\r", " ")
    return text.encode(errors="backslashreplace")


def _escaped(value: object) -> msgspec.Raw:
    if isinstance(value, msgspec.Raw):
        return value
    return msgspec.Raw(json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode())
