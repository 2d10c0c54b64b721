"""Messages of Open Protocol that tests make, and how they read them."""

import json
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from ticdc_assets.events import Event, Quarantined, RowChange, TopicPosition, row_image
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder

TS = 415508856908021766
ROW_KEY = {"ts": TS, "scm": "test", "tbl": "t", "t": 1}
ID = {"t": 3, "h": True, "f": 11, "v": 1}
Json = dict[str, Any] | bytes


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def text_of(content: Json) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def frame(contents: Sequence[Json]) -> bytes:
    return b"".join(number(len(text)) + text for text in map(text_of, contents))


def framed(*events: tuple[Json, Json]) -> tuple[bytes, bytes]:
    keys, values = zip(*events, strict=True)
    return number(1) + frame(keys), frame(values)


def decode_bytes(
    key: bytes | None, value: bytes | None, tz: str = "UTC", **settings: Any
) -> list[Event]:
    decoder = OpenProtocolDecoder(tz=ZoneInfo(tz), **settings)
    return list(decoder.decode(Message("topic", 2, 11, key, value)))


def decode(*events: tuple[Json, Json], tz: str = "UTC", **settings: Any) -> list[Event]:
    return decode_bytes(*framed(*events), tz, **settings)


def row(value: Json, key: Json = ROW_KEY, tz: str = "UTC", **settings: Any) -> RowChange:
    (event,) = decode((key, value), tz=tz, **settings)
    assert isinstance(event, RowChange), event
    return event


def error_of(value: Json, key: Json = ROW_KEY, tz: str = "UTC", **settings: Any) -> str:
    (event,) = decode((key, value), tz=tz, **settings)
    assert isinstance(event, Quarantined), event
    assert event.position == TopicPosition("topic", 2, 11)
    assert event.reason
    return event.error


def column(code: int, flags: int, value: str, tz: str = "UTC") -> tuple[str | None, str | None]:
    """The image text and the observed type of a column, its value given as JSON text."""
    event = row(b'{"u":{"c":{"t":%d,"f":%d,"v":%s}}}' % (code, flags, value.encode()), tz=tz)
    assert event.after is not None
    assert event.observed is not None
    return row_image.load(event.after)["c"], row_image.load(event.observed)["c"]
