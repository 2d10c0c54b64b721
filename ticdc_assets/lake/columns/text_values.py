"""One text of a row image to its Delta value, by native expressions: one function a kind of type.

Each gives the value, NULL where the text is none of its type; `schema.types.value` says which texts
those are, and texts are held to the same patterns here, as Spark's casts read more than MySQL
writes.  Casts are `try_cast` throughout: nothing may raise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    decimal_shape,
    delta_type,
    describe,
    integer_range,
)

_INTEGER = r"\A[+-]?[0-9]{1,40}\z"
_FLOAT = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_LONGEST_NUMBER = 1200
_BASE64 = r"\A[A-Za-z0-9+/]*={0,2}\z"
_DAY = r"[0-9]{4}-(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])"
_FRACTION = r"(?:\.[0-9]{1,6})?"
_DATE = rf"\A{_DAY}\z"
_DATETIME = rf"\A{_DAY} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{_FRACTION}\z"
_TIME = rf"\A-?(?:[0-9]{{2}}|[0-7][0-9]{{2}}|8[0-3][0-9]):[0-5][0-9]:[0-5][0-9]{_FRACTION}\z"
# What Python strips: the blanks of Unicode, and some separators.
_BLANKS = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_OUTER_BLANKS = rf"\A{_BLANKS}|{_BLANKS}\z"

_LEAST_BIGINT = -(1 << 63)
_SIXTY_FOUR_BITS = 1 << 64
_WIDE = "decimal(20,0)"


@dataclass(frozen=True)
class Read:
    """A value, and where it is NULL because the text is wrong, or right but without a value."""

    value: Column
    invalid: Column
    inexact: Column


def reading(text: Column, type: ColumnType, *, member_names: bool) -> Read:
    """Read the texts of a type; raise `ValueProblem` for a type nobody knows."""
    row = describe(type)
    if row.kind in ("date", "datetime"):
        return _read_moment(text, row.name)
    if member_names and row.kind in _BY_NAME:
        value = _BY_NAME[row.kind](text, type)
    else:
        value = _READERS[row.kind](text, type)
    value = value.try_cast(delta_type(type))
    return Read(value, text.isNotNull() & value.isNull(), F.lit(False))


def _number(number: int) -> Column:
    # A plain literal goes no farther than BIGINT.
    return F.lit(Decimal(number)) if number >= 1 << 63 else F.lit(number)


def _integer(text: Column, wide: bool) -> Column:
    """An integer of at most 64 bits (or of 20 digits); casting accepts blanks and fractions too."""
    number = text.try_cast(_WIDE if wide else "bigint")
    return F.when((number.cast("string") == text) | text.rlike(_INTEGER), number)


def _within(number: Column, low: int, high: int) -> Column:
    return F.when((number >= _number(low)) & (number <= _number(high)), number)


def _read_integer(text: Column, type: ColumnType) -> Column:
    low, high = integer_range(type)
    return _within(_integer(text, wide=high >= 1 << 63), low, high)


def _read_bit(text: Column, type: ColumnType) -> Column:
    width = type.length or 64
    if width < 64:
        return _within(_integer(text, wide=False), 0, (1 << width) - 1)
    return _unsigned(_integer(text, wide=True))


def _unsigned(number: Column) -> Column:
    """64 bits as a number from 0; a negative one is their two's complement."""
    plus = (number + _number(_SIXTY_FOUR_BITS)).try_cast(_WIDE)
    return F.when((number < 0) & (number >= F.lit(_LEAST_BIGINT)), plus).otherwise(
        _within(number, 0, _SIXTY_FOUR_BITS - 1)
    )


def _read_year(text: Column, type: ColumnType) -> Column:
    number = _integer(text, wide=False)
    return F.when((number == 0) | number.between(1901, 2155), number)


def _finite(text: Column, *, single: bool) -> Column:
    readable = (F.octet_length(text) <= _LONGEST_NUMBER) & text.rlike(_FLOAT)
    number = F.when(readable, text.try_cast("double"))
    if single:
        # By way of the wider one, as the reader rounds it.
        number = number.cast("float")
    return F.when(F.abs(number) < F.lit(float("inf")), number)


def _read_float(text: Column, type: ColumnType) -> Column:
    return _finite(text, single=type.name == "float")


def _read_decimal(text: Column, type: ColumnType) -> Column:
    declared = decimal_shape(type)
    digits, places, more = ("100", "100", "") if declared is None else (
        str(declared[0] - declared[1]), str(declared[1]), "0*"
    )  # fmt: skip
    # Some digit; 100 before and behind the point at most; as many as declared, beside idle zeros.
    pattern = (
        r"\A[+-]?(?=\.?[0-9])(?=[0-9]{0,100}(?:\.[0-9]{0,100})?\z)"
        rf"0*[0-9]{{0,{digits}}}(?:\.[0-9]{{0,{places}}}{more})?\z"
    )
    right = F.when(text.rlike(pattern), text)
    if delta_type(type) != "string":
        return right.try_cast(delta_type(type))
    whole = F.ltrim(F.ltrim(F.substring_index(right, ".", 1), F.lit("+-")), F.lit("0"))
    fraction = F.when(F.contains(right, F.lit(".")), F.substring_index(right, ".", -1))
    fraction = F.coalesce(fraction, F.lit(""))
    if declared is not None:
        fraction = F.rpad(fraction, declared[1], "0")
    is_zero = F.ltrim(F.concat(whole, fraction), F.lit("0")) == ""
    sign = F.when(F.startswith(right, F.lit("-")) & ~is_zero, "-").otherwise("")
    whole = F.when(whole == "", "0").otherwise(whole)
    point = F.when(fraction == "", "").otherwise(".")
    return F.when(right.isNotNull(), F.concat(sign, whole, point, fraction))


def _read_text(text: Column, type: ColumnType) -> Column:
    return text


def _read_binary(text: Column, type: ColumnType) -> Column:
    right = text.rlike(_BASE64) & (F.octet_length(text) % 4 == 0)
    return F.when(right, F.unbase64(text))


def _read_time(text: Column, type: ColumnType) -> Column:
    return F.when(text.rlike(_TIME), text)


def _read_moment(text: Column, name: str) -> Read:
    right = text.rlike(_DATE if name == "date" else _DATETIME)
    if name == "date":
        value = text.try_cast("date")
    elif name == "datetime":
        value = text.try_cast("timestamp_ntz")
    else:
        # With the zone said, the session's does not count.
        value = F.concat(text, F.lit("Z")).try_cast("timestamp")
    value = F.when(right, value)
    return Read(value, text.isNotNull() & ~right, right & value.isNull())


def _read_enum(text: Column, type: ColumnType) -> Column:
    elements = type.elements
    if elements is None:
        return F.when(text.rlike(_INTEGER), text)
    index = _within(_integer(text, wide=False), 0, len(elements))
    # 0 is what MySQL keeps of a value that is no member.
    return F.get(_texts(("", *elements)), index.cast("int"))


def _read_set(text: Column, type: ColumnType) -> Column:
    elements = type.elements
    if elements is None:
        return F.when(text.rlike(_INTEGER), text)
    if len(elements) < 64:
        mask = _within(_integer(text, wide=False), 0, (1 << len(elements)) - 1)
    else:
        number = _unsigned(_integer(text, wide=True))
        negative = (number - _number(_SIXTY_FOUR_BITS)).try_cast("bigint")
        mask = F.when(number >= _number(1 << 63), negative).otherwise(number.try_cast("bigint"))
    chosen = [
        F.when(F.getbit(mask, F.lit(bit)) == 1, F.lit(name)) for bit, name in enumerate(elements)
    ]
    return F.when(mask.isNotNull(), F.concat_ws(",", *chosen))


def _name_enum(text: Column, type: ColumnType) -> Column:
    if type.elements is None:
        return text
    return F.when(F.array_contains(_texts(("", *type.elements)), text), text)


def _name_set(text: Column, type: ColumnType) -> Column:
    if type.elements is None:
        return text
    names = F.split(text, ",", -1)
    unknown = F.array_except(names, _texts(("", *type.elements)))
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
        lambda part: _finite(F.regexp_replace(part, _OUTER_BLANKS, ""), single=True),
    )
    none = F.regexp_replace(inner, _OUTER_BLANKS, "") == ""
    numbers = F.when(none, F.array().cast("array<float>")).otherwise(parts)
    return F.when(framed & ~F.exists(numbers, lambda number: number.isNull()), numbers)


def _texts(texts: tuple[str, ...]) -> Column:
    return F.array(*(F.lit(text) for text in texts))


Reading = Callable[[Column, ColumnType], Column]

_READERS: dict[Kind, Reading] = {
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
_BY_NAME: dict[Kind, Reading] = {"enum": _name_enum, "set": _name_set}
