"""Row checksums: TiDB's CRC-32 over a row's column values, computed again from a row image.

Verifies what the integrity check of a changefeed states; it never repairs and never decides what
becomes of a row that fails.
"""

from binascii import crc32
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from struct import pack
from typing import Literal

from msgspec import Struct

from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import Column, ColumnType, RowChange, TableSchema, row_image
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import parse_vector, read_value

Status = Literal["ok", "mismatch", "absent", "corrupted", "not verifiable"]


class ChecksumVerdict(Struct, frozen=True):
    """What became of a row's checksums; `side` names the image at fault.

    `absent`: none was stated.  `corrupted`: the server itself marked them, so they prove nothing
    (TiDB does so, wrongly, for JSON values that contain dates).  `not verifiable`: the images are
    not complete, or the schema is not the row's.
    """

    status: Status
    side: Literal["current", "previous"] | None = None
    expected: int | None = None
    computed: int | None = None
    reason: str | None = None


def verify_checksum(change: RowChange, schema: TableSchema) -> ChecksumVerdict:
    """Compare the stated checksums of a row with its images.

    `schema` is the one that the row's schema version names, with its columns as the message listed
    them: classic TiCDC lists and hashes them by column id, the new architecture by position.
    """
    stated = change.checksum
    if stated is None or not (stated.current or stated.previous):
        return ChecksumVerdict("absent")
    if stated.corrupted:
        return ChecksumVerdict("corrupted")
    if change.handle_key_only:
        return ChecksumVerdict("not verifiable", reason="the images hold handle-key columns only")
    sides: tuple[tuple[Literal["current", "previous"], int, str | None], ...] = (
        ("current", stated.current, change.after),
        ("previous", stated.previous, change.before),
    )
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
            computed = _crc(_image_bytes(texts, schema.columns))
        except (InvalidValue, MalformedMessage) as problem:
            # Whatever text the checksum was computed from, its type could hold it.
            return ChecksumVerdict("mismatch", side, expected, reason=problem.reason)
        if computed != expected:
            return ChecksumVerdict("mismatch", side, expected, computed)
    return ChecksumVerdict("ok")


def compute_checksum(row: Mapping[str, Value], columns: Sequence[Column]) -> int:
    """Compute the checksum of a typed row; columns the row lacks are taken for generated ones.

    An ENUM that has the empty string among its members is taken to hold that member, not the
    invalid value 0, which prints alike; `verify_checksum` can tell them apart.
    """
    return _crc(
        _value_bytes(row[column.name], column.type)
        for column in columns
        if row.get(column.name) is not None
    )


def _crc(parts: Iterator[bytes]) -> int:
    crc = 0
    for part in parts:
        crc = crc32(part, crc)
    return crc


def _image_bytes(texts: Mapping[str, str | None], columns: Sequence[Column]) -> Iterator[bytes]:
    for column in columns:
        text = texts.get(column.name)
        if text is None:
            continue
        if describe(column.type).kind in ("enum", "set"):
            # The image has the number itself; reading it checks that it is one of the type's.
            read_value(text, column.type)
            yield _integer(int(text))
        else:
            yield _value_bytes(read_value(text, column.type), column.type)


def _value_bytes(value: Value, type: ColumnType) -> bytes:
    return _BYTES[describe(type).kind](value, type)


def _integer(value: int) -> bytes:
    return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _integer_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, int)
    return _integer(value)


def _float_bytes(value: Value, type: ColumnType) -> bytes:
    # FLOAT values are already widened: a Python float is a double.
    return pack("<d", value)


def _decimal_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, Decimal)
    return _sized(format(value, "f").encode())


def _text_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, str)
    return _sized(value.encode(errors="surrogateescape"))


def _binary_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, bytes)
    return _sized(value)


def _enum_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, str)
    if type.elements is None:
        return _integer(int(value))
    if value in type.elements:
        return _integer(type.elements.index(value) + 1)
    return _integer(0)


def _set_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, str)
    if type.elements is None:
        return _integer(int(value))
    names = set(value.split(",")) if value else set()
    return _integer(sum(1 << bit for bit, name in enumerate(type.elements) if name in names))


def _vector_bytes(value: Value, type: ColumnType) -> bytes:
    assert isinstance(value, str)
    elements = parse_vector(value)
    return pack(f"<I{len(elements)}f", len(elements), *elements)


_BYTES: dict[Kind, Callable[[Value, ColumnType], bytes]] = {
    "integer": _integer_bytes,
    "bit": _integer_bytes,
    "year": _integer_bytes,
    "float": _float_bytes,
    "decimal": _decimal_bytes,
    "text": _text_bytes,
    "json": _text_bytes,
    "date": _text_bytes,
    "datetime": _text_bytes,
    "time": _text_bytes,
    "binary": _binary_bytes,
    "enum": _enum_bytes,
    "set": _set_bytes,
    "vector": _vector_bytes,
}
