"""For how many days a lake keeps the row events of a changefeed."""

# A sender that begins again repeats what is newer than its checkpoint.
_LEAST, _MOST = 7, 36_500


def read_kept_days(value: object) -> int | None:
    """Read a number of days, or None: for ever; raise `ValueError` if it is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST <= value <= _MOST:
        raise ValueError(f"must be a whole number of days, {_LEAST} to {_MOST}")
    return value
