"""TSO arithmetic: a TiDB timestamp is Unix milliseconds shifted by 18 bits, plus a counter."""

from datetime import UTC, datetime, timedelta

_LOGICAL_BITS = 18
_LOGICAL_MASK = (1 << _LOGICAL_BITS) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# By which the clocks of TiDB and of this machine may differ.
CLOCK_ERROR = timedelta(minutes=1)


def physical_ms(ts: int) -> int:
    """Return the Unix milliseconds of a TSO."""
    return ts >> _LOGICAL_BITS


def logical(ts: int) -> int:
    """Return the counter that distinguishes TSOs of one millisecond."""
    return ts & _LOGICAL_MASK


def compose(ms: int, logical: int = 0) -> int:
    """Build a TSO from Unix milliseconds and a logical counter."""
    if ms < 0 or not 0 <= logical <= _LOGICAL_MASK:
        raise ValueError(f"a TSO cannot have physical part {ms} and logical part {logical}")
    return ms << _LOGICAL_BITS | logical


def to_datetime(ts: int) -> datetime:
    """Return the physical time of a TSO, in UTC."""
    return _EPOCH + timedelta(milliseconds=physical_ms(ts))
