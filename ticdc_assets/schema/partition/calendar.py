"""MySQL's calendar functions on the parts of DATE, DATETIME and TIME values.

A date with a zero month or day has no day number; functions that need one return NULL for it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import NamedTuple

from ticdc_assets.errors import InvalidValue
from ticdc_assets.schema.conversion.time_zone import find_local_offset

_UNIX_EPOCH_DAY = 719528
# UNIX_TIMESTAMP returns 0 outside this range.
_FIRST_UNIX_MICROSECOND = 10**6
_LAST_UNIX_MICROSECOND = 32536771199999999


class MysqlDatetime(NamedTuple):
    """The parts of a DATE, DATETIME or TIMESTAMP; months and days may be zero."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0

    @property
    def day_number(self) -> int | None:
        return day_number(self.year, self.month, self.day) if self.month and self.day else None


class MysqlTime(NamedTuple):
    """The parts of a TIME, or the time of day of a DATETIME."""

    negative: bool
    hour: int
    minute: int
    second: int
    microsecond: int

    @property
    def microseconds(self) -> int:
        seconds = (self.hour * 60 + self.minute) * 60 + self.second
        total = seconds * 10**6 + self.microsecond
        return -total if self.negative else total


def day_number(year: int, month: int, day: int) -> int:
    """Return the day number of TO_DAYS: 1 is 0000-01-01; a day past its month's end is valid."""
    # In a year that starts in March the leap day is the last day.  MySQL has no leap year 0.
    march_year = year if month > 2 else year - 1
    leap_days = march_year // 4 - march_year // 100 + march_year // 400 if march_year > 0 else 0
    days_before_month = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * march_year + leap_days + days_before_month + day + 59


# --- reading -----------------------------------------------------------------


def parse_datetime(text: str) -> MysqlDatetime:
    """Parse the MySQL text of a date, datetime or timestamp."""
    try:
        date = int(text[:4]), int(text[5:7]), int(text[8:10])
        if len(text) == 10:
            return MysqlDatetime(*date)
        return MysqlDatetime(
            *date, int(text[11:13]), int(text[14:16]), int(text[17:19]), _fraction(text[20:])
        )
    except ValueError:
        raise InvalidValue(f"{text[:80]!r} is not a date") from None


def parse_time(text: str) -> MysqlTime:
    """Parse the MySQL text of a time, or the time of day in that of a datetime."""
    if len(text) > 10 and text[4] == "-":
        value = parse_datetime(text)
        return MysqlTime(False, *value[3:])
    try:
        hour, minute, second = text.lstrip("-").split(":")
        whole, _, fraction = second.partition(".")
        return MysqlTime(
            text.startswith("-"), int(hour), int(minute), int(whole), _fraction(fraction)
        )
    except ValueError:
        raise InvalidValue(f"{text[:80]!r} is not a time") from None


def _fraction(digits: str) -> int:
    return int(digits[:6].ljust(6, "0")) if digits else 0


# --- functions of a date -----------------------------------------------------


def _weekday(number: int) -> int:
    """Return the weekday of a day number; 0 is Monday."""
    return (number + 5) % 7


def _to_seconds(value: MysqlDatetime) -> int | None:
    number = value.day_number
    if number is None:
        return None
    return ((number * 24 + value.hour) * 60 + value.minute) * 60 + value.second


def _day_of_year(value: MysqlDatetime) -> int | None:
    number = value.day_number
    return None if number is None else number - day_number(value.year, 1, 1) + 1


def _day_of_week(value: MysqlDatetime) -> int | None:
    number = value.day_number
    return None if number is None else (_weekday(number) + 1) % 7 + 1


def _weekday_of(value: MysqlDatetime) -> int | None:
    number = value.day_number
    return None if number is None else _weekday(number)


DATE_FUNCTIONS: dict[str, Callable[[MysqlDatetime], int | None]] = {
    "year": lambda m: m.year,
    "quarter": lambda m: (m.month + 2) // 3,
    "month": lambda m: m.month,
    "day": lambda m: m.day,
    "dayofmonth": lambda m: m.day,
    "dayofweek": _day_of_week,
    "dayofyear": _day_of_year,
    "weekday": _weekday_of,
    "to_days": lambda m: m.day_number,
    "to_seconds": _to_seconds,
}


def year_week(value: MysqlDatetime, mode: int) -> int | None:
    """Compute YEARWEEK, the year times 100 plus the week, by the rules of a WEEK mode."""
    number = value.day_number
    if number is None:
        return None
    year = value.year
    if number >= _first_week(year + 1, mode):
        year += 1
    elif number < _first_week(year, mode):
        year -= 1
    return year * 100 + (number - _first_week(year, mode)) // 7 + 1


def _first_week(year: int, mode: int) -> int:
    """Return the day number on which the first week of a year starts."""
    monday_first = bool(mode & 1)
    # Bit 4 inverts the rule, which is already inverted for weeks that start on Sunday.
    four_days_make_a_week = bool(mode & 4) != monday_first
    new_year = day_number(year, 1, 1)
    into_week = _weekday(new_year) if monday_first else (_weekday(new_year) + 1) % 7
    if into_week == 0 or (four_days_make_a_week and into_week <= 3):
        return new_year - into_week
    return new_year - into_week + 7


def unix_timestamp(value: MysqlDatetime, zone: tzinfo | None) -> Decimal:
    """Compute UNIX_TIMESTAMP of a datetime in a time zone; None is UTC."""
    number = value.day_number
    seconds = _to_seconds(value)
    if number is None or seconds is None:
        return Decimal(0)
    total = (seconds - _UNIX_EPOCH_DAY * 86400) * 10**6 + value.microsecond
    if zone is not None:
        try:
            local = datetime(*value)
        except ValueError:
            return Decimal(0)
        total -= find_local_offset(local, zone) // timedelta(microseconds=1)
    if not _FIRST_UNIX_MICROSECOND <= total <= _LAST_UNIX_MICROSECOND:
        return Decimal(0)
    return Decimal(total).scaleb(-6)


# --- functions of a time -----------------------------------------------------

TIME_FUNCTIONS: dict[str, Callable[[MysqlTime], int]] = {
    "hour": lambda c: c.hour,
    "minute": lambda c: c.minute,
    "second": lambda c: c.second,
    "microsecond": lambda c: c.microsecond,
    "time_to_sec": lambda c: (-1 if c.negative else 1) * ((c.hour * 60 + c.minute) * 60 + c.second),
}

_TIME_UNITS = ("hour", "minute", "second", "microsecond")

EXTRACT_FROM_DATE: dict[str, Callable[[MysqlDatetime], int | None]] = {
    "year_month": lambda m: m.year * 100 + m.month,
    **{unit: DATE_FUNCTIONS[unit] for unit in ("year", "quarter", "month", "day")},
}


def _extract_time(first: int, last: int) -> Callable[[MysqlTime], int]:
    def extract(time: MysqlTime) -> int:
        total = 0
        for index in range(first, last + 1):
            total = total * (10**6 if index == 3 else 100) + time[index + 1]
        return -total if time.negative else total

    return extract


def _extract_day_time(last: int) -> Callable[[MysqlDatetime], int]:
    time_part = _extract_time(0, last)
    scale = 100 ** min(last + 1, 3) * (10**6 if last == 3 else 1)
    return lambda m: m.day * scale + time_part(MysqlTime(False, *m[3:]))


EXTRACT_FROM_TIME: dict[str, Callable[[MysqlTime], int]] = {
    first if at == to else f"{first}_{last}": _extract_time(at, to)
    for at, first in enumerate(_TIME_UNITS)
    for to, last in enumerate(_TIME_UNITS)
    if at <= to
}

EXTRACT_FROM_DATETIME: dict[str, Callable[[MysqlDatetime], int]] = {
    f"day_{last}": _extract_day_time(to) for to, last in enumerate(_TIME_UNITS)
}
