"""Decompression of message values: the inverse of `large-message-handle-compression`.

Snappy is the raw block format, LZ4 the frame format.  A message does not say that it is compressed;
the changefeed does.  Every function bounds its output.
"""

from typing import Literal

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from ticdc_assets.errors import MalformedMessage

Compression = Literal["none", "snappy", "lz4"]

# A TiDB transaction entry is at most 120 MB; an update holds a row twice, as escaped text.
MESSAGE_LIMIT = 512 * 1024 * 1024

# The longest output of a Snappy element is a copy of 64 bytes, written in 3 bytes.
_SNAPPY_RATIO = 22
# LZ4 states no size: the first size of the output buffer, in multiples of the input.
_LZ4_STEP = 16


def decompress(data: bytes, method: Compression, limit: int = MESSAGE_LIMIT) -> bytes:
    """Decompress one message; raise `MalformedMessage` if it is not in this format."""
    if method == "none":
        return data
    if method == "snappy":
        return _snappy(data, limit)
    return _lz4(data, limit)


def _snappy(data: bytes, limit: int) -> bytes:
    try:
        # Check the stated length before allocating memory for it.
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise MalformedMessage(f"snappy: states {size} bytes; the limit is {limit}")
        if size > _SNAPPY_RATIO * len(data):
            raise MalformedMessage(
                f"snappy: states {size} bytes, more than {len(data)} compressed bytes can hold"
            )
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
            # One byte more than the limit tells an output that is too long from one that just fits.
            room = limit + 1 - size
            part = frame.decompress(feed, max_length=min(step, room))
            feed = b""
            size += len(part)
            parts.append(part)
            if size > limit:
                raise MalformedMessage(f"lz4: exceeds the limit of {limit} bytes")
            if not part and not frame.eof:
                raise MalformedMessage("lz4: the frame is truncated")
            step *= 2
    except RuntimeError as error:
        raise MalformedMessage(f"lz4: {error}") from None
    if frame.unused_data:
        raise MalformedMessage("lz4: bytes follow the frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)
