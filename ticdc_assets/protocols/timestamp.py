"""TIMESTAMP texts of any server zone, brought to UTC.

A TIMESTAMP is written in the TiCDC server's zone; the row-image convention wants UTC.  The digits
of the fraction are kept as they were sent.  In the hour that a zone lives through twice the text
does not say which of the two is meant: the first is taken.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ticdc_assets.errors import MalformedMessage

_SECONDS = len("YYYY-MM-DD HH:MM:SS")
_NONE = timedelta()
_UTC_NAMES = frozenset({"UTC", "Etc/UTC"})


def to_utc(text: str, zone: ZoneInfo) -> str:
    """Bring a TIMESTAMP text of a zone to UTC; the zero timestamp stays as it is."""
    if zone.key in _UTC_NAMES:
        return text
    seconds = text[:_SECONDS]
    try:
        local = datetime.fromisoformat(seconds)
        if len(seconds) != _SECONDS or local.tzinfo is not None:
            raise ValueError
        # A quarter of the time of `replace(tzinfo=zone).astimezone(UTC)`.
        moment = local - (zone.utcoffset(local) or _NONE)
    except (ValueError, OverflowError):
        if seconds == "0000-00-00 00:00:00":
            return text
        raise MalformedMessage(f"{text[:40]!r} is no timestamp") from None
    return moment.isoformat(" ") + text[_SECONDS:]


@lru_cache(maxsize=64)
def zone_named(location: str, local: ZoneInfo) -> ZoneInfo:
    """The zone that a message names; `local` is the server's own, which it may leave unnamed."""
    if location.lower() in ("", "system", "local"):
        return local
    try:
        return ZoneInfo(location)
    # Names that are paths, folders or too long fail in ways of their own.
    except (LookupError, ValueError, OSError):
        raise MalformedMessage(f"unknown time zone {location[:40]!r}") from None
