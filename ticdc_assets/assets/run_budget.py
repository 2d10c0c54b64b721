"""How often a changefeed is looked at, and how long a run stays with it.

A session takes ten seconds to start and minutes to become quick, and most sources never rest.  So a
run that has brought the lake to a checkpoint goes on with the next one.  It ends after a while, to
tell what it has done and whether that is right, and when somebody else is to have a turn: another
run, or a command that wants the lake.
"""

import os
import re
import time

import dagster as dg

from resources.source import read_checkpoint
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.log.catalog import LakeCatalog
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.lake.store.lock import is_lock_wanted

INTERVAL = "TICDC_SENSOR_SECONDS"
_SECONDS = 15
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# No new checkpoint is begun when a run has lasted so many seconds, or would have to rest longer.
_LONGEST_RUN = 180
_LONGEST_REST = 15


def poll_interval(feed: Changefeed) -> int:
    """Seconds between two looks: TICDC_SENSOR_SECONDS_<ID>, or TICDC_SENSOR_SECONDS, or 15."""
    own = f"{INTERVAL}_{_UNSAFE.sub('_', feed.id).upper()}"
    for name in (own, INTERVAL):
        if stated := os.environ.get(name):
            if not stated.isdecimal() or int(stated) < 1:
                raise ConfigError("must be a whole number of seconds", setting=name)
            return int(stated)
    return _SECONDS


class RunBudget:
    """A run's stay with a changefeed, from when the object is made."""

    def __init__(self, feed: Changefeed, lake: Lake, instance: dg.DagsterInstance) -> None:
        self._feed = feed
        self._lake = lake
        self._instance = instance
        self._begun = self._looked = time.monotonic()
        self._newest = self._checkpoint()

    def is_over(self, before: LakeCatalog, after: LakeCatalog) -> str | None:
        """Why the run ends; None if there is a checkpoint to go on to, beyond what is applied.

        Waits until it is time for another look at the source.
        """
        now = time.monotonic()
        rest = max(self._looked + poll_interval(self._feed) - now, 0.0)
        if after.named().keys() != before.named().keys():
            return "tables have come or gone, and are for the next one to know"
        if rest > _LONGEST_REST:
            return "the source is not looked at for a while"
        if now + rest - self._begun > _LONGEST_RUN:
            return "it has lasted long enough to tell what it has done"
        if self._is_in_the_way():
            return "others wait"
        time.sleep(rest)
        self._looked = time.monotonic()
        seen, self._newest = self._newest, self._checkpoint()
        # Where the lake does not get on, the source has to.
        if self._newest > max(seen, after.ts):
            return None
        return "the source has got no further"

    def _checkpoint(self) -> int:
        """The newest one; a dump has none, it has been written."""
        return (read_checkpoint(self._feed) or 0) if self._feed.transport == "storage" else 0

    def _is_in_the_way(self) -> bool:
        waiting = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
        return is_lock_wanted(self._lake) or self._instance.get_runs_count(waiting) > 0
