"""Conversion to and from dates and times.

TiDB converts to and from TIMESTAMP in the time zone of the DDL's session, `zone`; where it is not
known, values are converted in UTC, and whoever applies the DDL says so.  An unreadable text raises
`InvalidValue` and never becomes a zero date.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.conversion import json_text
from ticdc_assets.schema.conversion.text import as_text
from ticdc_assets.schema.conversion.time_zone import to_local, to_utc
from ticdc_assets.schema.ddl_context import DECLARE_TIME_ZONE
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value import Value

_SECOND = 10**6
_DAY = 24 * 3600 * _SECOND
_LONGEST_TIME = (838 * 3600 + 59 * 60 + 59) * _SECOND
_FIRST_TIMESTAMP = "1970-01-01 00:00:01"
_LAST_TIMESTAMP = "2038-01-19 03:14:07.999999"
_LONGEST_TEXT = 128

_MARK = r"[!-/:-@\[-`{-~]+"
_MOMENT = re.compile(
    rf"(\d{{1,4}}){_MARK}(\d{{1,2}}){_MARK}(\d{{1,2}})"
    rf"(?:(?:[T\s]+|{_MARK})(\d{{1,2}})(?:{_MARK}(\d{{1,2}})(?:{_MARK}(\d{{1,2}})(?:\.(\d*))?)?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_COMPACT = re.compile(r"(\d{5,14})(?:\.(\d*))?", re.ASCII)
# The widths of year, month, day, hour, minute and second in a date of n digits.
_PART_WIDTHS = {
    14: (4, 2, 2, 2, 2, 2),
    12: (2, 2, 2, 2, 2, 2),
    11: (2, 2, 2, 2, 2, 1),
    10: (2, 2, 2, 2, 2),
    9: (2, 2, 2, 2, 1),
    8: (4, 2, 2),
    7: (2, 2, 2, 1),
    6: (2, 2, 2),
    5: (2, 2, 1),
}
_CLOCK = re.compile(
    r"(-?)\s*(?:(\d+)\s+(?=\d))?(\d+)(?:\s*:\s*(\d+))?(?:\s*:\s*(\d+))?\s*(?:\.(\d*))?", re.ASCII
)


def to_moment(value: Value, old: ColumnType, new: ColumnType, zone: tzinfo | None = None) -> Value:
    """Convert to DATE, DATETIME or TIMESTAMP."""
    digits = _count_digits(value, old, new)
    match describe(old).kind:
        case "date" | "datetime":
            moment = str(value)
        case "integer" | "year":
            assert isinstance(value, int)
            moment = _read_numeric_moment(value)
        case "text" | "binary" | "json":
            # A TIMESTAMP with an offset from UTC depends on no other zone.
            known = UTC if zone is None and new.name == "timestamp" else zone
            text = _read_text(value, old)
            moment = _read_moment(text, 0 if new.name == "date" else digits, known)
        case kind:
            # A TIME needs the date of the DDL; TiDB does not convert the other kinds.
            raise InvalidValue(f"no conversion from {kind} to {new.name}")
    if new.name == "date":
        # TiDB truncates the time of day instead of rounding.
        return moment[:10]
    moment = round_text(moment if len(moment) > 10 else f"{moment} 00:00:00", digits)
    if new.name == "timestamp" != old.name:
        moment = to_utc(moment, zone)
    if new.name == "timestamp" and not _FIRST_TIMESTAMP <= moment <= _LAST_TIMESTAMP:
        return _pad_fraction("0000-00-00 00:00:00", digits)
    return moment


def to_time(value: Value, old: ColumnType, new: ColumnType, zone: tzinfo | None = None) -> Value:
    """Convert to TIME."""
    digits = _count_digits(value, old, new)
    match describe(old).kind:
        case "time":
            return round_text(str(value), digits)
        case "date":
            return _pad_fraction("00:00:00", digits)
        case "datetime":
            return round_text(str(value)[11:], digits)
        case "integer" | "year" | "float" | "decimal" | "text" | "binary" | "json":
            return _read_clock(_read_text(value, old), digits, zone)
        case kind:
            raise InvalidValue(f"no conversion from {kind} to time")


def to_number(text: str) -> Decimal:
    """Return a date or time as MySQL's number, such as 20240101100000.5."""
    number = Decimal(text[:1] + text[1:].translate(_PUNCTUATION))
    return number if number else Decimal(0)


_PUNCTUATION = str.maketrans("", "", "-: ")


def round_text(text: str, digits: int) -> str:
    """Round a datetime or time half up to the given fractional digits: -0.5 s is 0 s."""
    _, _, fraction = text.partition(".")
    if len(fraction) <= digits:
        return _pad_fraction(text, digits)
    unit = 10 ** (6 - digits)
    if text[4:5] != "-":
        return _format_clock(_round_down(_count_microseconds(text) + unit // 2, unit), digits)
    of_day = _round_down(_count_microseconds(text[11:]) + unit // 2, unit)
    day = text[:10] if of_day < _DAY else _add_day(text[:10])
    return f"{day} {_format_clock(of_day % _DAY, digits)}"


def format_moment(moment: datetime, digits: int) -> str:
    """Format a moment, truncated to the given fractional digits."""
    text = moment.strftime("%H:%M:%S.%f")
    clock = text[: 9 + digits] if digits else text[:8]
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02} {clock}"


def _read_text(value: Value, old: ColumnType) -> str:
    text = as_text(value, old)
    if describe(old).kind == "json":
        content = json_text.load(text)
        return content if isinstance(content, str) else text
    return text


def _count_digits(value: Value, old: ColumnType, new: ColumnType) -> int:
    """Return the fractional digits of the new type; if unknown, those of the value."""
    if new.decimals is not None:
        return new.decimals
    return len(str(value).partition(".")[2]) if describe(old).kind in ("datetime", "time") else 0


def _pad_fraction(text: str, digits: int) -> str:
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}" if digits else whole


def _round_down(number: int, unit: int) -> int:
    return number // unit * unit


def _count_microseconds(clock: str) -> int:
    hour, minute, second = clock.removeprefix("-").split(":")
    whole, _, fraction = second.partition(".")
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(whole)
    microseconds = seconds * _SECOND + int(fraction.ljust(6, "0")[:6])
    return -microseconds if clock.startswith("-") else microseconds


def _format_clock(microseconds: int, digits: int) -> str:
    seconds, fraction = divmod(abs(microseconds), _SECOND)
    minutes, second = divmod(seconds, 60)
    sign = "-" if microseconds < 0 else ""
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


def _add_day(day: str) -> str:
    try:
        following = date.fromisoformat(day) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise InvalidValue(f"{day} cannot be rounded up to the next day") from None
    return following.isoformat()


def _read_moment(text: str, digits: int, zone: tzinfo | None) -> str:
    """Read a date and time in any notation that MySQL accepts."""
    stripped = text.strip()
    if len(stripped) <= _LONGEST_TEXT:
        if match := _MOMENT.fullmatch(stripped):
            *parts, fraction, offset = match.groups()
            moment = _build_moment(parts, fraction or "", digits, text, offset)
            return _convert_to_session(moment, zone, text) if offset else moment
        if match := _COMPACT.fullmatch(stripped):
            return _read_compact(*match.groups(), digits=digits, text=text)
    raise _make_error(text)


def _read_compact(number: str, fraction: str | None, *, digits: int, text: str) -> str:
    widths = _PART_WIDTHS.get(len(number))
    if widths is None:
        raise _make_error(text)
    parts: list[str | None] = []
    start = 0
    for width in widths:
        parts.append(number[start : start + width])
        start += width
    fraction = fraction or ""
    if len(number) in (5, 6, 8, 9, 10):
        # Without seconds, the digits after the point continue the time of day.
        missing = 6 - len(parts)
        rest = [fraction[i : i + 2] for i in range(0, 2 * missing, 2)]
        parts += [part for part in rest if part]
        fraction = ""
    return _build_moment(parts, fraction if len(parts) == 6 else "", digits, text)


def _build_moment(
    parts: Sequence[str | None], fraction: str, digits: int, text: str, offset: str | None = None
) -> str:
    numbers = [int(part) if part else 0 for part in parts]
    year, month, day, hour, minute, second = numbers + [0] * (6 - len(numbers))
    if parts[0] is not None and len(parts[0]) <= 2 and (any(numbers) or fraction):
        year += 2000 if year <= 69 else 1900
    longest = _count_days_in_month(year, month)
    if month > 12 or day > longest or hour > 23 or minute > 59 or second > 59:
        raise _make_error(text)
    moment = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    carry, fraction = _round_fraction(fraction, digits)
    if carry:
        moment = round_text(f"{moment}.9", 0)
    if offset:
        moment = _convert_to_utc(moment, offset, text)
    return f"{moment}.{fraction}" if fraction else moment


def _round_fraction(fraction: str, digits: int) -> tuple[int, str]:
    """Round a fraction half up; return the seconds to carry and the rounded digits."""
    if len(fraction) <= digits:
        return 0, fraction.ljust(digits, "0")
    # Only the first dropped digit decides.
    carry, rounded = divmod((int(fraction[: digits + 1]) + 5) // 10, 10**digits)
    return carry, f"{rounded:0{digits}}" if digits else ""


def _convert_to_session(moment: str, zone: tzinfo | None, text: str) -> str:
    if zone is None:
        raise InvalidValue(
            f"{text[:80]!r} has an offset from UTC, so its value depends on the time zone of the"
            f" session that ran the DDL, which no message states; {DECLARE_TIME_ZONE}"
        )
    return to_local(moment, zone)


def _convert_to_utc(moment: str, offset: str, text: str) -> str:
    if offset == "Z":
        return moment
    hours, minutes = int(offset[1:3]), int(offset[-2:]) if len(offset) > 3 else 0
    if minutes > 59 or hours * 60 + minutes > 14 * 60 or offset.rstrip(":0") in ("-", "-00"):
        raise _make_error(text)
    ahead = timedelta(hours=hours, minutes=minutes)
    try:
        local = datetime.fromisoformat(moment)
        shifted = local + ahead if offset.startswith("-") else local - ahead
    except (ValueError, OverflowError):
        raise _make_error(text) from None
    return format_moment(shifted, 0)


def _count_days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _read_numeric_moment(number: int) -> str:
    """Read YYYYMMDD or YYYYMMDDHHMMSS, also with a two-digit year."""
    if number == 0:
        return "0000-00-00 00:00:00"
    if number < 101_000_000:
        whole = _complete_year(number, 10**4) * 10**6
    else:
        whole = _complete_year(number, 10**10)
    text = f"{whole:014}"
    if number < 101 or len(text) != 14:
        raise _make_error(str(number))
    parts = [text[:4], *(text[i : i + 2] for i in range(4, 14, 2))]
    return _build_moment(parts, "", 0, str(number))


def _complete_year(number: int, year: int) -> int:
    """Complete a two-digit year; `year` is the weight of one year in the number."""
    if number < 100 * year:
        number += (2000 if number < 70 * year else 1900) * year
    return number


def _read_clock(text: str, digits: int, zone: tzinfo | None) -> str:
    """Read `[-][days ]hours[:minutes[:seconds]][.fraction]`, `HHMMSS` or a whole datetime."""
    stripped = text.strip()
    match = _CLOCK.fullmatch(stripped) if len(stripped) <= _LONGEST_TEXT else None
    if match is not None:
        sign, days, hours, minutes, seconds, fraction = match.groups()
        if days is None and minutes is None:
            if len(hours) in (12, 14):
                return round_text(_read_moment(stripped, digits, zone)[11:], digits)
            # Plain digits are HHMMSS.
            hours, minutes, seconds = hours[:-4] or "0", hours[-4:-2] or "0", hours[-2:]
        hour = int(hours) + 24 * int(days or 0)
        minute, second = int(minutes or 0), int(seconds or 0)
        if minute > 59 or second > 59:
            raise InvalidValue(f"{text[:80]!r} is not a time")
        carry, fraction = _round_fraction(fraction or "", digits)
        microseconds = ((hour * 60 + minute) * 60 + second + carry) * _SECOND
        microseconds = min(microseconds + int(fraction.ljust(6, "0")), _LONGEST_TIME)
        return _format_clock(-microseconds if sign else microseconds, digits)
    return round_text(_read_moment(stripped, digits, zone)[11:], digits)


def _make_error(text: str) -> InvalidValue:
    return InvalidValue(f"{text[:80]!r} is not a date and time")
