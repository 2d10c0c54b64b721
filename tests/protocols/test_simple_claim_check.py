"""Claim checks: the row comes from the object, and from nowhere it should not."""

import hashlib
import json
from base64 import b64encode

import lz4.frame  # type: ignore[import-untyped]
import pytest

from tests import golden
from tests.protocols.simple_messages import Folder, decode, loaded, row
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Quarantined, RowChange
from ticdc_assets.protocols import payload
from ticdc_assets.protocols.compression import Compression

LOCATION = "s3://bucket/prefix/0b0d.json"
FULL = row('{"id":"1","blob":"AAAA"}')


class Objects:
    """A claim-check storage that is a dictionary."""

    def __init__(self, **objects: bytes | Exception) -> None:
        self._objects = {name.replace("_", "."): content for name, content in objects.items()}
        self.fetched: list[str] = []

    def fetch(self, name: str) -> bytes:
        self.fetched.append(name)
        content = self._objects[name]
        if isinstance(content, Exception):
            raise content
        return content


def stub(location: str = LOCATION) -> str:
    return row('{"id":"1"}', handleKeyOnly=True, claimCheckLocation=location)


def wrapped(value: bytes) -> bytes:
    return json.dumps({"key": None, "value": b64encode(value).decode()}).encode()


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("method", ["none", "lz4"])
def test_the_row_in_the_object_replaces_the_stub(raw: bool, method: Compression) -> None:
    def packed(text: str) -> bytes:
        return lz4.frame.compress(text.encode()) if method == "lz4" else text.encode()

    content = packed(FULL) if raw else wrapped(packed(FULL))
    objects = Objects(**{"0b0d.json": content})
    event = decode(packed(stub()), payloads=objects, raw_payloads=raw, compression=method)
    assert isinstance(event, RowChange), event
    assert loaded(event.after) == {"id": "1", "blob": "AAAA"}
    assert not event.handle_key_only
    assert event.claim_check_digest == hashlib.sha256(content).hexdigest()
    assert objects.fetched == ["0b0d.json"]


def test_a_row_without_claim_check_fetches_nothing() -> None:
    objects = Objects()
    event = decode(row(handleKeyOnly=True, claimCheckLocation=""), payloads=objects)
    assert isinstance(event, RowChange)
    assert event.handle_key_only
    assert not objects.fetched


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "MissingPayload"),
        (KeyError("0b0d.json"), "MissingPayload"),
        (OSError("https://key:secret@bucket: access denied"), "MissingPayload"),
        (b"", "MalformedMessage"),
        (b"{}", "MalformedMessage"),
        (b'{"value":"not base64!"}', "MalformedMessage"),
        (b'{"key":"!","value":""}', "MalformedMessage"),
        (b'{"value":null}', "MalformedMessage"),
        (b"[" * 100_000, "MalformedMessage"),
        (wrapped(b""), "MalformedMessage"),
        (wrapped(stub().encode()), "MalformedMessage"),
        (wrapped(b'{"version":1,"type":"WATERMARK","commitTs":5}'), "MalformedMessage"),
        (wrapped(row(commitTs=4).encode()), "MalformedMessage"),
        (wrapped(row(table="other").encode()), "MalformedMessage"),
    ],
)
def test_messages_whose_object_is_absent_or_wrong_are_quarantined(
    content: bytes | Exception | None, error: str
) -> None:
    objects = None if content is None else Objects(**{"0b0d.json": content})
    event = decode(stub(), payloads=objects)
    assert isinstance(event, Quarantined), event
    assert event.error == error
    if objects:
        assert objects.fetched == ["0b0d.json"]
    if error == "MissingPayload":
        assert "0b0d.json" in event.reason
    assert "secret" not in event.reason
    assert "bucket" not in event.reason


@pytest.mark.parametrize(
    "location",
    ["/", "s3://bucket/", "s3://bucket/..", ".", "a/b\\c", "a/b\0c", "a/b\nc", "a/?x=1", "\udcff"],
)
def test_locations_without_a_file_name_are_malformed(location: str) -> None:
    with pytest.raises(MalformedMessage):
        payload.object_name(location)


@pytest.mark.parametrize(
    "location", ["0b0d.json", LOCATION, "s3://key:secret@bucket/x/0b0d.json?region=eu&secret=y/z"]
)
def test_only_the_last_path_element_of_a_location_counts(location: str) -> None:
    assert payload.object_name(location) == "0b0d.json"


@pytest.mark.parametrize("workload", ["types", "lifecycle"])
def test_rows_from_claim_checks_equal_the_rows_of_the_feed_without_them(workload: str) -> None:
    dataset = f"{workload}/simple-json-claim-check"
    plain = {
        (event.commit_ts, event.table, event.op, event.before, event.after)
        for record in golden.records(f"{workload}/simple-json")
        if isinstance(event := decode(record.value), RowChange)
    }
    folder = Folder(golden.find_folder(dataset) / "claim-check")
    claimed = [
        event
        for record in golden.records(dataset)
        if isinstance(event := decode(record.value, payloads=folder), RowChange)
        and event.claim_check_digest
    ]
    assert claimed
    for event in claimed:
        key = (event.commit_ts, event.table, event.op, event.before, event.after)
        assert key in plain
