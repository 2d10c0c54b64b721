"""A process that ends others once the one that started them is gone, as by SIGKILL.

Run as a file: it reads the ids of process groups, one per line, and its input ends with its parent.
"""

import os
import signal
import sys
import time

_SECONDS = 10


def _is_alive(group: int, number: int = 0) -> bool:
    """Send a signal to a process group; return whether there is one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _guard() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    groups = [int(line) for line in sys.stdin]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        groups = [group for group in groups if _is_alive(group, number)]
        deadline = time.monotonic() + _SECONDS
        while groups and time.monotonic() < deadline:
            time.sleep(0.2)
            groups = [group for group in groups if _is_alive(group)]


if __name__ == "__main__":
    _guard()
