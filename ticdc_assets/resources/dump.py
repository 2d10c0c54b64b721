"""Read a topic dumped to a file, one JSON record per line.

A line has one of two layouts, recognised by its fields: ours (`key_b64`, `value_b64`), which keeps
every byte, and that of `kcat -J` (`key`, `payload`), which keeps text values only.
"""

import base64
import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated

import msgspec

from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.protocols.message import Message

# More than a broker accepts as one record, in base64.
_MAX_LINE = 256 << 20
_SKIP = 1 << 20

_Partition = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Line(msgspec.Struct):
    """A line of either layout; the value is stated even if it is null."""

    partition: _Partition
    offset: _Offset
    topic: str = ""
    key_b64: str | None = None
    value_b64: str | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    payload: str | msgspec.UnsetType | None = msgspec.UNSET
    timestamp_ms: int | None = None
    ts: int | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def read_dump(path: Path) -> Iterator[Message | Quarantined]:
    """Read the records in file order; yield a `Quarantined` for a line that is not a record."""
    try:
        file = path.open("rb")
    except OSError as error:
        reason = f"cannot read the dump: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, file=str(path), setting="sink-uri") from None
    with file:
        number = 0
        try:
            is_gzip = file.peek(2)[:2] == b"\x1f\x8b"
            stream: BufferedIOBase = gzip.GzipFile(fileobj=file) if is_gzip else file
            for number, line in enumerate(_read_lines(stream), 1):
                if line is None:
                    reason = f"a line of more than {_MAX_LINE:,} bytes"
                    position = FilePosition(str(path), number)
                    yield Quarantined.from_error(MalformedMessage(reason), position)
                elif line.strip():
                    yield _read_record(line, path, number)
        except (EOFError, OSError, zlib.error) as error:
            reason = f"the file cannot be read to its end: {error}"
            position = FilePosition(str(path), number + 1)
            yield Quarantined.from_error(MalformedMessage(reason), position)


def _read_lines(stream: BufferedIOBase) -> Iterator[bytes | None]:
    """Yield the lines; None for one that is too long to be a record.

    A small compressed file may hold a line that exceeds the memory.
    """
    while line := stream.readline(_MAX_LINE + 1):
        if len(line) <= _MAX_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_SKIP)
        yield None


def _read_record(line: bytes, path: Path, number: int) -> Message | Quarantined:
    try:
        record = _decode_line(line)
        if record.value_b64 is not msgspec.UNSET:
            key, value = _decode_base64(record.key_b64), _decode_base64(record.value_b64)
            timestamp = record.timestamp_ms
        elif record.payload is not msgspec.UNSET:
            key, value = _encode_text(record.key), _encode_text(record.payload)
            timestamp = record.ts
        else:
            raise ValueError("neither value_b64 nor payload")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Quarantined.from_error(
            MalformedMessage(f"not a record of a topic: {error}"), FilePosition(str(path), number)
        )
    return Message(record.topic, record.partition, record.offset, key, value, timestamp)


def _decode_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _encode_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
