"""What is pinned to a ts, and so has a time and an age."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta

from ticdc_assets.events.tso import to_datetime


class Dated(ABC):
    """What a reader sees as it was at one ts."""

    @property
    @abstractmethod
    def resolved_ts(self) -> int:
        """The TSO of it."""

    @property
    def moment(self) -> datetime:
        """The time of `resolved_ts`."""
        return to_datetime(self.resolved_ts)

    @property
    def lag(self) -> timedelta:
        """How far `resolved_ts` lies behind now."""
        return datetime.now(UTC) - self.moment
