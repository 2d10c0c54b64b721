"""Large rows of Open Protocol: in a claim check, by their key only, compressed."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import pytest

from tests.protocols.open_protocol_messages import (
    ID,
    ROW_KEY,
    TS,
    Json,
    decode,
    error_of,
    framed,
    row,
    text_of,
)
from ticdc_assets.events import Quarantined, RowChange, SchemaChange, Watermark


class Objects(dict[str, bytes]):
    def fetch(self, name: str) -> bytes:
        return self[name]


def stored(key: bytes, value: bytes) -> bytes:
    return json.dumps({"key": b64encode(key).decode(), "value": b64encode(value).decode()}).encode()


LOCATION = '"ccl":"file:///a/b/c-d.json"'
CLAIMS = [
    f'{{"ts":{TS},"scm":"test","tbl":"t","t":1,{LOCATION}}}'.encode(),
    # The new-architecture server writes `ohk` twice.
    f'{{"ts":{TS},"scm":"test","tbl":"t","t":1,"ohk":true,"ohk":false,{LOCATION}}}'.encode(),
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_check_is_replaced_by_its_object(claim: bytes) -> None:
    whole = {"u": {"id": ID, "v": {"t": 15, "f": 64, "v": "long"}}}
    content = stored(*framed((ROW_KEY, lz4.frame.compress(json.dumps(whole).encode()))))
    small = lz4.frame.compress(json.dumps({"u": {"id": ID}}).encode())
    event = row(small, claim, compression="lz4", payloads=Objects({"c-d.json": content}))
    assert event.after == '{"id":"1","v":"long"}'
    assert event.claim_check_digest == sha256(content).hexdigest()
    assert not event.handle_key_only


def test_an_invalid_claim_check_is_quarantined() -> None:
    small: dict[str, Any] = {"u": {"id": ID}}
    assert error_of(small, CLAIMS[0]) == "MissingPayload"
    assert error_of(small, CLAIMS[0], payloads=Objects()) == "MissingPayload"
    good: tuple[Json, Json] = (ROW_KEY, small)
    for batch in (
        [(ROW_KEY | {"ts": TS + 1}, small)],
        [(ROW_KEY | {"tbl": "u"}, small)],
        [(CLAIMS[0], small)],
        [good, good],
        [(b"{", small)],
    ):
        objects = Objects({"c-d.json": stored(*framed(*batch))})
        assert error_of(small, CLAIMS[0], payloads=objects) == "MalformedMessage"
    for content in (b"", b"{}", b'{"key":null,"value":""}', stored(b"", b"")):
        objects = Objects({"c-d.json": content})
        assert error_of(small, CLAIMS[0], payloads=objects) == "MalformedMessage"


def test_a_too_large_row_is_marked_handle_key_only() -> None:
    assert row({"u": {"id": ID}}, ROW_KEY | {"ohk": True}).handle_key_only


def test_every_value_but_that_of_a_resolved_event_is_compressed() -> None:
    values: list[Json] = [{"u": {"id": ID}}, {"q": "x", "t": 3}]
    squeezed = [lz4.frame.compress(text_of(value)) for value in values]
    events = decode(
        (ROW_KEY, squeezed[0]),
        (ROW_KEY | {"t": 2}, squeezed[1]),
        (ROW_KEY | {"t": 3}, b""),
        (ROW_KEY, values[0]),
        compression="lz4",
    )
    assert [type(event) for event in events] == [RowChange, SchemaChange, Watermark, Quarantined]
