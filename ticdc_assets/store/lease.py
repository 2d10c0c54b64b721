"""The lease of a run on a changefeed's lake in an object store: its rules, whatever keeps it.

A run claims the number that follows the newest claim, which only one run can, and says now and then
that it is alive.  A claim whose run released it, or has given no sign of life for `EXPIRY` seconds,
may be followed by the next one.  Times are those of the store's clock alone: it states when each
file was written, so the clocks of the machines do not matter.

A paused process cannot know that its lease has expired, and may go on at any line.  So no clock
decides what counts.  Whoever follows a claim that was not released adds a fence to the log of
snapshots before it reads that log; whoever writes a snapshot opens that log first, looks then
whether its own claim is still the newest, and commits the version that follows the one it opened.
If it saw no newer claim, any fence lies behind the version that it opened, and its commit fails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ticdc_assets.errors import ConfigError

# In seconds.
EXPIRY = 60.0
RENEWAL_INTERVAL = 15.0
# How long a sign of a waiting run counts.
_WAITS_SECONDS = 20.0


class LockLost(ConfigError):
    """Another run has taken the lease of this one."""


@dataclass(frozen=True)
class Look:
    """What is in the store; times are of its clock."""

    # Of the newest claim; 0 if there is none.
    number: int = 0
    is_released: bool = False
    # The last sign of life of its run.
    renewed_at: float = 0.0
    # The last sign of a run that waits.
    wanted_at: float | None = None
    # When anything was written last: it is no earlier now.
    now: float = 0.0

    @property
    def is_free(self) -> bool:
        return not self.number or self.is_released or self.now - self.renewed_at >= EXPIRY

    @property
    def is_wanted(self) -> bool:
        return self.wanted_at is not None and self.now - self.wanted_at < _WAITS_SECONDS


class LeaseStore(Protocol):
    """Where claims are kept; each method sees what any other run did before."""

    def find_newest(self) -> int:
        """Return the number of the newest claim, as of one moment; 0 if there is none."""
        ...

    def look(self) -> Look:
        """Look at the newest claim; if it is removed meanwhile, it seems to have expired."""
        ...

    def claim(self, number: int) -> bool:
        """Add a claim; return False if there is one of this number."""
        ...

    def renew(self, number: int) -> None: ...

    def release(self, number: int) -> None: ...

    def note(self, *, is_waiting: bool) -> None:
        """Write something, so that the store states what time it is."""
        ...

    def remove_before(self, number: int) -> None:
        """Remove the older claims, and what says that a run waits."""
        ...


class Lease:
    """The claim of one run; `fence` adds a fence to the log of snapshots."""

    def __init__(self, store: LeaseStore, fence: Callable[[], None]) -> None:
        self._store = store
        self._fence = fence
        self._number = 0

    def try_take(self, *, is_waiting: bool = False) -> bool:
        """Claim the lease if it is free."""
        look = self._store.look()
        if not look.is_free:
            self._store.note(is_waiting=is_waiting)
            look = self._store.look()
        number = look.number + 1
        # Old claims are removed, so this number may be free long after it was followed.
        if not look.is_free or not self._store.claim(number) or not self._is_newest(number):
            return False
        self._number = number
        if look.number and not look.is_released:
            self._fence()
        self._store.remove_before(number)
        return True

    def check(self) -> bool:
        """Return whether no other run has taken the lease."""
        return self._is_newest(self._number)

    def renew(self) -> bool:
        """Give a sign of life; return False, and give none, if the lease is lost."""
        if not self.check():
            return False
        self._store.renew(self._number)
        return True

    def release(self) -> None:
        self._store.release(self._number)

    def _is_newest(self, number: int) -> bool:
        return self._store.find_newest() == number
