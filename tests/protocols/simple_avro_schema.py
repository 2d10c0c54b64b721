"""The Avro schema of Simple, for fastavro: the oracle that reads and writes messages in tests."""

import io
from typing import Any

import fastavro

from tests.protocols.simple_messages import INSERT


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "com.pingcap.simple.avro",
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def enum(name: str, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": symbols}


def maybe(kind: Any) -> list[Any]:
    return ["null", kind]


def many(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


VALUE = ["null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint"]
ROW = maybe({"type": "map", "values": VALUE})
TABLE = record(
    "TableSchema",
    database="string",
    table="string",
    tableID="long",
    version="long",
    columns=many(
        record(
            "ColumnSchema",
            name="string",
            dataType=record(
                "DataType",
                mysqlType="string",
                charset="string",
                collate="string",
                length="long",
                decimal=maybe("int"),
                elements=maybe(many("string")),
                unsigned=maybe("boolean"),
                zerofill=maybe("boolean"),
            ),
            nullable="boolean",
            default=maybe("string"),
        )
    ),
    indexes=many(
        record(
            "IndexSchema",
            name="string",
            unique="boolean",
            primary="boolean",
            nullable="boolean",
            columns=many("string"),
        )
    ),
)
CHECKSUM = record("Checksum", version="int", corrupted="boolean", current="long", previous="long")
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
MESSAGE = record(
    "Message",
    type=enum("MessageType", "WATERMARK", "BOOTSTRAP", "DDL", "DML"),
    payload=[
        record("Watermark", version="int", commitTs="long", buildTs="long"),
        record("Bootstrap", version="int", buildTs="long", tableSchema="TableSchema"),
        record(
            "DDL",
            version="int",
            type=enum("DDLType", *DDL_TYPES),
            sql="string",
            commitTs="long",
            buildTs="long",
            tableSchema=maybe("TableSchema"),
            preTableSchema=maybe("TableSchema"),
        ),
        record(
            "DML",
            version="int",
            database="string",
            table="string",
            tableID="long",
            type=enum("DMLType", "INSERT", "UPDATE", "DELETE"),
            commitTs="long",
            buildTs="long",
            schemaVersion="long",
            claimCheckLocation=maybe("string"),
            handleKeyOnly=maybe("boolean"),
            checksum=maybe("Checksum"),
            data=ROW,
            old=ROW,
        ),
    ],
)
NAMED = [
    TABLE,
    CHECKSUM,
    record("Timestamp", location="string", value="string"),
    record("UnsignedBigint", value="long"),
]
_names: dict[str, Any] = {}
for _schema in NAMED:
    fastavro.parse_schema(_schema, named_schemas=_names)
SCHEMA = fastavro.parse_schema(MESSAGE, named_schemas=_names)


def read(data: bytes) -> dict[str, Any]:
    """Read a message as any Avro library does: union branch 11, then the record."""
    assert data[0] == 0x16
    message: Any = fastavro.schemaless_reader(io.BytesIO(data[1:]), SCHEMA, None)
    payload: dict[str, Any] = message["payload"]
    return payload


def write(kind: str, **payload: Any) -> bytes:
    out = io.BytesIO(b"\x16")
    out.seek(1)
    record_name = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap"}.get(kind, kind)
    branch = (f"com.pingcap.simple.avro.{record_name}", payload)
    fastavro.schemaless_writer(out, SCHEMA, {"type": kind, "payload": branch})
    return out.getvalue()


def insert(data: dict[str, Any] | None, **fields: Any) -> bytes:
    return write("DML", **(INSERT | {"data": data} | fields))
