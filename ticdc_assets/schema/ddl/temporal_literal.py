"""Date and time literals: from any form that MySQL accepts to that of the row-image convention.

'2024-1-2', '20240102', 20240102 and '24/1/2' are the same date.  A literal that is no date or time
keeps its text; converting it to a value then raises `InvalidValue`.
"""

from datetime import datetime, timedelta
from itertools import groupby

from ticdc_assets.events import ColumnType

# Two-digit years from here on are in the twentieth century.
_FIRST_YEAR_OF_1900S = 70
_MAX_FRACTION_DIGITS = 6
# The widths of the parts of a date without delimiters, by the number of digits; year first.
_PART_WIDTHS = {
    6: (2, 2, 2),
    8: (4, 2, 2),
    12: (2, 2, 2, 2, 2, 2),
    14: (4, 2, 2, 2, 2, 2),
}


def normalize_temporal(text: str, type: ColumnType) -> str:
    """Rewrite the literal of a date or time type in the row-image convention."""
    places = type.decimals or 0
    stripped = text.strip()
    if not stripped.isascii():
        return text
    match type.name:
        case "year":
            return _parse_year(text) or text
        case "time":
            return _parse_time(stripped, places) or text
        case "date":
            datetime_text = _parse_datetime(stripped, 0)
            return text if datetime_text is None else datetime_text[:10]
        case _:
            return _parse_datetime(stripped, places) or text


def _parse_year(text: str) -> str | None:
    # '0000' is the zero year, '0' is 2000.
    if not text.isdecimal() or len(text) not in (1, 2):
        return None
    return str(_add_century(int(text)))


def _add_century(year: int) -> int:
    return year + (1900 if year >= _FIRST_YEAR_OF_1900S else 2000)


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
    """Whether the part after a dot is a fraction of a second: only after a complete time of day."""
    return fraction.isdecimal() and (body.count(":") == 2 or len(body) in (12, 14))


def _split_digits(text: str) -> list[int] | None:
    if text.strip("0") == "":
        return [0, 0, 0]
    widths = _PART_WIDTHS.get(len(text))
    if widths is None:
        return None
    parts = []
    start = 0
    for width in widths:
        parts.append(int(text[start : start + width]))
        start += width
    if widths[0] == 2:
        parts[0] = _add_century(parts[0])
    return parts


def _split_delimited(text: str) -> list[int] | None:
    """Split numbers with any delimiters between them, year first."""
    if len(text) > 40 or "+" in text:
        return None
    groups = ["".join(group) for _, group in groupby(text, str.isdecimal)]
    numbers, delimiters = groups[::2], groups[1::2]
    if not text[:1].isdecimal() or len(numbers) not in (3, 5, 6) or len(delimiters) >= len(numbers):
        return None
    if len(numbers[0]) > 4 or any(len(number) > 2 for number in numbers[1:]):
        return None
    if any(sign.isalnum() and sign != "T" for sign in delimiters):
        return None
    parts = [int(number) for number in numbers]
    if len(numbers[0]) <= 2:
        parts[0] = _add_century(parts[0])
    return parts


def _round_fraction(written: str, fraction: str, places: int) -> str | None:
    """Round a datetime to the fractional digits of its type."""
    if len(fraction) <= places:
        digits = fraction.ljust(places, "0")
        return f"{written}.{digits}" if places else written
    kept, cut = fraction[:places], fraction[places:]
    if cut[0] < "5":
        return f"{written}.{kept}" if places else written
    try:
        value = datetime.fromisoformat(written)
        value += timedelta(microseconds=int(kept.ljust(_MAX_FRACTION_DIGITS, "0")))
        value += timedelta(microseconds=10 ** (_MAX_FRACTION_DIGITS - places))
    except (ValueError, OverflowError):
        return None
    rounded = value.isoformat(sep=" ", timespec="microseconds")
    return rounded[: 20 + places] if places else rounded[:19]


def _parse_time(text: str, places: int) -> str | None:
    sign = "-" if text.startswith("-") else ""
    body, _, fraction = text.removeprefix("-").partition(".")
    days, _, clock = body.rpartition(" ")
    if len(fraction) > places:
        # Rounding may carry into the minutes; such defaults keep their text.
        if fraction[places:].strip("0"):
            return None
        fraction = fraction[:places]
    parts = clock.split(":")
    if len(parts) == 1 and not days:
        # Digits without colons are HHMMSS, aligned to the seconds.
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
