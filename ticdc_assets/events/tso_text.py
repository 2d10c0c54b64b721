"""TSOs as people write and read them: as a number, or as a time.

A time means what it means to TiDB in `SET tidb_snapshot` and `AS OF TIMESTAMP`: its Unix
milliseconds as the physical part, and a counter of 0 (`oracle.GoTimeToTS`).  Of microseconds, the
first cuts off and the second rounds, so a time has milliseconds at most here.
"""

import re
from datetime import UTC, datetime, timedelta

from ticdc_assets.events.tso import compose, to_datetime

MAX_TSO = (1 << 63) - 1
FORMS = (
    "a TSO, a time such as 2026-03-14T09:26:53Z, the same in UTC without its zone such as"
    " '2026-03-14 09:26:53', now, or a time before now such as -10m (s, m, h, d)"
)
_NUMBER = re.compile(r"[0-9]{1,19}")
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})(?P<sign>[Tt ])(?P<clock>[0-9]{2}:[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r" ?(?P<zone>Z|z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
)
_BEFORE_NOW = re.compile(r"-(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")
_UNIX_UNITS = (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000))
# As TSOs, the Unix times of these years are of 1970.
_UNIX_YEARS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def parse_tso(text: str, now: datetime) -> int:
    """Return the TSO that a text names; raise `ValueError` with what is wrong with it."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        if int(text) > MAX_TSO:
            raise ValueError("must be below 2^63")
        return int(text)
    moment = _parse_moment(text, now)
    try:
        return from_datetime(moment)
    except ValueError:
        raise ValueError("must be 1970 or later") from None


def from_datetime(moment: datetime) -> int:
    """Return the TSO that a moment is to TiDB."""
    return compose((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def find_unix_time(number: int) -> tuple[str, datetime] | None:
    """Return the unit and the moment of a number that can only be Unix time."""
    for unit, per_second in _UNIX_UNITS:
        first, end = (int(year.timestamp()) * per_second for year in _UNIX_YEARS)
        if first <= number < end:
            milliseconds = number * 1000 // per_second
            return unit, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return None


def describe_unix_time(number: int) -> str | None:
    """Say of a number that can only be Unix time which TSO is meant, else None."""
    found = find_unix_time(number)
    if found is None:
        return None
    unit, moment = found
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    return (
        f"{number} is no TSO but Unix time in {unit}: give the time, {time}, or its TSO,"
        f" {from_datetime(moment)}"
    )


def describe_ts(ts: int) -> str:
    """Return a TSO with its time."""
    return f"{ts} ({format_exact_time(ts)})"


def format_time(ts: int) -> str:
    """Format the time of a TSO to the second."""
    try:
        return f"{to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return "after the year 9999"


def format_exact_time(ts: int) -> str:
    """Format the time of a TSO to the millisecond."""
    try:
        moment = to_datetime(ts)
    except OverflowError:
        return format_time(ts)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"


def _parse_moment(text: str, now: datetime) -> datetime:
    if text == "now":
        return now
    ago = _BEFORE_NOW.fullmatch(text)
    if ago and text != "-":
        days, hours, minutes, seconds = (int(part or 0) for part in ago.groups())
        try:
            return now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            raise ValueError("must be 1970 or later") from None
    time = _TIME.fullmatch(text)
    if time is None:
        raise ValueError(f"must be {FORMS}")
    if time["zone"] is None and time["sign"] != " ":
        raise ValueError("has no zone: add Z for UTC, or an offset such as +08:00")
    fraction = time["fraction"] or ""
    if fraction[3:].strip("0"):
        raise ValueError("must have at most 3 digits of a second: TiDB counts milliseconds")
    zone = "+00:00" if time["zone"] in (None, "Z", "z", "UTC") else time["zone"]
    second = time["second"] or "00"
    iso = f"{time['day']}T{time['clock']}:{second}.{fraction[:3]:0<3}{zone}"
    try:
        return datetime.fromisoformat(iso)
    except ValueError as error:
        raise ValueError(f"is no time: {error}") from None
