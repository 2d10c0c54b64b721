"""A topic dumped to a file, one record a line.

Two layouts are read, told apart by their keys: ours (`key_b64`, `value_b64`), which is exact, and
what `kcat -J` prints (`key`, `payload`), which is exact for text values only.
"""

import base64
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Rejected, TopicPosition
from ticdc_assets.protocols.message import Message


class _Line(msgspec.Struct):
    """A line of either layout."""

    partition: int
    offset: int
    topic: str = ""
    key_b64: str | None = None
    value_b64: str | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    payload: str | None = None
    timestamp_ms: int | None = None
    ts: int | None = None


_decode = msgspec.json.Decoder(_Line).decode


def read_dump(path: Path) -> Iterator[Message | Rejected]:
    """Read the records in the order of the file; a line that is none becomes a `Rejected`."""
    if not path.is_file():
        raise ConfigError("no such file", file=str(path), setting="sink-uri")
    with _open(path) as lines:
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(line, path, number)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield _rejected(path, number + 1, f"the file is not whole: {error}")


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")


def _record(line: bytes, path: Path, number: int) -> Message | Rejected:
    try:
        record = _decode(line)
        if record.value_b64 is msgspec.UNSET:
            key, value = _text(record.key), _text(record.payload)
            timestamp = record.ts
        else:
            key, value = _base64(record.key_b64), _base64(record.value_b64)
            timestamp = record.timestamp_ms
    except (msgspec.MsgspecError, ValueError) as error:
        return _rejected(path, number, f"no record of a topic: {error}")
    return Message(record.topic, record.partition, record.offset, key, value, timestamp)


def _rejected(path: Path, number: int, reason: str) -> Rejected:
    position = TopicPosition(str(path), 0, number)
    return Rejected(position=position, error="MalformedMessage", reason=reason)


def _base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _text(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")
