"""Type one text of a row image as a Delta value, by native expressions: one function per kind.

Each function gives the value, or NULL if the text does not belong to the type.  The patterns are
those of `schema.types.value`, because Spark's casts accept more than MySQL writes.  Every cast is a
`try_cast`: nothing may raise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.lake.columns.escaped_text import has_escaped_bytes, to_utf8
from ticdc_assets.lake.store.arrow import replace_surrogates
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    describe,
    integer_range,
    map_to_delta_type,
)

_INTEGER = rf"\A{patterns.INTEGER}\z"
_FLOAT = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_BASE64 = r"\A[A-Za-z0-9+/]*={0,2}\z"
_DATE = rf"\A{patterns.DATE}\z"
_DATETIME = rf"\A{patterns.DATETIME}\z"
_TIMESTAMP = rf"\A{patterns.TIMESTAMP}\z"
_TIME = rf"\A{patterns.TIME}\z"
# The characters that Python's `str.strip` removes.
_BLANKS = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_OUTER_BLANKS = rf"\A{_BLANKS}|{_BLANKS}\z"

_MIN_BIGINT = -(1 << 63)
_TWO_TO_64 = 1 << 64
_WIDE = "decimal(20,0)"


@dataclass(frozen=True)
class TextValues:
    """A value: NULL if the text is `invalid`, NULL or a similar one if it is `inexact` in Delta.

    A TIMESTAMP that is one of two moments has the first as its value.  Of most types no text is
    inexact: None.
    """

    value: Column
    invalid: Column
    inexact: Column | None = None


def read_text_values(
    text: Column, escaped: Column | None, type: ColumnType, *, member_names: bool
) -> TextValues:
    """Type the texts of a column; raise `InvalidValue` for a type that Spark cannot hold.

    Where `escaped` holds, texts are `escaped_text`; if it is None, none are.  With `member_names`,
    ENUM and SET texts are names, otherwise index and bitmask.
    """
    row = describe(type)
    for member in type.elements or ():
        if replace_surrogates(member) != member:
            raise InvalidValue(f"the member {member!r} of an ENUM or SET is not UTF-8")
    if row.kind in ("date", "datetime"):
        return _read_moment(text, row.name)
    are_names = member_names and row.kind in _NAME_READERS
    read = (_NAME_READERS if are_names else _READERS)[row.kind]
    if not are_names and row.kind not in ("text", "json"):
        value = read(text, type).try_cast(map_to_delta_type(type))
        return TextValues(value, text.isNotNull() & value.isNull())
    if escaped is None:
        value = read(text, type)
        return TextValues(value, text.isNotNull() & value.isNull())
    has_bytes = escaped & has_escaped_bytes(text)
    value = read(F.when(escaped, to_utf8(text)).otherwise(text), type)
    if type.elements is not None:
        # All members are UTF-8, and so are the values.
        value = F.when(~has_bytes, value)
    return TextValues(value, text.isNotNull() & value.isNull(), has_bytes)


def _lit(number: int) -> Column:
    # A plain literal reaches no further than BIGINT.
    return F.lit(Decimal(number)) if number >= 1 << 63 else F.lit(number)


def _cast_integer(text: Column, wide: bool) -> Column:
    """Cast to BIGINT, or to 20 digits; blanks and fractions, which a cast accepts, give NULL."""
    number = text.try_cast(_WIDE if wide else "bigint")
    return F.when((number.cast("string") == text) | text.rlike(_INTEGER), number)


def _keep_within(number: Column, low: int, high: int) -> Column:
    return F.when((number >= _lit(low)) & (number <= _lit(high)), number)


def _read_integer(text: Column, type: ColumnType) -> Column:
    low, high = integer_range(type)
    return _keep_within(_cast_integer(text, wide=high >= 1 << 63), low, high)


def _read_bit(text: Column, type: ColumnType) -> Column:
    width = type.length or 64
    if width < 64:
        return _keep_within(_cast_integer(text, wide=False), 0, (1 << width) - 1)
    return _make_unsigned(_cast_integer(text, wide=True))


def _make_unsigned(number: Column) -> Column:
    """Read 64 bits as an unsigned number; a negative number is their two's complement."""
    plus = (number + _lit(_TWO_TO_64)).try_cast(_WIDE)
    return F.when((number < 0) & (number >= F.lit(_MIN_BIGINT)), plus).otherwise(
        _keep_within(number, 0, _TWO_TO_64 - 1)
    )


def _read_year(text: Column, type: ColumnType) -> Column:
    number = _cast_integer(text, wide=False)
    return F.when((number == 0) | number.between(patterns.MIN_YEAR, patterns.MAX_YEAR), number)


def _cast_finite(text: Column, *, single: bool) -> Column:
    readable = (F.octet_length(text) <= patterns.MAX_NUMBER_LENGTH) & text.rlike(_FLOAT)
    number = F.when(readable, text.try_cast("double"))
    if single:
        # Round by way of DOUBLE, as the Python reader does.
        number = number.cast("float")
    return F.when(F.abs(number) < F.lit(float("inf")), number)


def _read_float(text: Column, type: ColumnType) -> Column:
    return _cast_finite(text, single=type.name == "float")


def _read_decimal(text: Column, type: ColumnType) -> Column:
    declared = decimal_shape(type)
    most = patterns.MAX_DECIMAL_DIGITS
    digits, places, zeros = most, most, ""
    if declared is not None:
        digits, places, zeros = declared[0] - declared[1], declared[1], "0*"
    # At least one digit; no more digits than any decimal has; none but zeros beyond those declared.
    pattern = (
        rf"\A[+-]?(?=\.?[0-9])(?=[0-9]{{0,{most}}}(?:\.[0-9]{{0,{most}}})?\z)"
        rf"0*[0-9]{{0,{digits}}}(?:\.[0-9]{{0,{places}}}{zeros})?\z"
    )
    valid = F.when(text.rlike(pattern), text)
    if map_to_delta_type(type) != "string":
        return valid.try_cast(map_to_delta_type(type))
    whole = F.ltrim(F.ltrim(F.substring_index(valid, ".", 1), F.lit("+-")), F.lit("0"))
    fraction = F.when(F.contains(valid, F.lit(".")), F.substring_index(valid, ".", -1))
    fraction = F.coalesce(fraction, F.lit(""))
    if declared is not None:
        fraction = F.rpad(fraction, declared[1], "0")
    is_zero = F.ltrim(F.concat(whole, fraction), F.lit("0")) == ""
    sign = F.when(F.startswith(valid, F.lit("-")) & ~is_zero, "-").otherwise("")
    whole = F.when(whole == "", "0").otherwise(whole)
    point = F.when(fraction == "", "").otherwise(".")
    return F.when(valid.isNotNull(), F.concat(sign, whole, point, fraction))


def _read_text(text: Column, type: ColumnType) -> Column:
    return text


def _read_binary(text: Column, type: ColumnType) -> Column:
    valid = text.rlike(_BASE64) & (F.octet_length(text) % 4 == 0)
    return F.when(valid, F.unbase64(text))


def _read_time(text: Column, type: ColumnType) -> Column:
    return F.when(text.rlike(_TIME), text)


def _read_moment(text: Column, name: str) -> TextValues:
    if name == "timestamp":
        return _read_timestamp(text)
    valid = text.rlike(_DATE if name == "date" else _DATETIME)
    value = F.when(valid, text.try_cast("date" if name == "date" else "timestamp_ntz"))
    return TextValues(value, text.isNotNull() & ~valid, valid & value.isNull())


def _read_timestamp(text: Column) -> TextValues:
    """Read one moment; of two that the text may mean, the first, which is not exact."""
    valid = text.rlike(_TIMESTAMP)
    first = F.substring_index(text, EITHER, 1)
    # An explicit zone overrides the session's.
    value = F.when(valid, F.concat(first, F.lit("Z")).try_cast("timestamp"))
    inexact = valid & (value.isNull() | F.contains(text, F.lit(EITHER)))
    return TextValues(value, text.isNotNull() & ~valid, inexact)


def _read_enum(text: Column, type: ColumnType) -> Column:
    elements = type.elements
    if elements is None:
        return F.when(text.rlike(_INTEGER), text)
    index = _keep_within(_cast_integer(text, wide=False), 0, len(elements))
    # MySQL stores index 0 for a value that is not a member.
    return F.get(_make_text_array(("", *elements)), index.cast("int"))


def _read_set(text: Column, type: ColumnType) -> Column:
    elements = type.elements
    if elements is None:
        return F.when(text.rlike(_INTEGER), text)
    if len(elements) < 64:
        mask = _keep_within(_cast_integer(text, wide=False), 0, (1 << len(elements)) - 1)
    else:
        number = _make_unsigned(_cast_integer(text, wide=True))
        negative = (number - _lit(_TWO_TO_64)).try_cast("bigint")
        mask = F.when(number >= _lit(1 << 63), negative).otherwise(number.try_cast("bigint"))
    chosen = [
        F.when(F.getbit(mask, F.lit(bit)) == 1, F.lit(name)) for bit, name in enumerate(elements)
    ]
    return F.when(mask.isNotNull(), F.concat_ws(",", *chosen))


def _read_enum_name(text: Column, type: ColumnType) -> Column:
    if type.elements is None:
        return text
    return F.when(F.array_contains(_make_text_array(("", *type.elements)), text), text)


def _read_set_names(text: Column, type: ColumnType) -> Column:
    if type.elements is None:
        return text
    names = F.split(text, ",", -1)
    unknown = F.array_except(names, _make_text_array(("", *type.elements)))
    has_names = text != ""
    chosen = [
        F.when(has_names & F.array_contains(names, F.lit(name)), F.lit(name))
        for name in type.elements
    ]
    return F.when(F.size(unknown) == 0, F.concat_ws(",", *chosen))


def _read_vector(text: Column, type: ColumnType) -> Column:
    framed = F.startswith(text, F.lit("[")) & F.endswith(text, F.lit("]")) & (text != "[")
    inner = F.substr(text, F.lit(2), F.char_length(text) - 2)
    parts = F.transform(
        F.split(inner, ",", -1),
        lambda part: _cast_finite(F.regexp_replace(part, _OUTER_BLANKS, ""), single=True),
    )
    none = F.regexp_replace(inner, _OUTER_BLANKS, "") == ""
    numbers = F.when(none, F.array().cast("array<float>")).otherwise(parts)
    return F.when(framed & ~F.exists(numbers, lambda number: number.isNull()), numbers)


def _make_text_array(texts: tuple[str, ...]) -> Column:
    return F.array(*(F.lit(text) for text in texts))


Reader = Callable[[Column, ColumnType], Column]

_READERS: dict[Kind, Reader] = {
    "integer": _read_integer,
    "bit": _read_bit,
    "year": _read_year,
    "float": _read_float,
    "decimal": _read_decimal,
    "text": _read_text,
    "json": _read_text,
    "binary": _read_binary,
    "time": _read_time,
    "enum": _read_enum,
    "set": _read_set,
    "vector": _read_vector,
}
_NAME_READERS: dict[Kind, Reader] = {"enum": _read_enum_name, "set": _read_set_names}
