"""Undoing `large-message-handle-compression`: a whole message value, snappy or lz4.

Snappy is the raw block format, lz4 the LZ4 frame format.  Nothing in a message says that it is
compressed, so nothing is guessed here.  No output grows beyond the limit it was asked for with.
"""

from typing import Literal

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from ticdc_assets.errors import MalformedMessage

Compression = Literal["none", "snappy", "lz4"]

# A TiDB transaction entry is at most 120 MB; an update holds a row twice, as escaped text.
MESSAGE_LIMIT = 512 * 1024 * 1024

# The longest output of a snappy element is a 64 byte copy written in 3 bytes.
_SNAPPY_RATIO = 22
# lz4 states no size: the first step of the output buffer, before it grows.
_LZ4_STEP = 16


def decompress(data: bytes, method: Compression, limit: int = MESSAGE_LIMIT) -> bytes:
    """Undo the compression of one message; raise `MalformedMessage` if it is not so compressed."""
    if method == "none":
        return data
    if method == "snappy":
        return _snappy(data, limit)
    return _lz4(data, limit)


def _snappy(data: bytes, limit: int) -> bytes:
    try:
        # Reads the length in front only; it must be believable before memory is taken for it.
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise MalformedMessage(f"snappy: states {size} bytes, allowed are {limit}")
        if size > _SNAPPY_RATIO * len(data):
            raise MalformedMessage(f"snappy: {len(data)} bytes cannot hold the {size} they state")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise MalformedMessage(f"snappy: {error}") from None


def _lz4(data: bytes, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size = 0
    step = _LZ4_STEP * len(data)
    try:
        feed = data
        while not frame.eof:
            # One byte more than allowed tells too much from just enough.
            room = limit + 1 - size
            part = frame.decompress(feed, max_length=min(step, room))
            feed = b""
            size += len(part)
            parts.append(part)
            if size > limit:
                raise MalformedMessage(f"lz4: holds more than the allowed {limit} bytes")
            if not part and not frame.eof:
                raise MalformedMessage("lz4: the frame is cut short")
            step *= 2
    except RuntimeError as error:
        raise MalformedMessage(f"lz4: {error}") from None
    if frame.unused_data:
        raise MalformedMessage("lz4: bytes follow the frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)
