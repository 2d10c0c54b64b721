"""Bytes that nobody sent: no decoder of Simple raises, hangs or takes memory beyond them."""

import time
import tracemalloc
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import golden
from tests.protocols.simple_avro_messages import insert
from tests.protocols.simple_messages import row
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Quarantined, RowChange, row_image
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.decoder import SimpleDecoder
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder

SHANGHAI = ZoneInfo("Asia/Shanghai")
JSON = SimpleJsonDecoder(tz=SHANGHAI)
AVRO = SimpleAvroDecoder(tz=SHANGHAI)
MEGABYTE = 1 << 20
MANY = 100_000


DATASETS = {
    JSON: ("types/simple-json-tz-shanghai", "types/simple-json-checksum"),
    AVRO: ("types/simple-avro", "types/simple-avro-checksum"),
}
DECODERS = pytest.mark.parametrize("decoder", [JSON, AVRO], ids=["json", "avro"])


@cache
def samples(decoder: SimpleDecoder) -> list[bytes]:
    """Messages of the decoder's datasets: for each size in steps of fifty bytes, the last."""
    found = []
    for dataset in DATASETS[decoder]:
        values = [record.value for record in golden.records(dataset) if record.value is not None]
        found += {len(value) // 50: value for value in values}.values()
    return found


def decode_safely(decoder: SimpleDecoder, value: bytes) -> None:
    (event,) = decoder.decode(Message("t", 0, 0, None, value))
    if isinstance(event, RowChange):
        for image in (event.before, event.after):
            if image is not None:
                try:
                    row_image.load(image)
                except MalformedMessage:
                    continue


@DECODERS
@given(value=st.binary(max_size=200), start=st.sampled_from([b"", b"{", b'{"version":1,"'] * 2))
def test_any_bytes_yield_an_event(decoder: SimpleDecoder, value: bytes, start: bytes) -> None:
    decode_safely(decoder, start + value)
    for kind in (b"\x16\0\0\2", b"\x16\2\2\2", b"\x16\4\4\2", b"\x16\6\6\2"):
        decode_safely(decoder, kind + value)


@DECODERS
def test_every_truncated_message_is_quarantined(decoder: SimpleDecoder) -> None:
    for value in samples(decoder)[::4]:
        for size in range(0, len(value), 1 + len(value) // 60):
            (event,) = decoder.decode(Message("t", 0, 0, None, value[:size]))
            assert isinstance(event, Quarantined), value[:size]


@DECODERS
@given(data=st.data())
def test_flipped_bits_yield_an_event(decoder: SimpleDecoder, data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(samples(decoder))))
    places = st.integers(0, len(value) * 8 - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=8)):
        value[place // 8] ^= 1 << place % 8
    decode_safely(decoder, bytes(value))


def avro_row(data: str) -> bytes:
    """The start of a row with its images replaced by raw bytes, in hexadecimal."""
    start = insert({})
    assert start.endswith(bytes.fromhex("020000"))
    return start[:-3] + bytes.fromhex(data)


DEEP = b"[" * MANY
HOSTILE = {
    "json data nested deep": (JSON, row("x").encode().replace(b"x", DEEP + b"]" * MANY)),
    "json data nested deep, open": (JSON, b'{"version":1,"data":' + b'{"a":' * MANY),
    "json unknown field nested deep": (JSON, b'{"x":' + DEEP),
    "json number of many digits": (JSON, b'{"version":1,"commitTs":' + b"9" * MANY + b"}"),
    "json fraction of many digits": (JSON, b'{"version":1.' + b"9" * MANY + b"}"),
    "json half a string": (JSON, b'{"version":1,"sql":"' + b"a" * MANY),
    "json many timestamps, one wrong": (
        JSON,
        row(
            "{"
            + ",".join(
                f'"{n}":{{"location":"Asia/Tokyo","value":"2024-01-01 00:00:00"}}'
                for n in range(10_000)
            )
            + ',"x":{"location":"Asia/Tokyo","value":""}}'
        ).encode(),
    ),
    "avro name of 2^40 bytes": (AVRO, avro_row("0202 808080808080 01")),
    "avro name of negative length": (AVRO, avro_row("0202 01 00 00 00")),
    "avro text of 100 MB": (AVRO, avro_row("0202 0261 08 80 84 af 5f 61 61")),
    "avro text of negative length": (AVRO, avro_row("0202 0261 08 03 61 00 00")),
    # Each text would lead back to its own length.
    "avro texts that stand still": (
        AVRO,
        b"\x16\2\2\2" + b"\0" * 5 + b"\2" + b"\0" * 6 + b"\2" + b"\xfe" + b"\xff" * 8 + b"\0\1",
    ),
    "avro map of 2^62 entries": (AVRO, avro_row("02 feffffffffffffffff00")),
    "avro map of -2^63 entries": (AVRO, avro_row("02 ffffffffffffffffff01 00")),
    "avro endless number": (AVRO, avro_row("0202 0261 02") + b"\xff" * MANY),
    "avro map of many entries, cut": (AVRO, avro_row("02 80 89 02") + b"\0\0" * 16_000),
    "avro value of an unknown branch": (AVRO, avro_row("0202 0261 10 00 00")),
    "avro value of a negative branch": (AVRO, avro_row("0202 0261 01 00 00")),
    "avro schema of many empty names": (
        AVRO,
        b"\x16\2\2\2\0" + b"\0\0\0\0" + b"\x80\x89\x02" + b"\0" * 17_000,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sizes_take_little_time_and_memory(name: str) -> None:
    decoder, value = HOSTILE[name]
    message = Message("t", 0, 0, None, value)
    started = time.process_time()
    (event,) = decoder.decode(message)
    assert time.process_time() - started < 2
    assert isinstance(event, Quarantined), event
    assert len(event.reason) < 300
    tracemalloc.start()
    try:
        list(decoder.decode(message))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE + 40 * len(value)


def test_a_row_of_many_megabytes_takes_a_few_times_its_size() -> None:
    size = 8 * MEGABYTE
    for decoder, value in (
        (JSON, row(f'{{"a":"{"b" * size}"}}').encode()),
        (AVRO, insert({"a": "b" * size})),
    ):
        message = Message("t", 0, 0, None, value)
        tracemalloc.start()
        try:
            (event,) = decoder.decode(message)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(event, RowChange)
        assert peak < 4.5 * size
