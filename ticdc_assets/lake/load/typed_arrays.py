"""Type texts of row images with Arrow, a column of a batch at a time: only what is ordinary.

Spark's expressions for one value (`lake.columns.text_values`) take many times as long.  A column
with a text that Arrow may read otherwise than they do is left to them as a whole.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import ColumnType
from ticdc_assets.protocols.csv.written_rows import get_content
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.mysql_type import (
    Kind,
    describe,
    integer_range,
)

# The signs of which Arrow knows no other reading: it also reads hexadecimal digits, for one.
_SIGNS: dict[Kind, bytes] = {
    "integer": b"0123456789-",
    "bit": b"0123456789",
    "year": b"0123456789",
    "decimal": b"0123456789-.",
    "float": b"0123456789-+.eE",
    "date": b"0123456789-",
    "datetime": b"0123456789-:. ",
}
# Of a decimal of 128 bits.
_MOST_DIGITS = 38
_DAY, _SECONDS, _MOST = len("YYYY-MM-DD"), len("YYYY-MM-DD HH:MM:SS"), len(".ffffff")
# A day, or a moment, in the first year that every engine counts alike.
_FIRST_DAY = pa.scalar(-719162, pa.int32())
_TIME = rf"\A{patterns.TIME}\z"


def type_texts(texts: pa.Array, type: ColumnType) -> pa.Array | None:
    """Return the values of texts; None if Spark has to read them."""
    kind = describe(type).kind
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), get_arrow_type(type))
    signs = _SIGNS.get(kind)
    if signs is not None and get_content(texts).to_pybytes().translate(None, signs):
        return None
    try:
        return _read(texts, type, kind)
    except (pa.ArrowException, Base64Error, ValueError):
        return None


def _read(texts: pa.Array, type: ColumnType, kind: Kind) -> pa.Array | None:
    target = get_arrow_type(type)
    match kind:
        case "integer":
            low, high = integer_range(type)
            return _read_integers(texts, low, high, target)
        case "bit":
            return _read_integers(texts, 0, (1 << (type.length or 64)) - 1, target)
        case "year":
            years = texts.cast(pa.int64())
            is_year = pc.and_(
                pc.greater_equal(years, patterns.MIN_YEAR), pc.less_equal(years, patterns.MAX_YEAR)
            )
            return years.cast(target) if _holds(pc.or_(is_year, pc.equal(years, 0))) else None
        case "float":
            if pc.max(pc.binary_length(texts)).as_py() > patterns.MAX_NUMBER_LENGTH:
                return None
            numbers = texts.cast(pa.float64()).cast(target)
            return numbers if _holds(pc.is_finite(numbers)) else None
        case "decimal":
            # Without a Delta decimal of its width, it stays an exact text.
            if pa.types.is_string(target) or not _fit(texts, target):
                return None
            return texts.cast(target)
        case "date" | "datetime":
            return _read_moments(texts, target)
        case "time":
            return texts if _holds(pc.match_substring_regex(texts, _TIME)) else None
        case "text" | "json":
            return texts
        case "binary":
            return pa.array(map(_decode, texts.to_pylist()), pa.binary())
        case "enum" if type.elements is not None:
            members = pa.array(["", *type.elements], pa.string())
            return texts if _holds(pc.is_in(texts.drop_null(), members)) else None
    return None


def _holds(conditions: pa.Array) -> bool:
    """Return whether a condition holds for all values that are not null."""
    return bool(pc.all(conditions, min_count=0).as_py())


def _read_integers(texts: pa.Array, low: int, high: int, target: pa.DataType) -> pa.Array | None:
    numbers = texts.cast(pa.uint64() if high >= 1 << 63 else pa.int64())
    limits = pc.min_max(numbers).as_py()
    return numbers.cast(target) if low <= limits["min"] and limits["max"] <= high else None


def _fit(texts: pa.Array, target: pa.DataType) -> bool:
    """Return whether no number has too many digits before the point: Arrow counts modulo 2^128."""
    if pc.max(pc.binary_length(texts)).as_py() + target.scale <= _MOST_DIGITS:
        # The cast finds out itself.
        return True
    digits = pc.ascii_ltrim(texts, "-")
    points = pc.find_substring(digits, ".")
    lengths = pc.if_else(pc.less(points, 0), pc.binary_length(digits), points)
    return bool(pc.max(lengths).as_py() <= target.precision - target.scale)


def _read_moments(texts: pa.Array, target: pa.DataType) -> pa.Array | None:
    lengths = pc.binary_length(texts)
    if pa.types.is_date(target):
        is_whole = pc.equal(lengths, _DAY)
        moments = texts.cast(target)
        days = moments.cast(pa.int32())
    else:
        has_fraction = pc.and_(
            pc.greater(lengths, _SECONDS + 1), pc.less_equal(lengths, _SECONDS + _MOST)
        )
        is_whole = pc.or_(pc.equal(lengths, _SECONDS), has_fraction)
        moments = texts.cast(pa.timestamp("us"))
        days = moments.cast(pa.date32()).cast(pa.int32())
        if target.tz is not None:
            moments = moments.cast(pa.int64()).cast(target)
    return moments if _holds(is_whole) and _holds(pc.greater_equal(days, _FIRST_DAY)) else None


def _decode(text: str | None) -> bytes | None:
    if text is None:
        return None
    if len(text) % 4:
        raise ValueError("wrong padding")
    return a2b_base64(text, strict_mode=True)
