"""Call what may not answer: several at a time, and none of them for ever.

Nothing stops a thread that waits for a mounted folder, or for a library that retries.  It is left
behind, and the same call is not made again as long as it waits.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")


class PatientCaller:
    """Makes calls in threads, and waits a limited time for their answers."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # Those of calls whose answer nobody has seen.
        self._threads: dict[Hashable, threading.Thread] = {}

    @property
    def is_left(self) -> bool:
        """Whether a call still waits: the end of the process may then wait for it, too."""
        return any(thread.is_alive() for thread in self._threads.values())

    def call_all(
        self, calls: Mapping[_Key, Callable[[], _Answer]]
    ) -> dict[_Key, _Answer | ConfigError]:
        """Make calls in parallel; return what each returns, or the error that says why not.

        An error that nobody foresaw is one of that call, too.
        """
        answers: queue.SimpleQueue[tuple[_Key, _Answer | ConfigError]] = queue.SimpleQueue()

        def make(key: _Key, call: Callable[[], _Answer]) -> None:
            answers.put((key, _call(call)))

        started = [key for key in calls if not self._waits(key)]
        for key in started:
            thread = threading.Thread(target=make, args=(key, calls[key]), daemon=True)
            self._threads[key] = thread
            thread.start()
        silent = ConfigError(f"gives no answer within {self.seconds:.0f} s")
        found: dict[_Key, _Answer | ConfigError] = dict.fromkeys(calls, silent)
        deadline = time.monotonic() + self.seconds
        for _ in started:
            try:
                key, answer = answers.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                break
            found[key] = answer
            # Its thread may not have ended yet, and has nothing left to wait for.
            del self._threads[key]
        return found

    def _waits(self, key: Hashable) -> bool:
        return key in self._threads and self._threads[key].is_alive()


def _call(call: Callable[[], _Answer]) -> _Answer | ConfigError:
    try:
        return call()
    except ConfigError as error:
        return error
    except Exception as error:
        return ConfigError(f"unexpected {type(error).__name__}: {describe_error(error)}")
