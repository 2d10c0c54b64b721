"""The bytes of a data file: decompressed, cut to a range of whole lines, and held in a window.

A range is a part of a file that is not compressed and in which a line break is always the end of a
row.  It begins at the first line that starts in it, and ends with the last.
"""

import zlib
from typing import Protocol

import cramjam
import pyarrow as pa

from ticdc_assets.dumpling.path import Compression
from ticdc_assets.errors import MalformedMessage

_CHUNK, _SMALL_READ = 1 << 20, 1 << 16
# The head of a file, which is read apart, needs little; blocks of rows are the faster the larger.
_FIRST_WINDOW, _WINDOW = 1 << 18, 1 << 22
# A TiDB transaction is at most 120 MB, and hexadecimal digits double it.
MAX_ROW = 256 << 20

_SNAPPY_STREAM, _SNAPPY_DATA, _SNAPPY_PLAIN = 0xFF, 0x00, 0x01
_SNAPPY_HEAD = b"sNaPpY"
_SNAPPY_MOST = 65536
_FIRST_SKIPPABLE = 0x80


class Source(Protocol):
    """A file that is open for reading; storage errors are `OSError`s."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, position: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


class Readable(Protocol):
    """Bytes in order."""

    def read(self, size: int, /) -> bytes: ...


def decompress(source: Source, compression: Compression) -> Readable:
    """Return the content of a file; reading it raises `MalformedMessage` if it is damaged."""
    match compression:
        case "none":
            return source
        case "gzip":
            return _Gzip(source)
        case "zstd":
            return _Zstd(source)
        case "snappy":
            return _Snappy(source)


class _Gzip:
    """One or several gzip members."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._member = zlib.decompressobj(wbits=31)
        self._pending = b""
        # Whether a member has ended: before the first one, the file is truncated.
        self._is_between = False

    def read(self, size: int, /) -> bytes:
        while True:
            if not self._pending:
                self._pending = self._source.read(_CHUNK)
                if not self._pending:
                    if self._is_between:
                        return b""
                    raise MalformedMessage("gzip: the file is truncated")
            self._is_between = False
            try:
                content = self._member.decompress(self._pending, size)
            except zlib.error as error:
                raise MalformedMessage(f"gzip: {error}") from None
            self._pending = self._member.unconsumed_tail
            if self._member.eof:
                self._pending = self._member.unused_data
                self._member = zlib.decompressobj(wbits=31)
                self._is_between = True
            if content:
                return content


class RecordingSource:
    """A source for libraries, as a Python file: it keeps its own error.

    A library raises the same errors for a storage that fails and for damaged content.
    """

    closed = False

    def __init__(self, source: Source) -> None:
        self._source = source
        self.error: OSError | None = None

    def read(self, size: int = -1, /) -> bytes:
        """Read bytes, and keep the error that this raises."""
        try:
            return bytes(self._source.read(size))
        except OSError as error:
            self.error = error
            raise

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Go to a position."""
        self._source.seek(position, whence)
        return self._source.tell()

    def tell(self) -> int:
        """Return the position."""
        return self._source.tell()

    def close(self) -> None:
        """Leave the source open: its owner closes it."""


class _Zstd:
    def __init__(self, source: Source) -> None:
        self._source = RecordingSource(source)
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, mode="r"), "zstd")

    def read(self, size: int, /) -> bytes:
        try:
            # What comes before damage is lost with the read that meets it.
            return bytes(self._stream.read(min(size, _SMALL_READ)))
        except (OSError, pa.ArrowException) as error:
            if self._source.error is not None:
                raise self._source.error from None
            raise MalformedMessage(f"zstd: {error}") from None


class _Snappy:
    """Snappy's framing format, whose chunks hold 64 KiB at most."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._is_first = True

    def read(self, size: int, /) -> bytes:
        while True:
            head = self._take(4, may_end=True)
            if not head:
                return b""
            kind, length = head[0], int.from_bytes(head[1:], "little")
            body = self._take(length)
            if self._is_first and (kind, body) != (_SNAPPY_STREAM, _SNAPPY_HEAD):
                raise MalformedMessage("snappy: not the framing format")
            self._is_first = False
            if kind == _SNAPPY_PLAIN:
                content = body[4:]
            elif kind == _SNAPPY_DATA:
                content = self._decompress(body[4:])
            elif kind >= _FIRST_SKIPPABLE:
                continue
            else:
                raise MalformedMessage(f"snappy: unknown chunk {kind:#x}")
            if content:
                return content

    def _take(self, size: int, *, may_end: bool = False) -> bytes:
        parts: list[bytes] = []
        while size and (part := self._source.read(size)):
            parts.append(part)
            size -= len(part)
        if size and (parts or not may_end):
            raise MalformedMessage("snappy: the file is truncated")
        return b"".join(parts)

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            if cramjam.snappy.decompress_raw_len(chunk) > _SNAPPY_MOST:
                raise MalformedMessage("snappy: a chunk is larger than 64 KiB")
            return bytes(cramjam.snappy.decompress_raw(chunk))
        except cramjam.DecompressionError as error:
            raise MalformedMessage(f"snappy: {error}") from None


class Window:
    """The bytes of a file from `offset` on, as far as they were read."""

    def __init__(self, source: Readable, offset: int = 0, end: int | None = None) -> None:
        """`end`: lines that start there or later belong to the next range."""
        self._source = source
        self._end = end
        self._step = _FIRST_WINDOW
        self.data = b""
        self.offset = offset
        self.has_ended = False
        # Whether what follows is in another range.
        self.is_cut = False
        # Why nothing can be read after `data`.
        self.problem: str | None = None

    def grow(self) -> bool:
        """Read more: at least as much as there is, so that all copying is linear."""
        if self.has_ended:
            return False
        if len(self.data) > MAX_ROW:
            self.has_ended = True
            self.problem = f"a row is larger than {MAX_ROW >> 20} MiB, which TiDB does not allow"
            return False
        wanted = max(self._step, len(self.data))
        self._step = min(4 * self._step, _WINDOW)
        parts = [self.data]
        try:
            while wanted > 0:
                part = self._source.read(wanted)
                if not part:
                    self.has_ended = True
                    break
                parts.append(part)
                wanted -= len(part)
        except MalformedMessage as error:
            self.has_ended = True
            self.problem = error.reason
        before = len(self.data)
        self.data = b"".join(parts)
        self._cut()
        return len(self.data) > before

    def _cut(self) -> None:
        if self._end is None or self.offset + len(self.data) < self._end:
            return
        last = self.data.find(b"\n", max(self._end - 1 - self.offset, 0))
        if last >= 0:
            self.data = self.data[: last + 1]
            self.has_ended = self.is_cut = True

    def drop(self, size: int) -> None:
        """Forget the first bytes."""
        self.data = self.data[size:]
        self.offset += size


def open_window(
    source: Source, compression: Compression, start: int = 0, end: int | None = None
) -> Window:
    """Return the window of a file, or of one of its ranges."""
    if not start:
        return Window(decompress(source, compression), 0, end)
    source.seek(start - 1)
    window = Window(source, start - 1, end)
    while (first := window.data.find(b"\n")) < 0 and not window.is_cut:
        # Nothing of a line that began before is needed.
        window.drop(len(window.data))
        if not window.grow():
            return window
    window.drop(first + 1)
    return window
