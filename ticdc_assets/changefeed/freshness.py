"""How old a changefeed's newest resolved ts may be."""

from datetime import timedelta
from typing import NamedTuple

from ticdc_assets.changefeed.declaration import Changefeed


class Freshness(NamedTuple):
    """The ages from which a resolved ts is suspicious, and wrong."""

    warn: timedelta
    fail: timedelta


def find_freshness(feed: Changefeed) -> Freshness:
    """Return them by TiCDC's flush interval.

    They are for a lake, not for a table: a table without changes is correct, however long ago its
    last change was.
    """
    interval = max(feed.flush_interval, 60.0)
    return Freshness(timedelta(seconds=10 * interval), timedelta(seconds=60 * interval))
