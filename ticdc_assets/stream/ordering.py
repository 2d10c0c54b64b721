"""The order in which events apply: by commit ts, and within one commit ts by phase."""

from enum import IntEnum


class Phase(IntEnum):
    """What comes first at one commit ts."""

    # Rows that carry their own commit ts.
    ROWS = 0
    DDLS = 1
    # Rows and bootstraps that a table version dates, and rows that arrived late: they see the
    # table as the DDLs of that commit ts left it.
    AFTER_DDLS = 2


# A point in that order: a commit ts and a phase.  Arithmetic on the phase is allowed, so it is an
# integer: one less than `Phase.ROWS` is the point before everything at that commit ts.
OrderKey = tuple[int, int]
