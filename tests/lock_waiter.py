"""A second run that waits for a lake's lock, in a thread of its own."""

import threading
import time

from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import is_lock_wanted, locked

TIMEOUT_SECONDS = 30


class LockWaiter:
    """Takes the lock as soon as its holder releases it, and releases it at once."""

    def __init__(self, lake: Lake) -> None:
        self.messages: list[str] = []
        self.had_lock = threading.Event()
        self._lake = lake
        self._thread = threading.Thread(target=self._wait)

    def start(self) -> None:
        """Start to wait; return when the holder of the lock can see it."""
        self._thread.start()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_lock_wanted(self._lake) and time.monotonic() < deadline:
            time.sleep(0.01)

    def join(self) -> None:
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive()

    def _wait(self) -> None:
        with locked(self._lake, "advance", waiting=self.messages.append):
            self.had_lock.set()
