"""Conversion of TIMESTAMP text from the zone of the TiCDC server to UTC.

TiCDC writes a TIMESTAMP in its server's zone; row images have it in UTC.  The digits of the
fraction are kept.  In the hour that a zone repeats when the clock goes back, the text is ambiguous:
the first of the two is taken.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ticdc_assets.errors import MalformedMessage

_SECONDS = len("YYYY-MM-DD HH:MM:SS")
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
        # Takes a quarter of the time of `replace(tzinfo=zone).astimezone(UTC)`.
        moment = local - (zone.utcoffset(local) or _NONE)
    except (ValueError, OverflowError):
        if seconds == "0000-00-00 00:00:00":
            return text
        raise MalformedMessage(f"{text[:40]!r} is not a timestamp") from None
    return moment.isoformat(" ") + text[_SECONDS:]


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
