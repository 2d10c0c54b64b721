"""How often a source is polled, and when a run ends.

A Spark session takes ten seconds to start and minutes to warm up, and most sources never pause.  So
a run that has applied a checkpoint continues with the next one.  It ends after a while, so that its
results are reported and checked, and when something else waits: another run, or a command that
wants the lake.

Where only watermarks come, a run that had something else waits for more of that; any other ends at
once, and `WATERMARK_SECONDS` pass before the next one.
"""

import time
from collections.abc import Callable

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.resources.dagster_settings import read_poll_interval
from ticdc_assets.resources.new_input import may_have_input
from ticdc_assets.resources.source import read_checkpoint, read_topic_ends
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import is_lock_wanted

# A run starts no further window after this many seconds, nor if it first had to sleep longer.
_MAX_RUN_SECONDS = 180
_MAX_SLEEP_SECONDS = 15


class RunBudget:
    """Decide after each window whether the run continues; time counts from construction."""

    def __init__(self, feed: Changefeed, lake: Lake, has_queued_runs: Callable[[], bool]) -> None:
        self._feed = feed
        self._lake = lake
        self._has_queued_runs = has_queued_runs
        self._started = self._polled = time.monotonic()
        self._checkpoint = self._read_checkpoint()
        self._has_had_input = False

    def find_end_reason(
        self,
        before: LakeCatalog,
        after: LakeCatalog,
        *,
        has_more: bool = False,
        is_idle: bool = False,
    ) -> str | None:
        """Return why the run ends; None if the source has a checkpoint beyond what is applied.

        Sleeps until the source may be polled again.  If it is known that it `has_more`, does not
        ask it.  After a window that `is_idle`, waits until there is more than watermarks.
        """
        self._has_had_input = self._has_had_input or not is_idle
        while True:
            reason = self._find_pause_reason(before, after, has_more=has_more)
            if reason is not None or has_more:
                return reason
            previous, self._checkpoint = self._checkpoint, self._read_checkpoint()
            # If the lake makes no progress, the run continues only as long as the source does.
            applied = after.ts if self._feed.transport == "storage" else 0
            if self._checkpoint <= max(previous, applied):
                return "the source has no newer checkpoint"
            if not is_idle or may_have_input(self._feed, self._lake, after.ts):
                return None
            if not self._has_had_input:
                return "the source has only newer watermarks"

    def _find_pause_reason(
        self, before: LakeCatalog, after: LakeCatalog, *, has_more: bool
    ) -> str | None:
        """Return why the run ends before the source is polled again, or sleep until then."""
        now = time.monotonic()
        sleep = max(self._polled + read_poll_interval(self._feed) - now, 0.0)
        if has_more:
            sleep = 0.0
        if after.named().keys() != before.named().keys():
            return "tables were created or dropped: the next run loads them as assets"
        if sleep > _MAX_SLEEP_SECONDS:
            return "the next source poll is too far away"
        if now + sleep - self._started > _MAX_RUN_SECONDS:
            return "the run has used its time: reporting and checking its results"
        if is_lock_wanted(self._lake) or self._has_queued_runs():
            return "another run or command is waiting"
        if not has_more:
            time.sleep(sleep)
            self._polled = time.monotonic()
        return None

    def _read_checkpoint(self) -> int:
        """Return what grows with the source: a folder's checkpoint, or the records of topics.

        A dump is read whole in the first window.
        """
        match self._feed.transport:
            case "storage":
                return read_checkpoint(self._feed) or 0
            case "kafka":
                return sum(read_topic_ends(self._feed).values())
            case _:
                return 0
