"""The framing of Open Protocol: a Kafka record holds a batch of events.

    key      version, 8 bytes   (length, 8 bytes; key of the event)...
    value                       (length, 8 bytes; value of the event)...

Numbers are big endian.  This module does not read keys and values.
"""

from struct import Struct

from ticdc_assets.errors import MalformedMessage, UnknownMessage

VERSION = 1

_number = Struct(">Q")


def split(key: bytes | None, value: bytes | None) -> list[tuple[bytes, bytes]]:
    """Split a record into the key and value of each of its events."""
    if key is None or value is None:
        raise MalformedMessage("a record without key or value")
    if len(key) < _number.size:
        raise MalformedMessage("the key is too short for a version")
    (version,) = _number.unpack_from(key)
    if version != VERSION:
        raise UnknownMessage(f"version {version}")
    keys = _parts(key, _number.size, "key")
    values = _parts(value, 0, "value")
    if len(keys) != len(values):
        raise MalformedMessage(f"{len(keys)} keys but {len(values)} values")
    if not keys:
        raise MalformedMessage("a record without events")
    return list(zip(keys, values, strict=True))


def _parts(data: bytes, start: int, what: str) -> list[bytes]:
    parts: list[bytes] = []
    end = len(data)
    while start < end:
        left = end - start - _number.size
        if left < 0:
            raise MalformedMessage(f"the {what} ends inside a length")
        (length,) = _number.unpack_from(data, start)
        # Check the length before allocating memory for it.
        if length > left:
            raise MalformedMessage(f"the {what} states a length of {length} bytes; {left} are left")
        start += _number.size + length
        parts.append(data[start - length : start])
    return parts
