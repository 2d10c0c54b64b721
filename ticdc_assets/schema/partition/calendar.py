"""Dates and times as MySQL's calendar functions see them.

The texts of values are taken apart here and numbers are made of the parts; no SQL is read.  A date
of zeros, or with a zero month or day, has no day number: functions that need one give NULL for it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import NamedTuple

from ticdc_assets.errors import InvalidValue

_UNIX_EPOCH_DAY = 719528
# UNIX_TIMESTAMP gives 0 outside of these.
_FIRST_UNIX_MICROSECOND = 10**6
_LAST_UNIX_MICROSECOND = 32536771199999999


class Moment(NamedTuple):
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


class Clock(NamedTuple):
    """A TIME, or the time of day of a moment."""

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
    """Count days as TO_DAYS does: 1 is 0000-01-01; days behind a month's end run on."""
    # Counted from March, a year has its leap day at the end.  The year 0 is none to MySQL.
    march_year = year if month > 2 else year - 1
    leap_days = march_year // 4 - march_year // 100 + march_year // 400 if march_year > 0 else 0
    days_before_month = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * march_year + leap_days + days_before_month + day + 59


# --- reading -----------------------------------------------------------------


def read_moment(text: str) -> Moment:
    """Read the MySQL text of a date, datetime or timestamp value."""
    try:
        date = int(text[:4]), int(text[5:7]), int(text[8:10])
        if len(text) == 10:
            return Moment(*date)
        return Moment(
            *date, int(text[11:13]), int(text[14:16]), int(text[17:19]), _fraction(text[20:])
        )
    except ValueError:
        raise InvalidValue(f"{text[:80]!r} is not a date") from None


def read_clock(text: str) -> Clock:
    """Read the MySQL text of a time value, or the time of day of a datetime's."""
    if len(text) > 10 and text[4] == "-":
        moment = read_moment(text)
        return Clock(False, *moment[3:])
    try:
        hour, minute, second = text.lstrip("-").split(":")
        whole, _, fraction = second.partition(".")
        return Clock(text.startswith("-"), int(hour), int(minute), int(whole), _fraction(fraction))
    except ValueError:
        raise InvalidValue(f"{text[:80]!r} is not a time") from None


def _fraction(digits: str) -> int:
    return int(digits[:6].ljust(6, "0")) if digits else 0


# --- functions of a date -----------------------------------------------------


def _weekday(number: int) -> int:
    """0 is Monday."""
    return (number + 5) % 7


def _to_seconds(moment: Moment) -> int | None:
    number = moment.day_number
    if number is None:
        return None
    return ((number * 24 + moment.hour) * 60 + moment.minute) * 60 + moment.second


def _day_of_year(moment: Moment) -> int | None:
    number = moment.day_number
    return None if number is None else number - day_number(moment.year, 1, 1) + 1


def _day_of_week(moment: Moment) -> int | None:
    number = moment.day_number
    return None if number is None else (_weekday(number) + 1) % 7 + 1


def _weekday_of(moment: Moment) -> int | None:
    number = moment.day_number
    return None if number is None else _weekday(number)


DATE_FUNCTIONS: dict[str, Callable[[Moment], int | None]] = {
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


def year_week(moment: Moment, mode: int) -> int | None:
    """Compute YEARWEEK: the year times 100 plus the week, both by the rules of a WEEK mode."""
    number = moment.day_number
    if number is None:
        return None
    year = moment.year
    if number >= _first_week(year + 1, mode):
        year += 1
    elif number < _first_week(year, mode):
        year -= 1
    return year * 100 + (number - _first_week(year, mode)) // 7 + 1


def _first_week(year: int, mode: int) -> int:
    """Find the day on which the first week of a year starts."""
    monday_first = bool(mode & 1)
    # Bit 4 swaps the rule, and weeks that start on Sunday have it swapped already.
    four_days_make_a_week = bool(mode & 4) != monday_first
    new_year = day_number(year, 1, 1)
    into_week = _weekday(new_year) if monday_first else (_weekday(new_year) + 1) % 7
    if into_week == 0 or (four_days_make_a_week and into_week <= 3):
        return new_year - into_week
    return new_year - into_week + 7


def unix_timestamp(moment: Moment, zone: tzinfo | None) -> Decimal:
    """Compute UNIX_TIMESTAMP of a moment in a zone; None is UTC, for any date."""
    number = moment.day_number
    seconds = _to_seconds(moment)
    if number is None or seconds is None:
        return Decimal(0)
    total = (seconds - _UNIX_EPOCH_DAY * 86400) * 10**6 + moment.microsecond
    if zone is not None:
        try:
            offset = datetime(*moment, tzinfo=zone).utcoffset() or timedelta()
        except ValueError:
            return Decimal(0)
        total -= offset // timedelta(microseconds=1)
    if not _FIRST_UNIX_MICROSECOND <= total <= _LAST_UNIX_MICROSECOND:
        return Decimal(0)
    return Decimal(total).scaleb(-6)


# --- functions of a time -----------------------------------------------------

CLOCK_FUNCTIONS: dict[str, Callable[[Clock], int]] = {
    "hour": lambda c: c.hour,
    "minute": lambda c: c.minute,
    "second": lambda c: c.second,
    "microsecond": lambda c: c.microsecond,
    "time_to_sec": lambda c: (-1 if c.negative else 1) * ((c.hour * 60 + c.minute) * 60 + c.second),
}

_CLOCK_UNITS = ("hour", "minute", "second", "microsecond")

EXTRACT_FROM_DATE: dict[str, Callable[[Moment], int | None]] = {
    "year_month": lambda m: m.year * 100 + m.month,
    **{unit: DATE_FUNCTIONS[unit] for unit in ("year", "quarter", "month", "day")},
}


def _extract_clock(first: int, last: int) -> Callable[[Clock], int]:
    def extract(clock: Clock) -> int:
        total = 0
        for at in range(first, last + 1):
            total = total * (10**6 if at == 3 else 100) + clock[at + 1]
        return -total if clock.negative else total

    return extract


def _extract_day_clock(last: int) -> Callable[[Moment], int]:
    clock_part = _extract_clock(0, last)
    scale = 100 ** min(last + 1, 3) * (10**6 if last == 3 else 1)
    return lambda m: m.day * scale + clock_part(Clock(False, *m[3:]))


EXTRACT_FROM_CLOCK: dict[str, Callable[[Clock], int]] = {
    first if at == to else f"{first}_{last}": _extract_clock(at, to)
    for at, first in enumerate(_CLOCK_UNITS)
    for to, last in enumerate(_CLOCK_UNITS)
    if at <= to
}

EXTRACT_FROM_DATETIME: dict[str, Callable[[Moment], int]] = {
    f"day_{last}": _extract_day_clock(to) for to, last in enumerate(_CLOCK_UNITS)
}
