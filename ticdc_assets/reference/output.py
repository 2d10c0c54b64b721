"""Events and rows as the JSON lines that people and tests read."""

import msgspec

from ticdc_assets.events import (
    Bootstrap,
    Event,
    Rejected,
    RowChange,
    SchemaChange,
    Watermark,
)
from ticdc_assets.events.row_image import dump
from ticdc_assets.reference.table import Table
from ticdc_assets.schema.types.row import RowWriter

_NAMES: dict[type, str] = {
    RowChange: "row change",
    SchemaChange: "schema change",
    Bootstrap: "bootstrap",
    Watermark: "watermark",
    Rejected: "rejected",
}
_IMAGES = ("before", "after", "observed")
_encode = msgspec.json.Encoder().encode


def event_line(event: Event) -> bytes:
    """One event as a JSON line; what it does not state is left out, row images stand as objects."""
    fields: dict[str, object] = {"event": _NAMES[type(event)]}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value is None:
            continue
        if name == "position":
            value = str(value)
        elif name in _IMAGES:
            value = msgspec.Raw(value.encode())
        fields[name] = value
    return _encode(fields) + b"\n"


def row_lines(table: Table) -> list[bytes]:
    """A table's rows as JSON lines `{column: text or null}`, sorted so that runs repeat."""
    write = RowWriter(table.schema)
    return sorted(dump(write(row)).encode() + b"\n" for row in table)
