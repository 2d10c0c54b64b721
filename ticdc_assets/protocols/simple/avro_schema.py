"""The Avro schema of Simple, `message.avsc`: the union of twelve types that TiCDC declares.

TiCDC sends data of the last type only, `Message`, without header or schema id.
"""

import json
from importlib.resources import files
from typing import Any, cast

import fastavro

_NAMESPACE = "com.pingcap.simple.avro"

# The twelve types in order; together they are the schema of a datum.
SCHEMA = cast(
    "list[dict[str, Any]]",
    fastavro.parse_schema(json.loads(files(__package__).joinpath("message.avsc").read_text())),
)


def type_name(name: str) -> str:
    """Return the full name of one of the schema's types."""
    return f"{_NAMESPACE}.{name}"
