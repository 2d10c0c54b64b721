"""The run lock: one run at a time per changefeed.

On a local file system the lock is a file in the changefeed's folder that names its holder.  The
operating system releases it when the process ends, however it ends.  A waiting run holds a lock on
a second file; a run that loops over windows checks it between windows and ends early.

A lake in an object store has no lock.  A concurrent run wastes work there but does no harm: commits
to `raw`, `events` and `applied` carry a Delta transaction version, so of two commits with the same
version the second is a no-op, and everything else a run writes counts only through its snapshot.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import RunCommand, recorded

_LOCK_FILE = "run.lock"
_WAIT_FILE = "run.wanted"
# How a lock file begins, unless it is empty.
_HOLDER_START = '{"pid": '
# More than a holder has.
_MOST_CHARACTERS = 4096
_NOT_A_LOCK = "is not a lock file of this software; remove it, or choose another lake"
# In seconds.
WAIT_TIMEOUT = 600.0
_POLL_INTERVAL = 0.2


@contextmanager
def locked(
    lake: Lake, command: RunCommand, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the run lock; raise a `ConfigError` that names the holder if another run has it.

    With `waiting`, wait for the other run first; `waiting` is called with a message about it.
    The run is recorded as the last one.
    """
    if not lake.is_on_disk:
        with recorded(lake, command):
            yield
        return
    with _open(lake, _LOCK_FILE) as file:
        if not (_try_lock(file) or (waiting is not None and _wait(lake, file, waiting))):
            raise ConfigError(_describe_holder(lake, file), file=lake.root, setting="--lake")
        if _read(file)[: len(_HOLDER_START)] not in ("", _HOLDER_START):
            raise ConfigError(_NOT_A_LOCK, file=lake.path(_LOCK_FILE), setting="--lake")
        file.truncate(0)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        file.write(json.dumps(holder) + "\n")
        file.flush()
        with recorded(lake, command):
            yield
        file.truncate(0)


def is_lock_wanted(lake: Lake) -> bool:
    """Return whether a run waits for the lock."""
    if not lake.is_on_disk:
        return False
    with _open(lake, _WAIT_FILE) as file:
        return not _try_lock(file)


def _wait(lake: Lake, file: IO[str], waiting: Callable[[str], None]) -> bool:
    """Wait for the lock and announce that on the wait file; return whether we got it."""
    waiting(f"{_describe_holder(lake, file)}; waiting for it to finish")
    deadline = time.monotonic() + WAIT_TIMEOUT
    with _open(lake, _WAIT_FILE) as wait_file:
        # Shared, because several runs may wait.
        fcntl.flock(wait_file, fcntl.LOCK_SH)
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_INTERVAL)
    return True


def _open(lake: Lake, name: str) -> IO[str]:
    path = Path(lake.path(name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+", encoding="utf-8", errors="replace", opener=_open_regular)
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise ConfigError(reason, file=error.filename, setting="--lake") from None


def _open_regular(path: str, flags: int) -> int:
    """Open a file that is no link, pipe or device: someone else may have put one there."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(error.errno, _NOT_A_LOCK, path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NOT_A_LOCK, path)
    return descriptor


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read(_MOST_CHARACTERS)


def _describe_holder(lake: Lake, file: IO[str]) -> str:
    """Name the process that has the lock."""
    try:
        content = json.loads(_read(file))
        holder = f"process {content['pid']} on {content['host']} (since {content['since']})"
    except (ValueError, KeyError, TypeError):
        # It has just taken the lock and not written the file yet.
        holder = "another process"
    return f"{holder} is working on changefeed {lake.changefeed!r}"
