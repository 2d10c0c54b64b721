"""Whole-message compression: round trips, limits, and what is not compressed at all."""

import tracemalloc

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import golden
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.protocols.compression import Compression, decompress

METHODS: tuple[Compression, ...] = ("snappy", "lz4")
MEGABYTE = 1 << 20


def compress(data: bytes, method: Compression) -> bytes:
    if method == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    # TiCDC's frames state no content size.
    frame: bytes = lz4.frame.compress(data, store_size=False)
    return frame


@pytest.mark.parametrize("method", METHODS)
@given(data=st.binary(max_size=2000), times=st.integers(1, 60))
def test_compressed_data_is_decompressed_up_to_the_limit(
    method: Compression, data: bytes, times: int
) -> None:
    plain = data * times
    packed = compress(plain, method)
    assert decompress(packed, method, len(plain)) == plain
    if plain:
        with pytest.raises(MalformedMessage, match="limit"):
            decompress(packed, method, len(plain) - 1)


def test_uncompressed_messages_pass_unchanged() -> None:
    assert decompress(b"\xff", "none", 0) == b"\xff"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "data", [b"", b'{"version":1,"type":"WATERMARK"}', bytes.fromhex("16000002"), b"\xff" * 30]
)
def test_messages_that_are_not_compressed_are_malformed(method: Compression, data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decompress(data, method, MEGABYTE)


@pytest.mark.parametrize("method", METHODS)
def test_truncated_data_and_trailing_bytes_are_malformed(method: Compression) -> None:
    packed = compress(b"TiCDC" * 50, method)
    for data in (*(packed[:size] for size in range(len(packed))), packed + b"\0", packed + packed):
        with pytest.raises(MalformedMessage):
            decompress(data, method, MEGABYTE)


@pytest.mark.parametrize("method", METHODS)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_decompressed_or_malformed(method: Compression, data: bytes) -> None:
    for start in (b"", b"\x04\x22\x4d\x18"):
        try:
            decompress(start + data, method, MEGABYTE)
        except MalformedMessage:
            continue


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # 4 GB in six bytes; 256 MB in 105, which no snappy block can reach.
        (bytes.fromhex("ffffffff0f00"), "states 4294967295 bytes"),
        (bytes.fromhex("8080808001") + b"a" * 100, "can hold"),
    ],
)
def test_a_stated_size_is_checked_before_anything_else(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        decompress(data, "snappy", 1 << 30)


def test_a_decompression_bomb_takes_no_memory_beyond_the_limit() -> None:
    bomb = compress(bytes(100 * MEGABYTE), "lz4")
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="limit"):
            decompress(bomb, "lz4", 8 * MEGABYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MEGABYTE


@pytest.mark.parametrize(
    ("dataset", "method"),
    [("types/simple-json-lz4", "lz4"), ("types/simple-avro-snappy", "snappy")],
)
def test_real_messages_are_compressed_as_described(dataset: str, method: Compression) -> None:
    for record in golden.records(dataset):
        assert record.value is not None
        assert decompress(record.value, method, MEGABYTE)[:1] in (b"{", b"\x16")
