"""Texts of row images to the values of a Delta column, a column at a time.

`schema.types.value_reader` defines the value of every text.  A text that Arrow reads counts only if
writing the value again gives the same text, or where a stated pattern leaves Arrow no other
reading; of all others, each distinct text goes through the definition.  A column without any odd
text takes one cast (`plain_texts`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.events.escaped_text import is_utf8
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.rows.plain_texts import cast_plain
from ticdc_assets.rows.stored import Stored, read_stored, set_zone, store_values
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.mysql_type import Kind, describe, integer_range
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import make_reader
from ticdc_assets.schema.types.value_writer import make_image_writer

# What Arrow can read; of integers, more than any of MySQL's.
_INTEGER = r"\A-?[0-9]{1,20}\z"
_DECIMAL = r"\A-?[0-9]{1,38}(?:\.[0-9]{1,38})?\z"
_FLOAT = r"\A-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
# Of days that every month has.
_DAY = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_REST = r":[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_DATE = rf"\A{_DAY}\z"
_DATETIME = rf"\A{_DAY} (?:[01][0-9]|2[0-3]){_REST}\z"
_TIME = rf"\A{patterns.TIME}\z"
_SECONDS, _MICROSECONDS = len("YYYY-MM-DD HH:MM:SS"), len("YYYY-MM-DD HH:MM:SS.ffffff")


class TypedTexts(NamedTuple):
    """The values of texts; `invalid`: which texts the type cannot have, None if there is none."""

    stored: Stored
    invalid: pa.Array | None = None


# Returns values, NULL where a text was not read.
_ReadMany = Callable[[pa.Array, ColumnType, pa.DataType], pa.Array]


class TextTyper:
    """Types the texts of one column."""

    def __init__(self, type: ColumnType, *, member_names: bool) -> None:
        """`member_names`: ENUM and SET texts are names.

        Raise `InvalidValue` for a type that no column can have.
        """
        for member in type.elements or ():
            if not is_utf8(member):
                raise InvalidValue(f"the member {member!r} of an ENUM or SET is not UTF-8")
        self.type = type
        self._read_many = _READ_MANY.get(describe(type).kind)
        self._target = get_arrow_type(type)
        self._read = make_reader(type, member_names)

    def type_array(self, texts: pa.Array) -> TypedTexts:
        """Type an array of texts, all of which are UTF-8."""
        count, target = len(texts), self._target
        if texts.null_count == count:
            return TypedTexts(Stored(pa.nulls(count, target)))
        plain = cast_plain(texts, self.type, target)
        if plain is not None:
            return TypedTexts(Stored(plain))
        if self._read_many is None:
            return self._type_distinct(texts)
        values = self._read_many(texts, self.type, target)
        if values.null_count == texts.null_count:
            return TypedTexts(Stored(values))
        is_left = pc.and_(pc.is_null(values), pc.is_valid(texts))
        left = self._type_distinct(texts.filter(is_left))
        return _fill_in(values, is_left, left)

    def _type_distinct(self, texts: pa.Array) -> TypedTexts:
        """Type texts by the definition, each distinct one once."""
        encoded = texts.dictionary_encode()
        typed = self.type_list(encoded.dictionary.to_pylist())
        invalid = typed.invalid
        if invalid is not None:
            invalid = pc.fill_null(invalid.take(encoded.indices), False)
        return TypedTexts(typed.stored.take(encoded.indices), invalid)

    def type_list(self, texts: Sequence[str | None]) -> TypedTexts:
        """Type texts by the definition; lone surrogates stand for bytes that are not UTF-8."""
        values: list[Value] = []
        invalid = []
        for text in texts:
            try:
                values.append(self._read(text))
                invalid.append(False)
            except InvalidValue:
                values.append(None)
                invalid.append(True)
        stored = store_values(values, self.type)
        if self.type.name == "timestamp" and any(t is not None and EITHER in t for t in texts):
            stored = _add_either_moments(stored, texts, invalid)
        return TypedTexts(stored, pa.array(invalid, pa.bool_()) if any(invalid) else None)


def _add_either_moments(
    stored: Stored, texts: Sequence[str | None], invalid: Sequence[bool]
) -> Stored:
    """Keep the texts of TIMESTAMPs that are one of two moments: the column has the first."""
    known = [None] * len(texts) if stored.exact is None else stored.exact.to_pylist()
    exact = [
        text if text is not None and EITHER in text and not is_invalid else other
        for text, is_invalid, other in zip(texts, invalid, known, strict=True)
    ]
    return Stored(stored.values, pa.array(exact, pa.string()))


def _fill_in(values: pa.Array, is_left: pa.Array, left: TypedTexts) -> TypedTexts:
    """Put the values that were left into their places."""
    places = pc.if_else(is_left, pc.cumulative_sum(is_left.cast(pa.int32())), None)
    places = pc.subtract(places, 1)
    stored, invalid = left.stored, left.invalid
    filled = pc.if_else(is_left, stored.values.take(places), values)
    exact = None if stored.exact is None else stored.exact.take(places)
    if invalid is not None:
        invalid = pc.fill_null(invalid.take(places), False)
    return TypedTexts(Stored(filled, exact), invalid)


def refit(stored: Stored, old: ColumnType, new: ColumnType) -> TypedTexts:
    """Return the values of one type as those of another; invalid is what that cannot have."""
    if get_arrow_type(old) == get_arrow_type(new):
        return TypedTexts(stored)
    write = make_image_writer(old)
    texts = [write(value) for value in read_stored(stored, old)]
    return TextTyper(new, member_names=True).type_list(texts)


# --- with Arrow --------------------------------------------------------------


def _cast(texts: pa.Array, pattern: str, cast: Callable[[pa.Array], pa.Array]) -> pa.Array | None:
    """Cast texts, or if that fails those that match a pattern; None if that fails too."""
    try:
        return cast(texts)
    except pa.ArrowInvalid:
        fitting = pc.if_else(pc.match_substring_regex(texts, pattern), texts, None)
    try:
        return cast(fitting)
    except pa.ArrowInvalid:
        return None


def _read_integers(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    low, high = integer_range(type)
    whole = pa.uint64() if high >= 1 << 63 else pa.int64()
    numbers = _cast(texts, _INTEGER, lambda array: array.cast(whole))
    if numbers is None:
        return pa.nulls(len(texts), target)
    is_canonical = pc.equal(numbers.cast(pa.string()), texts)
    if whole == pa.int64():
        is_canonical = pc.and_(is_canonical, pc.greater_equal(numbers, low))
        is_canonical = pc.and_(is_canonical, pc.less_equal(numbers, high))
    return pc.if_else(is_canonical, numbers, None).cast(target)


def _read_decimals(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(target):
        return pa.nulls(len(texts), target)
    numbers = _cast(texts, _DECIMAL, lambda array: array.cast(target))
    if numbers is None:
        return pa.nulls(len(texts), target)
    return pc.if_else(pc.equal(numbers.cast(pa.string()), texts), numbers, None)


def _read_floats(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    # Both round correctly, so they agree on every text that both take for a number.
    is_short = pc.less_equal(pc.binary_length(texts), patterns.MAX_NUMBER_LENGTH)
    is_number = pc.and_(is_short, pc.match_substring_regex(texts, _FLOAT))
    try:
        numbers = pc.if_else(is_number, texts, None).cast(pa.float64()).cast(target)
    except pa.ArrowInvalid:
        return pa.nulls(len(texts), target)
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def _read_dates(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    days = _cast(texts, _DATE, lambda array: array.cast(target))
    if days is None:
        return pa.nulls(len(texts), target)
    return pc.if_else(pc.equal(days.cast(pa.string()), texts), days, None)


def _read_moments(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    naive = pa.timestamp("us")
    moments = _cast(texts, _DATETIME, lambda array: array.cast(naive))
    if moments is None:
        return pa.nulls(len(texts), target)
    # Of a text with fewer decimals, the others are zeros.
    pointed = pc.if_else(
        pc.equal(pc.binary_length(texts), _SECONDS),
        pc.binary_join_element_wise(texts, "", "."),
        texts,
    )
    padded = pc.utf8_rpad(pointed, _MICROSECONDS, "0")
    is_canonical = pc.equal(moments.cast(pa.string()), padded)
    return set_zone(pc.if_else(is_canonical, moments, None), target)


def _read_times(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, _TIME), texts, None)


def _read_texts(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array:
    return texts


_READ_MANY: dict[Kind, _ReadMany] = {
    "integer": _read_integers,
    "decimal": _read_decimals,
    "float": _read_floats,
    "date": _read_dates,
    "datetime": _read_moments,
    "time": _read_times,
    "text": _read_texts,
    "json": _read_texts,
}
