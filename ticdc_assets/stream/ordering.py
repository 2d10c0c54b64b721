"""The order in which events apply: by commit ts, and within one commit ts by phase."""

from enum import IntEnum


class Phase(IntEnum):
    """The phases of one commit ts, in the order they apply."""

    # Rows with a commit ts of their own.
    ROWS = 0
    DDLS = 1
    # Rows ordered by table version, bootstraps, and rows that arrived late: they apply to the
    # table as the DDLs of that commit ts left it.
    AFTER_DDLS = 2
    # Loads, which hold the rows of that commit ts.
    LOADS = 3


# A point in the order: a commit ts and a phase.  The phase is a plain integer because `-1` is valid
# too: the point before everything else at that commit ts.
OrderKey = tuple[int, int]


def point_before(place: OrderKey) -> OrderKey:
    """Return the point in the order just before another one."""
    ts, phase = place
    return (ts, phase - 1) if phase > Phase.ROWS else (ts - 1, Phase.AFTER_DDLS)
