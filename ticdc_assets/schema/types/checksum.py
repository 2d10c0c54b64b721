"""Row checksums: TiDB's CRC-32 over a row's column values, recomputed from a row.

Verifies the checksums that a changefeed's integrity check adds to rows; never repairs a row, and
never decides what happens to one that fails.
"""

from binascii import crc32
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from struct import pack
from typing import Literal

from msgspec import Struct

from ticdc_assets.errors import CONTENT_ERRORS, describe_content_error
from ticdc_assets.events import Column, ColumnType, RowChange, TableSchema, row_image
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.types.either_moment import find_either_moments, list_timestamps
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import make_reader, parse_vector

Status = Literal["ok", "mismatch", "absent", "corrupted", "not verifiable"]
Side = Literal["current", "previous"]


class ChecksumVerdict(Struct, frozen=True):
    """The result of verifying a row's checksums; `side` names the image at fault.

    `absent`: the row states none.  `corrupted`: TiDB itself marked them, so they prove nothing (it
    does so, wrongly, for JSON values that contain dates).  `not verifiable`: the images are
    incomplete, the schema is not the row's, or a TIMESTAMP is one of two moments.
    """

    status: Status
    side: Side | None = None
    expected: int | None = None
    computed: int | None = None
    reason: str | None = None

    def describe(self) -> str:
        """Describe a mismatch."""
        actual = self.reason or f"computed as {self.computed}"
        return f"the {self.side} checksum is stated as {self.expected}, {actual}"


class ChecksumVerifier:
    """Verifies rows that were written under one schema."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._hasher = RowHasher(schema)
        self._timestamps = list_timestamps(schema)

    def verify(
        self, change: RowChange, typed_row: Mapping[str, Value] | None = None
    ) -> ChecksumVerdict:
        """Compare the stated checksums of a row with its images.

        `typed_row` is the new row as its table gets it.  Where given, it is hashed in place of the
        image that arrived.
        """
        stated = change.checksum
        if stated is None or not (stated.current or stated.previous):
            return ChecksumVerdict("absent")
        if stated.corrupted:
            return ChecksumVerdict("corrupted")
        if change.handle_key_only:
            reason = "the images hold handle-key columns only"
            return ChecksumVerdict("not verifiable", reason=reason)
        if stated.current:
            verdict = self._verify("current", stated.current, change.after, typed_row)
            if verdict.status != "ok":
                return verdict
        if stated.previous:
            return self._verify("previous", stated.previous, change.before)
        return ChecksumVerdict("ok")

    def _verify(
        self,
        side: Side,
        expected: int,
        image: str | None,
        typed_row: Mapping[str, Value] | None = None,
    ) -> ChecksumVerdict:
        def fail(status: Status, reason: str) -> ChecksumVerdict:
            return ChecksumVerdict(status, side, expected, reason=reason)

        if image is None:
            return fail("not verifiable", "the image was not sent")
        try:
            if find_either_moments(self._timestamps, image):
                return fail("not verifiable", "a TIMESTAMP is one of two moments")
            computed = None
            if typed_row is not None:
                computed = self._hasher.hash_values(typed_row)
            if computed is None:
                texts = row_image.load(image)
                unknown = next((n for n in texts if self._schema.column(n) is None), None)
                if unknown is not None:
                    return fail("not verifiable", f"column {unknown!r} is not in the schema")
                if side == "previous" and self._is_key(texts):
                    return fail("not verifiable", "the image holds handle-key columns only")
                computed = self._hasher.hash_texts(texts)
        except CONTENT_ERRORS as error:
            # TiDB computed the checksum from a value of the column's type; this is not that value.
            return fail("mismatch", describe_content_error(error))
        if computed != expected:
            return ChecksumVerdict("mismatch", side, expected, computed)
        return ChecksumVerdict("ok")

    def _is_key(self, texts: Mapping[str, str | None]) -> bool:
        """Return whether an image has the key alone, as deletes and fetched rows may have it."""
        stored = [c.name for c in self._schema.columns if c.generated != "virtual"]
        return len(texts) < len(stored) and set(texts) == set(self._schema.key)


def verify_checksum(change: RowChange, schema: TableSchema) -> ChecksumVerdict:
    """Verify one row; use `ChecksumVerifier` for many rows of one schema."""
    return ChecksumVerifier(schema).verify(change)


class RowHasher:
    """Computes the checksums of rows of one schema.

    NULLs do not count, nor columns that a row lacks.  TiCDC hashes columns in the order in which it
    states them: classic servers by column id, the new architecture by position.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._columns = _order_columns(schema)
        # Made at a column's first value: an unknown type has none, and may have no values.
        self._text_encoders: dict[str, Callable[[str], bytes]] = {}
        self._value_encoders: dict[str, Callable[[Value], bytes | None]] = {}

    def hash_texts(self, texts: Mapping[str, str | None]) -> int:
        """Compute the checksum of a row image in which ENUM and SET values are numbers."""
        known, parts = self._text_encoders, []
        for column in self._columns:
            text = texts.get(column.name)
            if text is not None:
                encode = known.get(column.name)
                if encode is None:
                    encode = known[column.name] = _make_text_encoder(column.type)
                parts.append(encode(text))
        return crc32(b"".join(parts))

    def hash_values(self, values: Mapping[str, Value]) -> int | None:
        """Compute the checksum of a typed row; None if a member's name has several numbers.

        An empty ENUM or SET does where the empty text is a member.
        """
        known, parts = self._value_encoders, []
        for column in self._columns:
            value = values.get(column.name)
            if value is not None:
                encode = known.get(column.name)
                if encode is None:
                    encode = known[column.name] = _make_value_encoder(column.type)
                data = encode(value)
                if data is None:
                    return None
                parts.append(data)
        return crc32(b"".join(parts))


def _order_columns(schema: TableSchema) -> list[Column]:
    places = {fold_name(name): place for place, name in enumerate(schema.checksum_order)}
    # A column that the order lacks is newer than any that it has.
    return sorted(schema.columns, key=lambda c: places.get(fold_name(c.name), len(places)))


@lru_cache(1024)
def _make_text_encoder(type: ColumnType) -> Callable[[str], bytes]:
    """Return the function that encodes texts of a type, with ENUM and SET as numbers."""
    kind, read = describe(type).kind, make_reader(type)
    if kind not in ("enum", "set"):
        encode = _ENCODERS[kind]
        return lambda text: encode(read(text))

    def encode_number(text: str) -> bytes:
        # Fails for a number that no member has.
        read(text)
        return _encode_integer(int(text))

    return encode_number


@lru_cache(1024)
def _make_value_encoder(type: ColumnType) -> Callable[[Value], bytes | None]:
    """Return the function that encodes values; it returns None for a name with several numbers."""
    kind = describe(type).kind
    if kind not in ("enum", "set"):
        return _ENCODERS[kind]
    if type.elements is None:
        return lambda value: _encode_integer(int(str(value)))
    is_enum, elements = kind == "enum", type.elements
    # The empty text is index 0 of any ENUM, and bitmask 0 of any SET.
    copies = Counter(("", *elements))
    numbers = {name: at + 1 if is_enum else 1 << at for at, name in enumerate(elements)} | {"": 0}

    def encode_names(value: Value) -> bytes | None:
        assert isinstance(value, str)
        names = [value] if is_enum or not value else value.split(",")
        if any(copies[name] != 1 for name in names):
            return None
        return _encode_integer(sum(numbers[name] for name in names))

    return encode_names


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
