"""Date and time literals as MySQL accepts them, to the one form of the row-image convention.

A statement may say '2024-1-2', '20240102', 20240102 or '24/1/2' and mean one date.  What is not
understood stays as it is written: it is no date then, and whoever needs its value will be told.
"""

from datetime import datetime, timedelta
from itertools import groupby

from ticdc_assets.events import ColumnType

# Years of two digits from here on are of the last century.
_CENTURY_TURN = 70
_MOST_FRACTION_DIGITS = 6
# Digits without delimiters, by their number: how they are cut, year first.
_DATE_CUTS = {
    6: (2, 2, 2),
    8: (4, 2, 2),
    12: (2, 2, 2, 2, 2, 2),
    14: (4, 2, 2, 2, 2, 2),
}


def normalize_temporal(text: str, type: ColumnType) -> str:
    """Rewrite a literal of a date or time type."""
    places = type.decimals or 0
    stripped = text.strip()
    if not stripped.isascii():
        return text
    match type.name:
        case "year":
            return _parse_year(stripped) or text
        case "time":
            return _parse_time(stripped, places) or text
        case "date":
            moment = _parse_datetime(stripped, 0)
            return text if moment is None else moment[:10]
        case _:
            return _parse_datetime(stripped, places) or text


def _parse_year(text: str) -> str | None:
    if not text.isdecimal() or len(text) not in (1, 2, 4):
        return None
    return str(int(text) if len(text) == 4 else _add_century(int(text)))


def _add_century(year: int) -> int:
    return year + (1900 if year >= _CENTURY_TURN else 2000)


def _parse_datetime(text: str, places: int) -> str | None:
    body, dot, fraction = text.rpartition(".")
    if not dot or not _is_fraction(body, fraction):
        body, fraction = text, ""
    parts = _split_digits(body) if body.isdecimal() else _split_delimited(body)
    if parts is None:
        return None
    year, month, day, hour, minute, second = (*parts, 0, 0, 0)[:6]
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59 or year > 9999:
        return None
    written = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    return _round_fraction(written, fraction, places)


def _is_fraction(body: str, fraction: str) -> bool:
    """A dot divides seconds from their fraction only behind a whole time of day."""
    return fraction.isdecimal() and (body.count(":") == 2 or len(body) in (12, 14))


def _split_digits(text: str) -> list[int] | None:
    if text.strip("0") == "":
        return [0, 0, 0]
    cuts = _DATE_CUTS.get(len(text))
    if cuts is None:
        return None
    parts = []
    at = 0
    for size in cuts:
        parts.append(int(text[at : at + size]))
        at += size
    if cuts[0] == 2:
        parts[0] = _add_century(parts[0])
    return parts


def _split_delimited(text: str) -> list[int] | None:
    """Numbers with any one sign between them, year first."""
    if len(text) > 40 or "+" in text:
        return None
    groups = ["".join(group) for _, group in groupby(text, str.isdecimal)]
    numbers, between = groups[::2], groups[1::2]
    if not text[:1].isdecimal() or len(numbers) not in (3, 5, 6) or len(between) >= len(numbers):
        return None
    if len(numbers[0]) > 4 or any(len(number) > 2 for number in numbers[1:]):
        return None
    if any(sign.isalnum() and sign != "T" for sign in between):
        return None
    parts = [int(number) for number in numbers]
    if len(numbers[0]) <= 2:
        parts[0] = _add_century(parts[0])
    return parts


def _round_fraction(written: str, fraction: str, places: int) -> str | None:
    """Give a moment as many digits of a second as its type has, rounding."""
    if len(fraction) <= places:
        digits = fraction.ljust(places, "0")
        return f"{written}.{digits}" if places else written
    kept, cut = fraction[:places], fraction[places:]
    if cut[0] < "5":
        return f"{written}.{kept}" if places else written
    try:
        moment = datetime.fromisoformat(written)
        moment += timedelta(microseconds=int(kept.ljust(_MOST_FRACTION_DIGITS, "0")))
        moment += timedelta(microseconds=10 ** (_MOST_FRACTION_DIGITS - places))
    except (ValueError, OverflowError):
        return None
    rounded = moment.isoformat(sep=" ", timespec="microseconds")
    return rounded[: 20 + places] if places else rounded[:19]


def _parse_time(text: str, places: int) -> str | None:
    sign = "-" if text.startswith("-") else ""
    body, _, fraction = text.removeprefix("-").partition(".")
    days, _, clock = body.rpartition(" ")
    if len(fraction) > places:
        # Rounding may carry; such defaults are not worth the care.
        if fraction[places:].strip("0"):
            return None
        fraction = fraction[:places]
    parts = clock.split(":")
    if len(parts) == 1 and not days:
        # Digits alone are counted from the seconds.
        digits = clock.zfill(6)
        parts = [digits[:-4], digits[-4:-2], digits[-2:]]
    if len(parts) > 3 or not all(p.isdecimal() and len(p) <= 3 for p in (*parts, days or "0")):
        return None
    if fraction and not fraction.isdecimal():
        return None
    hour, minute, second = (*map(int, parts), 0, 0)[:3]
    hour += 24 * int(days or "0")
    if hour > 838 or minute > 59 or second > 59:
        return None
    written = f"{sign}{hour:02}:{minute:02}:{second:02}"
    return f"{written}.{fraction.ljust(places, '0')}" if places else written
