"""Cast a whole column of texts at once, where its signs leave Arrow no other reading.

Arrow also reads hexadecimal digits, names of numbers and other notations of moments, which take
other signs or another length.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import ColumnType
from ticdc_assets.protocols.csv.written_rows import get_content
from ticdc_assets.schema.types import patterns
from ticdc_assets.schema.types.mysql_type import Kind, describe, integer_range

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
# A day in the first year that every engine counts alike.
_FIRST_DAY = pa.scalar(-719162, pa.int32())


def cast_plain(texts: pa.Array, type: ColumnType, target: pa.DataType) -> pa.Array | None:
    """Return the values of texts; None unless each of them is a plain value of its type."""
    kind = describe(type).kind
    signs = _SIGNS.get(kind)
    if signs is None or get_content(texts).to_pybytes().translate(None, signs):
        return None
    try:
        return _cast(texts, type, kind, target)
    except pa.ArrowException:
        return None


def _cast(texts: pa.Array, type: ColumnType, kind: Kind, target: pa.DataType) -> pa.Array | None:
    match kind:
        case "integer":
            low, high = integer_range(type)
            return _cast_integers(texts, low, high, target)
        case "bit":
            return _cast_integers(texts, 0, (1 << (type.length or 64)) - 1, target)
        case "year":
            if pc.max(pc.binary_length(texts)).as_py() > _MOST_DIGITS:
                return None
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
            is_read = not pa.types.is_string(target) and _fit(texts, target)
            return texts.cast(target) if is_read else None
        case "date" | "datetime":
            return _cast_moments(texts, target)
    return None


def _holds(conditions: pa.Array) -> bool:
    """Return whether a condition holds for all values that are not null."""
    return bool(pc.all(conditions, min_count=0).as_py())


def _cast_integers(texts: pa.Array, low: int, high: int, target: pa.DataType) -> pa.Array | None:
    if pc.max(pc.binary_length(texts)).as_py() > _MOST_DIGITS:
        return None
    numbers = texts.cast(pa.uint64() if high >= 1 << 63 else pa.int64())
    limits = pc.min_max(numbers).as_py()
    return numbers.cast(target) if low <= limits["min"] and limits["max"] <= high else None


def _fit(texts: pa.Array, target: pa.DataType) -> bool:
    """Return whether no number has too many digits on a side: Arrow counts modulo 2^128."""
    if pc.max(pc.binary_length(texts)).as_py() + target.scale <= _MOST_DIGITS:
        # The cast finds out itself.
        return True
    digits = pc.ascii_ltrim(texts, "-")
    points = pc.find_substring(digits, ".")
    whole = pc.binary_length(digits)
    lengths = pc.if_else(pc.less(points, 0), whole, points)
    # Without a point, this counts the digits once more.
    behind = pc.if_else(pc.less(points, 0), 0, pc.subtract(pc.subtract(whole, points), 1))
    fits = pc.max(lengths).as_py() <= target.precision - target.scale
    return bool(fits and pc.max(behind).as_py() <= target.scale)


def _cast_moments(texts: pa.Array, target: pa.DataType) -> pa.Array | None:
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
        moments = moments.cast(pa.int64()).cast(target)
    return moments if _holds(is_whole) and _holds(pc.greater_equal(days, _FIRST_DAY)) else None
