"""Simple in Avro: every golden message against fastavro, known bytes, and the edges by hand."""

from base64 import b64encode
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests import golden
from tests.protocols.simple_avro_messages import insert, read, write
from tests.protocols.simple_messages import (
    Folder,
    compression_of,
    in_utc,
    loaded,
    step_of,
    unwrapped,
)
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    ColumnType,
    Event,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    Watermark,
)
from ticdc_assets.protocols.compression import MESSAGE_LIMIT, decompress
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder

DATASETS = golden.datasets("simple-avro*") + golden.datasets("newarch-simple-avro*")
UTC = ZoneInfo("UTC")


def decode(value: bytes | None, **settings: Any) -> Event:
    settings = {"tz": UTC} | settings
    (event,) = SimpleAvroDecoder(**settings).decode(Message("topic", 1, 7, None, value))
    return event


def plainly(image: dict[str, Any] | None) -> dict[str, str | None] | None:
    """A row image by the words of the convention, from what fastavro finds."""
    if image is None:
        return None
    return {name: text(value) for name, value in image.items()}


def text(value: Any) -> str | None:
    if isinstance(value, dict):
        return in_utc(value) if "location" in value else str(value["value"] % (1 << 64))
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return None if value is None else str(value)


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_message_decodes_to_what_fastavro_reads(dataset: str) -> None:
    method = compression_of(dataset)
    folder = golden.find_folder(dataset) / "claim-check"
    decoder = SimpleAvroDecoder(tz=UTC, compression=method, payloads=Folder(folder))
    for number, message in enumerate(golden.records(dataset)):
        (event,) = decoder.decode(message)
        assert not isinstance(event, Quarantined), event
        # `test_simple_encodings` compares all rows of the large workload with JSON's.
        if number % (step_of(dataset) * (4 if dataset.startswith("random_") else 1)):
            continue
        assert message.value is not None
        stated = read(decompress(message.value, method, MESSAGE_LIMIT))
        if location := stated.get("claimCheckLocation"):
            stated = read(unwrapped(folder / location.rsplit("/", 1)[1]))
        same(event, stated)


def same(event: Event, stated: dict[str, Any]) -> None:
    assert not isinstance(event, Quarantined)
    assert event.build_ts == stated["buildTs"]
    if isinstance(event, RowChange):
        assert (event.op.value.upper(), event.commit_ts) == (stated["type"], stated["commitTs"])
        assert (event.database, event.table) == (stated["database"], stated["table"])
        assert (event.table_id, event.schema_version) == (
            stated["tableID"],
            stated["schemaVersion"],
        )
        assert event.handle_key_only == bool(stated["handleKeyOnly"])
        checksum = stated["checksum"]
        assert event.checksum == (Checksum(**checksum) if checksum else None)
        assert loaded(event.after) == plainly(stated["data"])
        assert loaded(event.before) == plainly(stated["old"])
    elif isinstance(event, Watermark):
        assert event.ts == stated["commitTs"]
    elif isinstance(event, Bootstrap):
        states(event.schema, stated["tableSchema"])
    else:
        assert (event.sql, event.ddl_type) == (stated["sql"], stated["type"])
        assert event.commit_ts == stated["commitTs"]
        states(event.schema, stated["tableSchema"])
        states(event.pre_schema, stated["preTableSchema"])


def states(schema: TableSchema | None, stated: dict[str, Any] | None) -> None:
    if schema is None or stated is None:
        assert schema is None
        assert stated is None
        return
    assert (schema.database, schema.table) == (stated["database"], stated["table"])
    assert (schema.table_id, schema.version) == (stated["tableID"], stated["version"])
    assert [(c.name, c.type.name, c.nullable) for c in schema.columns] == [
        (c["name"], c["dataType"]["mysqlType"], c["nullable"]) for c in stated["columns"]
    ]
    assert [(i.name, i.unique, i.primary, list(i.columns)) for i in schema.indexes] == [
        (i["name"], i["unique"], i["primary"], i["columns"]) for i in stated["indexes"]
    ]


def test_known_bytes_of_a_watermark() -> None:
    event = decode(bytes.fromhex("16000002828080bb83ccc7b70c9eafe0bcbc63"))
    assert isinstance(event, Watermark)
    assert (event.ts, event.build_ts) == (447984124732375041, 1708923816911)


@pytest.mark.parametrize("ts", [0, 1, 470608230840795136, 1 << 62, (1 << 63) - 1])
def test_timestamps_of_every_size_are_read(ts: int) -> None:
    event = decode(write("WATERMARK", version=1, commitTs=ts, buildTs=ts))
    assert isinstance(event, Watermark)
    assert (event.ts, event.build_ts) == (ts, ts)


def test_known_bytes_of_a_row_with_every_branch() -> None:
    data = bytes.fromhex(
        "1606060202640274c801000a0c0e000000020c026604c3f5484002620a04ff000469640202026e0002750e01"
        "0474730c1a417369612f5368616e6768616926323032302d30312d30312030303a30303a30300000"
    )
    event = decode(data)
    assert isinstance(event, RowChange)
    assert (event.op, event.commit_ts, event.table_id) == (Op.INSERT, 5, 100)
    assert (event.database, event.table, event.schema_version) == ("d", "t", 7)
    assert loaded(event.after) == {
        "f": "3.140000104904175",
        "b": "/wA=",
        "id": "1",
        "n": None,
        "u": "18446744073709551615",
        "ts": "2019-12-31 16:00:00",
    }


def after(data: dict[str, Any], **settings: Any) -> dict[str, str | None] | None:
    event = decode(insert(data), **settings)
    assert isinstance(event, RowChange), event
    return loaded(event.after)


def test_numbers_keep_their_value_to_the_last_digit() -> None:
    numbers = [0, -1, 63, 64, -64, -65, 470608230840795136, (1 << 63) - 1, -(1 << 63)]
    row = after({str(n): n for n in numbers})
    assert row == {str(n): str(n) for n in numbers}
    floats = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16, float("inf")]
    row = after({str(n): ("double", f) for n, f in enumerate(floats)}) or {}
    assert [repr(float(v or "")) for v in row.values()] == [repr(f) for f in floats]


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    data = insert({"name": "xxyy"}).replace(b"xxyy", b"x\xff\xfey").replace(b"name", b"n\xffme")
    event = decode(data)
    assert isinstance(event, RowChange)
    assert loaded(event.after) == {"n\udcffme": "x\udcff\udcfey"}


def test_sql_that_is_not_utf8_is_replaced_and_such_names_are_quarantined() -> None:
    nothing = {"buildTs": 1, "tableSchema": None, "preTableSchema": None}
    ddl = write("DDL", version=1, type="QUERY", sql="ALTER xxyy", commitTs=5, **nothing)
    event = decode(ddl.replace(b"xxyy", b"x\xff\xfey"))
    assert isinstance(event, SchemaChange)
    assert event.sql == "ALTER x\ufffd\ufffdy"
    event = decode(insert({}, table="xxyy").replace(b"xxyy", b"x\xff\xfey"))
    assert isinstance(event, Quarantined)
    assert event.error == "MalformedMessage"


def test_blocks_that_state_their_size_are_read() -> None:
    plain = insert({"a": 1, "b": "two"})
    one_block = bytes.fromhex("0402610202026208") + b"\x06two" + b"\0"
    assert one_block in plain
    # Count -1 and the bytes of the block, then another block.
    two_blocks = bytes.fromhex("010802610202") + bytes.fromhex("02026208") + b"\x06two" + b"\0"
    event = decode(plain.replace(one_block, two_blocks))
    assert isinstance(event, RowChange)
    assert loaded(event.after) == {"a": "1", "b": "two"}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "MalformedMessage"),
        (b"", "MalformedMessage"),
        (b"{}", "MalformedMessage"),
        (insert({})[1:], "MalformedMessage"),
        (b"\0" + insert({}), "MalformedMessage"),
        (insert({}) + b"\0", "MalformedMessage"),
        (insert({})[:-1], "MalformedMessage"),
        (insert({}, version=2), "UnknownMessage"),
        (write("WATERMARK", version=0, commitTs=1, buildTs=1), "UnknownMessage"),
        (write("WATERMARK", version=1, commitTs=-1, buildTs=1), "MalformedMessage"),
        (insert({}, commitTs=-5), "MalformedMessage"),
        (insert({}, schemaVersion=-5), "MalformedMessage"),
        (insert({}, type="UPDATE"), "MalformedMessage"),
        (insert(None), "MalformedMessage"),
        (insert({"ts": {"location": "Mars", "value": "2020-01-01 00:00:00"}}), "MalformedMessage"),
        # The type says watermark, the payload is a row.
        (insert({}).replace(b"\x16\x06\x06", b"\x16\x00\x06"), "MalformedMessage"),
        # A watermark whose timestamp takes eleven bytes, or ten and more than 64 bits.
        (b"\x16\0\0\x02" + b"\xff" * 10 + b"\x01\0", "MalformedMessage"),
        (b"\x16\0\0\x02" + b"\x80" * 9 + b"\x02\0", "MalformedMessage"),
    ],
)
def test_an_invalid_message_is_quarantined(value: bytes | None, error: str) -> None:
    event = decode(value)
    assert isinstance(event, Quarantined), event
    assert event.error == error


def test_schemas_state_types_defaults_and_keys() -> None:
    def column(name: str, **type_: Any) -> dict[str, Any]:
        nothing = {"charset": "", "collate": "", "length": 0}
        return {
            "name": name,
            "dataType": nothing | type_,
            "nullable": False,
            "default": "\x01\x00" if type_["mysqlType"] == "bit" else None,
        }

    schema = {
        "database": "d",
        "table": "t",
        "tableID": 9,
        "version": 8,
        "columns": [
            column("id", mysqlType="bigint", length=20, unsigned=True, zerofill=False),
            column("at", mysqlType="datetime", length=23),
            column("flags", mysqlType="bit", length=10, unsigned=True),
        ],
        "indexes": [
            {
                "name": "x",
                "unique": True,
                "primary": True,
                "nullable": False,
                "columns": ["id", "at"],
            }
        ],
    }
    event = decode(write("BOOTSTRAP", version=1, buildTs=6, tableSchema=schema))
    assert isinstance(event, Bootstrap)
    identity, moment, flags = event.schema.columns
    assert identity.type == ColumnType("bigint", unsigned=True, length=20)
    assert moment.type == ColumnType("datetime", length=23, decimals=3)
    assert flags.type == ColumnType("bit", length=10)
    assert flags.default == "256"
    assert event.schema.key == ("id", "at")
