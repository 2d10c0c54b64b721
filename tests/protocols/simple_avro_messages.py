"""Simple messages in Avro, written and read by fastavro: the oracle of the tests."""

import io
from typing import Any

import fastavro

from tests.protocols.simple_messages import INSERT
from ticdc_assets.protocols.simple.avro_schema import SCHEMA, type_name

PAYLOADS = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap", "DDL": "DDL", "DML": "DML"}


def read(data: bytes) -> dict[str, Any]:
    """Read the payload of a message as any Avro library does."""
    assert data[0] == 0x16
    message: Any = fastavro.schemaless_reader(io.BytesIO(data), SCHEMA, None)
    payload: dict[str, Any] = message["payload"]
    return payload


def write(kind: str, **payload: Any) -> bytes:
    out = io.BytesIO()
    message = {"type": kind, "payload": (type_name(PAYLOADS[kind]), payload)}
    fastavro.schemaless_writer(out, SCHEMA, (type_name("Message"), message))
    return out.getvalue()


def insert(data: dict[str, Any] | None, **fields: Any) -> bytes:
    return write("DML", **(INSERT | {"data": data} | fields))
