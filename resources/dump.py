"""A topic dumped to a file, one record a line.

Two layouts are read, told apart by their keys: ours (`key_b64`, `value_b64`), which is exact, and
what `kcat -J` prints (`key`, `payload`), which is exact for text values only.
"""

import base64
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.protocols.message import Message

_Partition = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Line(msgspec.Struct):
    """A line of either layout; each states its value, be it null."""

    partition: _Partition
    offset: _Offset
    topic: str = ""
    key_b64: str | None = None
    value_b64: str | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    payload: str | msgspec.UnsetType | None = msgspec.UNSET
    timestamp_ms: int | None = None
    ts: int | None = None


_decode = msgspec.json.Decoder(_Line).decode


def read_dump(path: Path) -> Iterator[Message | Quarantined]:
    """Read the records in the order of the file; a line that is none becomes a `Quarantined`."""
    try:
        file = path.open("rb")
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise ConfigError(reason, file=str(path), setting="sink-uri") from None
    with file:
        number = 0
        try:
            zipped = file.peek(2)[:2] == b"\x1f\x8b"
            lines = gzip.GzipFile(fileobj=file) if zipped else file
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(line, path, number)
        except (EOFError, OSError, zlib.error) as error:
            yield _rejected(path, number + 1, f"the file cannot be read to its end: {error}")


def _record(line: bytes, path: Path, number: int) -> Message | Quarantined:
    try:
        record = _decode(line)
        if record.value_b64 is not msgspec.UNSET:
            key, value = _base64(record.key_b64), _base64(record.value_b64)
            timestamp = record.timestamp_ms
        elif record.payload is not msgspec.UNSET:
            key, value = _text(record.key), _text(record.payload)
            timestamp = record.ts
        else:
            raise ValueError("neither value_b64 nor payload")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return _rejected(path, number, f"no record of a topic: {error}")
    return Message(record.topic, record.partition, record.offset, key, value, timestamp)


def _rejected(path: Path, number: int, reason: str) -> Quarantined:
    position = FilePosition(str(path), number)
    return Quarantined(position=position, error="MalformedMessage", reason=reason)


def _base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
