"""Conversion of TIMESTAMP text from the zone of the TiCDC server to UTC.

TiCDC writes a TIMESTAMP in its server's zone; row images have it in UTC.  The digits of the
fraction are kept.  In the hour that a zone repeats when the clock goes back, the text means two
moments, and the row image has both.
"""

from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events.row_image import EITHER

_SECONDS = len("YYYY-MM-DD HH:MM:SS")
_DAY = len("YYYY-MM-DD")
_NONE = timedelta()
_UTC_NAMES = frozenset({"UTC", "Etc/UTC"})


def to_utc(text: str, zone: ZoneInfo) -> str:
    """Convert a TIMESTAMP text of a zone to UTC; the zero timestamp is returned unchanged."""
    if zone.key in _UTC_NAMES:
        return text
    seconds = text[:_SECONDS]
    try:
        local = datetime.fromisoformat(seconds)
        if len(seconds) != _SECONDS or local.tzinfo is not None:
            raise ValueError
        offset = _find_offset_of_day(seconds[:_DAY], zone)
        if offset is None:
            return EITHER.join(
                moment.isoformat(" ") + text[_SECONDS:] for moment in _find_moments(local, zone)
            )
        # Takes a fraction of the time of `replace(tzinfo=zone).astimezone(UTC)`.
        moment = local - offset
    except (ValueError, OverflowError):
        if seconds == "0000-00-00 00:00:00":
            return text
        raise MalformedMessage(f"{text[:40]!r} is not a timestamp") from None
    return moment.isoformat(" ") + text[_SECONDS:]


@lru_cache(maxsize=4096)
def _find_offset_of_day(day: str, zone: ZoneInfo) -> timedelta | None:
    """Return a zone's offset from UTC on a day, or None if it changes on that day."""
    start = datetime.combine(date.fromisoformat(day), time())
    try:
        hours = [start + timedelta(hours=n) for n in range(25)]
    except OverflowError:
        return None
    offsets = {zone.utcoffset(hour.replace(fold=fold)) for hour in hours for fold in (0, 1)}
    return offsets.pop() if len(offsets) == 1 else None


def _find_moments(local: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return the moments in UTC at which the clocks of a zone showed this time."""
    first, second = (zone.utcoffset(local.replace(fold=fold)) or _NONE for fold in (0, 1))
    if first < second:
        raise MalformedMessage(f"no clock in {zone.key} showed {local}: is it the server's zone?")
    return [local - first] if first == second else [local - first, local - second]


@lru_cache(maxsize=64)
def zone_named(location: str, local: ZoneInfo) -> ZoneInfo:
    """Return the zone that a message names; `local` is the server's, which may have no name."""
    if location.lower() in ("", "system", "local"):
        return local
    try:
        return ZoneInfo(location)
    # Names that are paths, folders or too long raise other errors than unknown names.
    except (LookupError, ValueError, OSError):
        raise MalformedMessage(f"unknown time zone {location[:40]!r}") from None
