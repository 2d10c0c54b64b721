"""Datetimes between UTC and the time zone of a session, as TiDB converts them.

A zero date is the same in every zone.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from ticdc_assets.errors import InvalidValue


def to_local(moment: str, zone: tzinfo | None) -> str:
    """Convert a datetime from UTC to a zone; an unknown zone counts as UTC."""
    if zone is None or _is_zero(moment):
        return moment
    utc, fraction = _parse(moment)
    return _format(utc + find_offset(utc, zone), fraction)


def to_utc(moment: str, zone: tzinfo | None) -> str:
    """Convert a datetime from a zone to UTC; an unknown zone counts as UTC."""
    if zone is None or _is_zero(moment):
        return moment
    local, fraction = _parse(moment)
    return _format(local - find_local_offset(local, zone), fraction)


def find_offset(utc: datetime, zone: tzinfo) -> timedelta:
    """Return a zone's offset at a moment in UTC."""
    try:
        offset = utc.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    except (ValueError, OverflowError):
        raise InvalidValue(f"{utc} has no equivalent in {zone}") from None
    return offset or timedelta()


def find_local_offset(local: datetime, zone: tzinfo) -> timedelta:
    """Return a zone's offset at a local time; of two equal local times TiDB takes one as Go does.

    Raises `InvalidValue` for a local time that the zone skips.
    """
    try:
        offset = find_offset(local - find_offset(local, zone), zone)
        exists = find_offset(local - offset, zone) == offset
    except OverflowError:
        raise InvalidValue(f"{local} has no equivalent in UTC") from None
    if not exists:
        raise InvalidValue(f"{local} does not exist in {zone}")
    return offset


def _is_zero(moment: str) -> bool:
    return moment.startswith("0000-00-00")


def _parse(moment: str) -> tuple[datetime, str]:
    """Split a datetime into its whole seconds and the fraction, if it has one."""
    whole, point, fraction = moment.partition(".")
    try:
        return datetime.fromisoformat(whole), point + fraction
    except ValueError:
        raise InvalidValue(f"{moment[:80]!r} is not a date and time") from None


def _format(moment: datetime, fraction: str) -> str:
    return f"{moment.isoformat(' ', 'seconds')}{fraction}"
