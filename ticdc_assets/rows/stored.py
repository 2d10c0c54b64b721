"""The values of a column as its Delta table holds them, and back.

A Delta column cannot hold every value: dates that are none, and bytes that are not UTF-8.  Its
array has NULL or a similar value there, and `exact` the text (`events.escaped_text`), which a table
keeps in its map `_inexact`.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.events.escaped_text import escape_text, is_utf8, replace_bytes, unescape_text
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.schema.types.float_text import float32_digits, format_plain
from ticdc_assets.schema.types.mysql_type import Kind, describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import make_reader, parse_vector

# The kinds of which a Delta column cannot hold every value.
_INEXACT = ("text", "json", "date", "datetime", "time", "enum", "set")


class Stored(NamedTuple):
    """Values of a column; `exact` is None where the column holds all of them exactly."""

    values: pa.Array
    exact: pa.Array | None = None

    def take(self, places: pa.Array) -> "Stored":
        """Return the values at some places; NULL at a place that is NULL."""
        exact = self.exact
        return Stored(self.values.take(places), None if exact is None else exact.take(places))


def can_be_inexact(type: ColumnType) -> bool:
    """Return whether a column of a type may have values that it cannot hold exactly."""
    return describe(type).kind in _INEXACT


def concat_stored(parts: Sequence[Stored]) -> Stored:
    """Concatenate values of one column."""
    values = pa.concat_arrays([part.values for part in parts])
    if all(part.exact is None for part in parts):
        return Stored(values)
    exact = (
        pa.nulls(len(part.values), pa.string()) if part.exact is None else part.exact
        for part in parts
    )
    return Stored(values, pa.concat_arrays(list(exact)))


def find_values(stored: Stored) -> pa.Array:
    """Return where a column has a value: everywhere but at NULL."""
    is_held = pc.is_valid(stored.values)
    return is_held if stored.exact is None else pc.or_(is_held, pc.is_valid(stored.exact))


def fill_stored(stored: Stored, other: Stored) -> Stored:
    """Return values of a column with those of another one of its type where they are NULL."""
    has_value = find_values(stored)
    values = pc.if_else(has_value, stored.values, other.values)
    if stored.exact is None and other.exact is None:
        return Stored(values)
    nulls = pa.nulls(len(values), pa.string())
    exact = (nulls if each.exact is None else each.exact for each in (stored, other))
    return Stored(values, pc.if_else(has_value, *exact))


# --- writing -----------------------------------------------------------------


def store_values(values: Sequence[Value], type: ColumnType) -> Stored:
    """Store typed values; raise `InvalidValue` for one that its type cannot have."""
    kind = describe(type).kind
    target = get_arrow_type(type)
    try:
        if kind == "decimal" and pa.types.is_string(target):
            texts = (None if v is None else format(cast(Decimal, v), "f") for v in values)
            return Stored(pa.array(texts, target))
        if kind == "vector":
            return Stored(
                pa.array((None if v is None else parse_vector(str(v)) for v in values), target)
            )
        if kind not in _INEXACT:
            return Stored(pa.array(values, target))
        if kind in ("date", "datetime"):
            return _store_moments(cast(Sequence[str | None], values), target)
        return _store_texts(cast(Sequence[str | None], values))
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidValue(
            f"a value that a column of type {type.name} cannot hold: {error}"
        ) from None


def _store_texts(texts: Sequence[str | None]) -> Stored:
    try:
        return Stored(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        pass
    is_plain = [text is None or is_utf8(text) for text in texts]
    pairs = [(text, plain) for text, plain in zip(texts, is_plain, strict=True)]
    values = [text if text is None or plain else replace_bytes(text) for text, plain in pairs]
    exact = [None if text is None or plain else escape_text(text) for text, plain in pairs]
    return Stored(pa.array(values, pa.string()), pa.array(exact, pa.string()))


def _store_moments(texts: Sequence[str | None], target: pa.DataType) -> Stored:
    """Store dates or moments, of which only the texts are values."""
    written = pa.array(texts, pa.string())
    try:
        return Stored(cast_moments(written, target))
    except pa.ArrowInvalid:
        pass
    cells = [None if text is None else _cast_moment(text, target) for text in texts]
    values = pa.array([cell and cell.value for cell in cells], _number_type(target)).cast(target)
    return Stored(values, pc.if_else(pc.is_null(values), written, None))


def cast_moments(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast texts of dates, or of moments without a zone, which are in that of the target."""
    if pa.types.is_date(target):
        return texts.cast(target)
    return set_zone(texts.cast(pa.timestamp("us")), target)


def set_zone(moments: pa.Array, target: pa.DataType) -> pa.Array:
    """Return moments without a zone as those of a type, in whose zone they are."""
    return moments.cast(pa.int64()).cast(target)


def _cast_moment(text: str, target: pa.DataType) -> pa.Scalar | None:
    try:
        return cast_moments(pa.array([text], pa.string()), target)[0]
    except pa.ArrowInvalid:
        return None


def _number_type(moment: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date(moment) else pa.int64()


# --- reading -----------------------------------------------------------------

_Read = Callable[[pa.Array, ColumnType], Iterable[Value]]


def read_stored(stored: Stored, type: ColumnType) -> list[Value]:
    """Read the typed values of a column."""
    read = _READERS.get(describe(type).kind, _read_as_texts)
    values = list(read(stored.values, type))
    if stored.exact is None or stored.exact.null_count == len(values):
        return values
    read_text = make_reader(type, member_names=True)
    return [
        value if text is None else read_text(unescape_text(text))
        for value, text in zip(values, stored.exact.to_pylist(), strict=True)
    ]


def _read_as_texts(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    return map(make_reader(type, member_names=True), array.to_pylist())


def _read_numbers(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    numbers = array.to_pylist()
    if pa.types.is_decimal(array.type):
        return (None if number is None else int(number) for number in numbers)
    return cast(list[Value], numbers)


def _read_plain(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    return cast(list[Value], array.to_pylist())


def _read_decimals(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    target = get_arrow_type(type)
    if pa.types.is_string(target):
        return _read_as_texts(array, type)
    # A file that is older than a change of the type has fewer digits.
    return cast(list[Value], array.cast(target).to_pylist())


def _read_dates(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    # Python has no year 0.
    return _read_as_texts(array.cast(pa.string()), type)


def _read_datetimes(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    naive = array.cast(pa.timestamp("us")).cast(pa.string())
    fitting = (None if text is None else _fit(text, type) for text in naive.to_pylist())
    return map(make_reader(type), fitting)


def _fit(text: str, type: ColumnType) -> str:
    """Return a datetime with as many decimals as its type has, or as it needs."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(type.decimals or 0, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _read_vectors(array: pa.Array, type: ColumnType) -> Iterable[Value]:
    return (None if vector is None else _format_vector(vector) for vector in array.to_pylist())


def _format_vector(numbers: Sequence[float]) -> str:
    return f"[{','.join(format_plain(float32_digits(number)) for number in numbers)}]"


_READERS: dict[Kind, _Read] = {
    "integer": _read_numbers,
    "bit": _read_numbers,
    "year": _read_numbers,
    "float": _read_plain,
    "binary": _read_plain,
    "decimal": _read_decimals,
    "date": _read_dates,
    "datetime": _read_datetimes,
    "vector": _read_vectors,
}
