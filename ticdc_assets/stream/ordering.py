"""The order in which events apply: by commit ts, and within one commit ts by phase."""

from enum import IntEnum

from ticdc_assets.events.event import Ordering


class Phase(IntEnum):
    """The phases of one commit ts, in the order they apply."""

    # Rows with a commit ts of their own.
    ROWS = 0
    DDLS = 1
    # Definitions from upstream: tables as the DDLs of that commit ts left them.
    DEFINITIONS = 2
    # Rows ordered by table version, bootstraps, and rows that arrived late: they apply to the
    # table as the DDLs of that commit ts left it.
    AFTER_DDLS = 3
    # Loads, which hold the rows of that commit ts.
    LOADS = 4


# A point in the order: a commit ts and a phase.  The phase is a plain integer because `-1` is valid
# too: the point before everything else at that commit ts.
OrderKey = tuple[int, int]


def point_before(place: OrderKey) -> OrderKey:
    """Return the point in the order just before another one."""
    ts, phase = place
    return (ts, phase - 1) if phase > Phase.ROWS else (ts - 1, Phase.AFTER_DDLS)


def place_row(commit_ts: int, ordering: Ordering, applied_ts: int) -> OrderKey:
    """Return the place of a row that arrives when everything up to `applied_ts` is applied."""
    if ordering != "commit_ts" and commit_ts <= applied_ts:
        return applied_ts, Phase.AFTER_DDLS
    return commit_ts, Phase.AFTER_DDLS if ordering == "table_version" else Phase.ROWS
