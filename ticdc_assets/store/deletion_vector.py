"""Which rows of a data file are deleted: Delta's deletion vectors.

A vector is a list of 64-bit row numbers as 32-bit roaring bitmaps by their upper half, in the
portable format (https://github.com/RoaringBitmap/RoaringFormatSpec).  Delta keeps it in a file of
vectors, with its size and checksum, or in the log itself, in Z85.
"""

import base64
import uuid
import zlib
from struct import error, unpack_from

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from pyarrow import fs

from ticdc_assets.store.delta_log import DeletionVector

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)
_ENCODED_UUID = 20
_MAGIC = 1681511377
# The first number of a bitmap, alone or below its count of containers less one.
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
# From this many containers on, a bitmap with runs has their offsets, too.
_MIN_CONTAINERS_WITH_OFFSETS = 4
_MAX_ARRAY = 4096
_BITMAP_BYTES = 8192

Rows = npt.NDArray[np.int64]


def read_deleted_rows(folder: fs.FileSystem, vector: DeletionVector) -> Rows:
    """Read the numbers of the deleted rows of a file of a table; raise `OSError` if damaged."""
    try:
        rows = _decode(_read(folder, vector))
    except (ValueError, IndexError, OverflowError, error) as problem:
        raise OSError(f"a deletion vector is damaged: {problem}") from None
    if len(rows) != vector.cardinality:
        raise OSError(f"a deletion vector has {len(rows)} rows instead of {vector.cardinality}")
    return rows


def find_vector_file(vector: DeletionVector) -> str:
    """Return the path, below its table, of the file that has a vector stored as "u"."""
    encoded = vector.path_or_inline_dv
    name = uuid.UUID(bytes=_decode_z85(encoded[-_ENCODED_UUID:]))
    return f"{encoded[:-_ENCODED_UUID]}/deletion_vector_{name}.bin".removeprefix("/")


def move_vector(vector: DeletionVector, folder: str) -> DeletionVector:
    """Return a vector stored as "u" as a table names it whose `folder` has the vector's table."""
    encoded = vector.path_or_inline_dv
    prefix = f"{folder}/{encoded[:-_ENCODED_UUID]}".removesuffix("/")
    return replace(vector, path_or_inline_dv=prefix + encoded[-_ENCODED_UUID:])


def _read(folder: fs.FileSystem, vector: DeletionVector) -> bytes:
    match vector.storage_type:
        case "i":
            return _decode_z85(vector.path_or_inline_dv)
        case "u":
            path = find_vector_file(vector)
        case other:
            raise OSError(f"a deletion vector is stored as {other!r}, which Spark alone reads")
    start = vector.offset or 0
    with folder.open_input_file(path) as file:
        file.seek(start)
        (size,) = unpack_from(">i", file.read(4))
        content = file.read(size)
        (checksum,) = unpack_from(">I", file.read(4))
    if zlib.crc32(content) != checksum:
        raise OSError(f"{path}: a deletion vector has another checksum")
    return bytes(content)


def _decode_z85(text: str) -> bytes:
    return base64.b85decode(text.encode("ascii").translate(_TO_B85))


def _decode(content: bytes) -> Rows:
    magic, count = unpack_from("<iq", content)
    if magic != _MAGIC:
        raise ValueError("it has another format")
    at = 12
    parts = [np.empty(0, np.int64)]
    for _ in range(count):
        (upper,) = unpack_from("<I", content, at)
        at, lower = _decode_bitmap(content, at + 4)
        parts += [part + (upper << 32) for part in lower]
    return np.concatenate(parts)


def _decode_bitmap(content: bytes, at: int) -> tuple[int, list[Rows]]:
    """Decode a 32-bit bitmap; return where it ends, and its numbers."""
    (cookie,) = unpack_from("<I", content, at)
    at += 4
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = content[at : at + (count + 7) // 8]
        at += len(runs)
    elif cookie == _WITHOUT_RUNS:
        (count,) = unpack_from("<I", content, at)
        at += 4
    else:
        raise ValueError("a bitmap has another format")
    keys = np.frombuffer(content, "<u2", 2 * count, at).reshape(-1, 2)
    at += 4 * count
    if not runs or count >= _MIN_CONTAINERS_WITH_OFFSETS:
        at += 4 * count
    parts = []
    for number, (upper, last) in enumerate(keys.tolist()):
        if runs and runs[number // 8] >> number % 8 & 1:
            at, lower = _decode_runs(content, at)
        elif last + 1 > _MAX_ARRAY:
            bits = np.frombuffer(content, np.uint8, _BITMAP_BYTES, at)
            lower = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += _BITMAP_BYTES
        else:
            lower = np.frombuffer(content, "<u2", last + 1, at).astype(np.int64)
            at += 2 * (last + 1)
        parts.append(lower + (upper << 16))
    return at, parts


def _decode_runs(content: bytes, at: int) -> tuple[int, Rows]:
    (count,) = unpack_from("<H", content, at)
    runs = np.frombuffer(content, "<u2", 2 * count, at + 2).reshape(-1, 2).astype(np.int64)
    numbers = [np.arange(start, start + length + 1) for start, length in runs.tolist()]
    return at + 2 + 4 * count, np.concatenate([np.empty(0, np.int64), *numbers])
