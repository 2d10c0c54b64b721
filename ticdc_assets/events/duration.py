"""Durations as people read them."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def format_seconds(seconds: float) -> str:
    """Format a duration in the largest unit of which it has two."""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"
