"""One run at a time for one changefeed's part of a lake.

For a lake on a local file system: a file in it that the run holds a lock on, and that says who
holds it.  The lock is the operating system's, so it ends with its process, however that ends.
Whoever waits for it holds a lock on a second file: a run that could go on leaves for them.

A lake in an object store has none.  There a second run is harmless, if wasteful: commits of raw,
events and `applied` carry a Delta transaction id, of two runs with the same one only the first is
done, and what else a run has written counts only by its line of `applied`.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.store.lake import Lake

_FILE = "run.lock"
_WANTED = "run.wanted"
# So many seconds are waited for a run that is on; then it is said who is at it.
PATIENCE = 600.0
_LOOK = 0.2


@contextmanager
def locked(lake: Lake, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep other runs out; raise `ConfigError` that says who is at it.

    With `waiting`, which is told whom for, a run that is on is waited for first.
    """
    if not _has_lock(lake):
        yield
        return
    with _open(lake, _FILE) as file:
        if not (_taken(file) or (waiting is not None and _waited(lake, file, waiting))):
            raise ConfigError(_at_work(lake, file), file=lake.root, setting="--lake")
        file.truncate(0)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        said = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        file.write(json.dumps(said) + "\n")
        file.flush()
        yield
        file.truncate(0)


def is_lock_wanted(lake: Lake) -> bool:
    """Whether somebody waits for the lock."""
    if not _has_lock(lake):
        return False
    with _open(lake, _WANTED) as file:
        return not _taken(file)


def _waited(lake: Lake, file: IO[str], waiting: Callable[[str], None]) -> bool:
    """Wait for the lock, in sight of who has it; say whether it is ours."""
    waiting(f"{_at_work(lake, file)}; it is waited for")
    until = time.monotonic() + PATIENCE
    with _open(lake, _WANTED) as sign:
        # Several may wait, and hold it together.
        fcntl.flock(sign, fcntl.LOCK_SH)
        while not _taken(file):
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK)
    return True


def _has_lock(lake: Lake) -> bool:
    return "://" not in lake.path(_FILE)


def _open(lake: Lake, name: str) -> IO[str]:
    path = Path(lake.path(name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise ConfigError(reason, file=error.filename, setting="--lake") from None


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _at_work(lake: Lake, file: IO[str]) -> str:
    """Who has the lock."""
    file.seek(0)
    try:
        said = json.loads(file.read())
        holder = f"process {said['pid']} on {said['host']} (since {said['since']})"
    except (ValueError, KeyError, TypeError):
        # It has the lock, and has not said so yet.
        holder = "another process"
    return f"{holder} is at work on changefeed {lake.changefeed!r}"
