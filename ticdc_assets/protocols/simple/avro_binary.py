"""Avro's binary encoding: the primitives, read from bytes at a place.

Every reader takes the data and where to start, and returns the value and where it ends; past the
end it raises IndexError.  Nothing here knows a schema.  Lengths and counts are believed only as far
as the data goes, so no reader takes more memory or time than the message is large.  Written out
because it takes less time than general readers, and says for itself what hostile bytes can do.
"""

from collections.abc import Callable
from typing import TypeVar

from ticdc_assets.errors import MalformedMessage

T = TypeVar("T")
Reader = Callable[[bytes, int], tuple[T, int]]

# A 64 bit number takes at most ten bytes of seven bits.
_LAST_SHIFT = 63
# Bits of a length's first byte that say: more bytes follow, or it is negative.
_NOT_SHORT = 0x81


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag varint, int or long."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number = byte & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _LAST_SHIFT:
            raise MalformedMessage(f"a number of more than 64 bits before byte {at}")
    if shift == _LAST_SHIFT and byte > 1:
        raise MalformedMessage(f"a number of more than 64 bits before byte {at}")
    return (number >> 1) ^ -(number & 1), at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """A byte of 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise MalformedMessage(f"byte {at} is no boolean")
    return byte == 1, at + 1


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their length before them."""
    length, at = read_long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise MalformedMessage(f"the length {length} before byte {at} leads out of the message")
    return data[at:end], end


def read_string(data: bytes, at: int, errors: str = "strict") -> tuple[str, int]:
    """Text; raises UnicodeDecodeError where `errors` does not say what to do about such bytes."""
    size = data[at]
    if size & _NOT_SHORT:
        raw, end = read_bytes(data, at)
    else:
        # As `read_bytes` does, without the calls: most texts are short.
        end = at + 1 + (size >> 1)
        raw = data[at + 1 : end]
        if end > len(data):
            raise IndexError
    return raw.decode("utf-8", errors), end


def read_branch(data: bytes, at: int, branches: int) -> tuple[int, int]:
    """The index of a union's branch or an enum's symbol, of so many (at most 64) that there are."""
    index = data[at]
    if index & _NOT_SHORT or index >> 1 >= branches:
        raise MalformedMessage(f"byte {at} chooses none of {branches}")
    return index >> 1, at + 1


def read_optional(data: bytes, at: int, read: Reader[T]) -> tuple[T | None, int]:
    """A union of null and one type."""
    branch, at = read_branch(data, at, 2)
    return read(data, at) if branch else (None, at)


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """The number of items in the next block of an array or map; 0 ends it.

    It may be any number: who reads so many items, each of a byte or more, meets the end first.
    """
    count, at = read_long(data, at)
    if count < 0:
        # A negative count is followed by the block's size in bytes, for readers that skip.
        _, at = read_long(data, at)
        count = -count
    return count, at


def read_array(data: bytes, at: int, read: Reader[T]) -> tuple[tuple[T, ...], int]:
    """Items of one type, in blocks."""
    items: list[T] = []
    while True:
        count, at = read_count(data, at)
        if count == 0:
            return tuple(items), at
        for _ in range(count):
            item, at = read(data, at)
            items.append(item)
