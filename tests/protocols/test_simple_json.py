"""Simple in JSON: every golden message against a plain reading of it, and the edges by hand."""

import json
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests import golden
from tests.protocols.simple_messages import (
    Folder,
    compression_of,
    decode,
    in_utc,
    loaded,
    row,
    step_of,
    unwrapped,
)
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Event,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
)
from ticdc_assets.protocols.compression import MESSAGE_LIMIT, decompress
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder

DATASETS = golden.datasets("simple-json*") + golden.datasets("newarch-simple-json*")
NEW_YORK = ZoneInfo("America/New_York")


def plainly(image: dict[str, Any] | None) -> dict[str, str | None] | None:
    """A row image by the words of the convention."""
    if image is None:
        return None
    return {
        name: in_utc(value) if isinstance(value, dict) else value for name, value in image.items()
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_message_decodes_to_what_a_plain_json_reader_reads(dataset: str) -> None:
    method = compression_of(dataset)
    folder = golden.find_folder(dataset) / "claim-check"
    decoder = SimpleJsonDecoder(tz=ZoneInfo("UTC"), compression=method, payloads=Folder(folder))
    for number, record in enumerate(golden.records(dataset)):
        (event,) = decoder.decode(record)
        assert not isinstance(event, Quarantined), event
        if number % step_of(dataset):
            continue
        assert record.value is not None
        stated = json.loads(decompress(record.value, method, MESSAGE_LIMIT))
        if location := stated.get("claimCheckLocation"):
            stated = json.loads(unwrapped(folder / location.rsplit("/", 1)[1]))
        assert event == expected(stated, event, record)


def expected(stated: dict[str, Any], event: Event, record: Message) -> Event:
    position = TopicPosition(record.topic, record.partition, record.offset)
    build_ts = stated["buildTs"]
    if "data" in stated or "old" in stated:
        assert isinstance(event, RowChange)
        assert loaded(event.after) == plainly(stated.get("data"))
        assert loaded(event.before) == plainly(stated.get("old"))
        checksum = stated.get("checksum")
        return RowChange(
            op=Op(stated["type"].lower()),
            commit_ts=stated["commitTs"],
            database=stated["database"],
            table=stated["table"],
            position=position,
            before=event.before,
            after=event.after,
            table_id=stated["tableID"],
            schema_version=stated["schemaVersion"],
            handle_key_only=stated.get("handleKeyOnly", False),
            checksum=Checksum(**checksum) if checksum else None,
            build_ts=build_ts,
            claim_check_digest=event.claim_check_digest,
        )
    if stated["type"] == "WATERMARK":
        return Watermark(ts=stated["commitTs"], position=position, build_ts=build_ts)
    table = stated.get("tableSchema")
    if stated["type"] == "BOOTSTRAP":
        assert isinstance(event, Bootstrap)
        states(event.schema, table)
        return Bootstrap(schema=event.schema, position=position, build_ts=build_ts)
    assert isinstance(event, SchemaChange)
    states(event.schema, table)
    states(event.pre_schema, stated.get("preTableSchema"))
    return SchemaChange(
        commit_ts=stated["commitTs"],
        database=table["schema"] if table else "",
        table=table["table"] if table else "",
        sql=stated["sql"],
        position=position,
        ddl_type=stated["type"],
        schema=event.schema,
        pre_schema=event.pre_schema,
        build_ts=build_ts,
    )


def states(schema: Any, stated: dict[str, Any] | None) -> None:
    """Check the parts of a table schema that need no interpretation."""
    if stated is None:
        assert schema is None
        return
    assert schema.origin == "stated"
    assert (schema.database, schema.table) == (stated["schema"], stated["table"])
    assert (schema.table_id, schema.version) == (stated["tableID"], stated["version"])
    for column, shape in zip(schema.columns, stated["columns"], strict=True):
        type_ = shape["dataType"]
        assert (column.name, column.nullable) == (shape["name"], shape["nullable"])
        assert column.type.name == type_["mysqlType"]
        assert column.type.elements == (tuple(type_.get("elements", ())) or None)
        assert (column.default is None) == (shape["default"] is None)
    for index, shape in zip(schema.indexes, stated["indexes"], strict=True):
        assert (index.name, index.columns) == (shape["name"], tuple(shape["columns"]))
        assert (index.unique, index.primary) == (shape["unique"], shape["primary"])


@pytest.mark.parametrize("workload", ["types", "lifecycle"])
def test_the_server_zone_does_not_change_a_row(workload: str) -> None:
    def rows(dataset: str) -> Iterator[tuple[Any, ...]]:
        decoder = SimpleJsonDecoder(tz=NEW_YORK)
        for record in golden.records(dataset):
            for event in decoder.decode(record):
                if isinstance(event, RowChange):
                    yield event.commit_ts, event.table, event.op, event.before, event.after

    in_shanghai = sorted(rows(f"{workload}/simple-json-tz-shanghai"), key=repr)
    assert in_shanghai == sorted(rows(f"{workload}/simple-json"), key=repr)
    assert in_shanghai


def after(data: str, **settings: Any) -> dict[str, str | None] | None:
    event = decode(row(data), **settings)
    assert isinstance(event, RowChange), event
    return loaded(event.after)


@pytest.mark.parametrize("location", ["System", "Local", "local", "", "America/New_York"])
@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ("2024-07-04 12:00:00", "2024-07-04 16:00:00"),
        ("2024-01-04 12:00:00.5", "2024-01-04 17:00:00.5"),
        ("2037-12-31 23:59:59.000001", "2038-01-01 04:59:59.000001"),
        ("0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
    ],
)
def test_timestamps_are_converted_to_utc_and_keep_their_digits(
    location: str, local: str, utc: str
) -> None:
    stamp = json.dumps({"location": location, "value": local})
    assert after(f'{{"id":"1","ts":{stamp}}}', tz=NEW_YORK) == {"id": "1", "ts": utc}
    tight = stamp.replace(": ", ":").replace(", ", ",")
    assert after(f'{{"ts":{tight},"id":"1"}}', tz=NEW_YORK) == {"id": "1", "ts": utc}


@pytest.mark.parametrize(
    "stamp",
    [
        '{"location":"Atlantis","value":"2024-01-01 00:00:00"}',
        '{"location":"../UTC","value":"2024-01-01 00:00:00"}',
        '{"location":"America","value":"2024-01-01 00:00:00"}',
        '{"location":"Asia/Tokyo","value":"0001-01-01 00:00:00"}',
        '{"location":"Asia/Tokyo","value":"2024-02-30 00:00:00"}',
        '{"location":"Asia/Tokyo","value":""}',
        '{"location":"Asia/Tokyo"}',
        '{"location":"Asia/Tokyo","value":null}',
        '{"location":"Asia/Tokyo","value":"2024-01-01 00:00:00","x":1}',
    ],
)
def test_timestamps_with_an_invalid_zone_or_text_are_malformed(stamp: str) -> None:
    event = decode(row(f'{{"id":"1","ts":{stamp}}}'))
    assert isinstance(event, Quarantined)
    assert event.error == "MalformedMessage"


def test_columns_named_location_and_value_are_not_timestamps() -> None:
    names = '{"location":"Asia/Tokyo","value":"2024-01-01 00:00:00"}'
    assert after(names) == json.loads(names)
    stamp = '{"location":"Asia/Tokyo","value":"2024-01-01 09:00:00"}'
    assert after(f'{{"location":{stamp},"value":{stamp}}}') == {
        "location": "2024-01-01 00:00:00",
        "value": "2024-01-01 00:00:00",
    }


def test_text_that_looks_like_a_timestamp_is_kept() -> None:
    text = ':{"location":"Asia/Tokyo","value":"2024-01-01 09:00:00"}'
    stamp = '{"location":"Asia/Tokyo","value":"2024-01-01 09:00:00"}'
    image = f'{{"a":{json.dumps(text)},"b":{stamp},{json.dumps(text)}:null}}'
    assert after(image) == {"a": text, "b": "2024-01-01 00:00:00", text: None}


@pytest.mark.parametrize(
    ("kind", "old", "op"),
    [("INSERT", "null", Op.INSERT), ("UPDATE", '{"id":"2"}', Op.UPDATE)],
)
def test_null_images_are_absent(kind: str, old: str, op: Op) -> None:
    event = decode(row(type=kind)[:-1] + f',"old":{old}}}')
    assert isinstance(event, RowChange)
    assert event.op == op


def test_a_message_is_classified_by_content_before_type() -> None:
    assert isinstance(decode(row(type="WATERMARK")), Quarantined)
    assert isinstance(decode('{"version":1,"type":"WATERMARK","commitTs":5}'), Watermark)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "MalformedMessage"),
        (b"", "MalformedMessage"),
        (b"null", "MalformedMessage"),
        (b"[]", "MalformedMessage"),
        (b"\xef\xbb\xbf" + row().encode(), "MalformedMessage"),
        (row() + "x", "MalformedMessage"),
        (row()[:-1], "MalformedMessage"),
        (row(version=2), "UnknownMessage"),
        (row(version=None), "MalformedMessage"),
        (row(commitTs=-1), "MalformedMessage"),
        (row(commitTs=1 << 63), "MalformedMessage"),
        (row(commitTs=5.0), "MalformedMessage"),
        (row(commitTs="5"), "MalformedMessage"),
        (row(commitTs=None), "MalformedMessage"),
        (row(commitTs=True), "MalformedMessage"),
        (row(database=None), "MalformedMessage"),
        (row(table=5), "MalformedMessage"),
        (row(tableID=1 << 64), "MalformedMessage"),
        (row(schemaVersion=-1), "MalformedMessage"),
        (row(schemaVersion=None), "MalformedMessage"),
        (row(handleKeyOnly="yes"), "MalformedMessage"),
        (row(checksum={"version": 1, "current": 1 << 32}), "MalformedMessage"),
        (row(type="DELETE"), "MalformedMessage"),
        (row(type="UPSERT"), "MalformedMessage"),
        (row("[]"), "MalformedMessage"),
        (row('"x"'), "MalformedMessage"),
        (row("{"), "MalformedMessage"),
        (row().encode().replace(b'"1"', b'"\xff"'), "MalformedMessage"),
        (row().encode().replace(b'"d"', b'"\xff"'), "MalformedMessage"),
        ('{"version":1,"type":"INSERT","commitTs":5}', "MalformedMessage"),
        ('{"version":1,"type":"WATERMARK"}', "MalformedMessage"),
        ('{"version":1,"type":"BOOTSTRAP","commitTs":0}', "MalformedMessage"),
        (
            '{"version":1,"type":"BOOTSTRAP","commitTs":0,'
            '"tableSchema":{"schema":"d","table":"t","columns":[]}}',
            "MalformedMessage",
        ),
        ('{"version":1,"type":"ALTER","commitTs":5}', "MalformedMessage"),
        ('{"version":1,"type":"ALTER","sql":"x"}', "MalformedMessage"),
        ('{"version":1,"type":"GRANT","sql":"x","commitTs":5}', "UnknownMessage"),
        (
            '{"version":1,"type":"ALTER","sql":"x","commitTs":5,"tableSchema":[]}',
            "MalformedMessage",
        ),
    ],
)
def test_an_invalid_message_is_quarantined_with_its_position(
    value: bytes | str | None, error: str
) -> None:
    event = decode(value)
    assert isinstance(event, Quarantined), event
    assert event.error == error
    assert event.position == TopicPosition("topic", 1, 7)
    assert event.reason


def test_a_database_ddl_names_no_table() -> None:
    event = decode('{"version":1,"type":"QUERY","sql":"CREATE DATABASE `x`","commitTs":5}')
    assert isinstance(event, SchemaChange)
    assert (event.database, event.table, event.schema) == ("", "", None)
