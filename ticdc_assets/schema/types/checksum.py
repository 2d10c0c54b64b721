"""Row checksums: TiDB's CRC-32 over a row's column values, recomputed from a row image.

Verifies the checksums that a changefeed's integrity check adds to rows; never repairs a row, and
never decides what happens to one that fails.
"""

from binascii import crc32
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from struct import pack
from typing import Literal

from msgspec import Struct

from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import FETCHED, Column, ColumnType, RowChange, TableSchema, row_image
from ticdc_assets.schema.types.either_moment import find_either_moments, list_timestamps
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import parse_vector, read_value

Status = Literal["ok", "mismatch", "absent", "corrupted", "not verifiable"]


class ChecksumVerdict(Struct, frozen=True):
    """The result of verifying a row's checksums; `side` names the image at fault.

    `absent`: the row states none.  `corrupted`: TiDB itself marked them, so they prove nothing (it
    does so, wrongly, for JSON values that contain dates).  `not verifiable`: the images are
    incomplete, the schema is not the row's, or a TIMESTAMP is one of two moments.
    """

    status: Status
    side: Literal["current", "previous"] | None = None
    expected: int | None = None
    computed: int | None = None
    reason: str | None = None


def verify_checksum(change: RowChange, schema: TableSchema) -> ChecksumVerdict:
    """Compare the stated checksums of a row with its images.

    `schema` is that of the row's schema version, with the columns in the message's order: classic
    TiCDC lists and hashes them by column id, the new architecture by position.
    """
    stated = change.checksum
    if stated is None or not (stated.current or stated.previous):
        return ChecksumVerdict("absent")
    if stated.corrupted:
        return ChecksumVerdict("corrupted")
    if change.handle_key_only:
        return ChecksumVerdict("not verifiable", reason="the images hold handle-key columns only")
    sides: list[tuple[Literal["current", "previous"], int, str | None]] = [
        ("current", stated.current, change.after)
    ]
    # The old row of a fetched one may hold the handle key only.
    if change.upstream != FETCHED:
        sides.append(("previous", stated.previous, change.before))
    for side, expected, image in sides:
        if not expected:
            continue
        if image is None:
            return ChecksumVerdict(
                "not verifiable", side, expected, reason="the image was not sent"
            )
        try:
            texts = row_image.load(image)
            unknown = next((name for name in texts if schema.column(name) is None), None)
            if unknown is not None:
                reason = f"column {unknown!r} is not in the schema"
                return ChecksumVerdict("not verifiable", side, expected, reason=reason)
            if find_either_moments(list_timestamps(schema), image):
                reason = "a TIMESTAMP is one of two moments"
                return ChecksumVerdict("not verifiable", side, expected, reason=reason)
            computed = compute_checksum(texts, schema.columns)
        except (InvalidValue, MalformedMessage) as problem:
            # TiDB computed the checksum from a value of the column's type; this is not that value.
            return ChecksumVerdict("mismatch", side, expected, reason=problem.reason)
        if computed != expected:
            return ChecksumVerdict("mismatch", side, expected, computed)
    return ChecksumVerdict("ok")


def compute_checksum(texts: Mapping[str, str | None], columns: Sequence[Column]) -> int:
    """Compute the checksum of a row image; NULLs and columns that it lacks do not count."""
    checksum = 0
    for column in columns:
        text = texts.get(column.name)
        if text is not None:
            checksum = crc32(_encode_text(text, column.type), checksum)
    return checksum


def _encode_text(text: str, type: ColumnType) -> bytes:
    kind = describe(type).kind
    value = read_value(text, type)
    if kind in ("enum", "set"):
        # Hash the number, not the member's name: index 0 and the member '' print alike.
        return _encode_integer(int(text))
    return _ENCODERS[kind](value)


def _prefix_length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _encode_integer(value: Value) -> bytes:
    assert isinstance(value, int)
    return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def _encode_float(value: Value) -> bytes:
    # FLOAT values are already widened: a Python float is a double.
    return pack("<d", value)


def _encode_decimal(value: Value) -> bytes:
    assert isinstance(value, Decimal)
    return _prefix_length(format(value, "f").encode())


def _encode_string(value: Value) -> bytes:
    assert isinstance(value, str)
    return _prefix_length(value.encode(errors="surrogateescape"))


def _encode_binary(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return _prefix_length(value)


def _encode_vector(value: Value) -> bytes:
    assert isinstance(value, str)
    elements = parse_vector(value)
    return pack(f"<I{len(elements)}f", len(elements), *elements)


_ENCODERS: dict[Kind, Callable[[Value], bytes]] = {
    "integer": _encode_integer,
    "bit": _encode_integer,
    "year": _encode_integer,
    "float": _encode_float,
    "decimal": _encode_decimal,
    "text": _encode_string,
    "json": _encode_string,
    "date": _encode_string,
    "datetime": _encode_string,
    "time": _encode_string,
    "binary": _encode_binary,
    "vector": _encode_vector,
}
