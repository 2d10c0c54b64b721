"""Events as JSON lines, as `decode` and `events` print them."""

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
    """Format an event as a JSON line, without its unset fields and with row images as objects."""
    fields: dict[str, object] = {"event": _NAMES[type(event)]}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name == "position":
            fields[name] = str(value)
        elif value is not None:
            fields[name] = msgspec.Raw(_encode_image(value)) if name in _IMAGES else value
    try:
        return _encode(fields) + b"\n"
    except UnicodeEncodeError:
        # msgspec does not encode lone surrogates, which stand for bytes that are not UTF-8.
        return _encode({name: _escape(value) for name, value in fields.items()}) + b"\n"


def _encode_image(image: str) -> bytes:
    # A line break in JSON can only be whitespace between values: strings escape theirs.
    text = image.replace("\n", " ").replace("\r", " ")
    return text.encode(errors="backslashreplace")


def _escape(value: object) -> msgspec.Raw:
    if isinstance(value, msgspec.Raw):
        return value
    return msgspec.Raw(json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode())
