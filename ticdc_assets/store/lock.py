"""The run lock: one run at a time per changefeed.

On a local file system the lock is a file in the changefeed's folder that names its holder.  The
operating system releases it when the process ends, however it ends.  A waiting run holds a lock on
a second file; a run that loops over windows checks it between windows and ends early.

In an object store the lock is a lease (`lease.py`), which a thread renews.  A run that has lost it
finds that out before the next commit that counts.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.format import STATING_TABLE, LakeTooNew
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import RunCommand, recorded
from ticdc_assets.store.lease import EXPIRY, RENEWAL_INTERVAL, Lease, LockLost
from ticdc_assets.store.lease_folder import LeaseFolder
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import COUNTED_STAGE, COUNTED_TABLE
from ticdc_assets.store.writer import LakeWriter

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
_LEASE_POLL_INTERVAL = 5.0

_Waiting = Callable[[str], None] | None
# The leases of this process.
_held: dict[Lake, tuple[Lease, LeaseFolder]] = {}


@contextmanager
def locked(lake: Lake, command: RunCommand, *, waiting: _Waiting = None) -> Iterator[None]:
    """Hold the run lock; raise a `ConfigError` that names the holder if another run has it.

    Raise `LakeTooNew`, and touch nothing, if a newer version of this software has the lake.

    With `waiting`, wait for the other run first; `waiting` is called with a message about it.
    The run is recorded as the last one.
    """
    _require_known_format(lake)
    lock = _lock_on_disk if lake.is_on_disk else _lock_in_store
    with lock(lake, waiting), recorded(lake, command):
        yield


def _require_known_format(lake: Lake) -> None:
    try:
        LakeReader(lake).open(STATING_TABLE)
    except LakeTooNew:
        raise
    except ConfigError:
        # Whatever else is wrong with the table, the run finds out.
        pass


def is_lock_wanted(lake: Lake) -> bool:
    """Return whether a run waits for the lock."""
    if not lake.is_on_disk:
        return LeaseFolder(lake, "").look().is_wanted
    with _open(lake, _WAIT_FILE) as file:
        return not _try_lock(file)


def is_locked(lake: Lake) -> bool:
    """Return whether a run holds the lock, or was killed in an object store just now."""
    if not lake.is_on_disk:
        folder = LeaseFolder(lake, "")
        # It states the store's time, by which a lease ends.
        folder.note(is_waiting=False)
        return not folder.look().is_free
    with _open(lake, _LOCK_FILE) as file:
        return not _try_lock(file)


def check_lock(lake: Lake) -> None:
    """Raise `LockLost` if this process has held the lock and another one has taken it."""
    held = _held.get(lake)
    if held is None or held[0].check():
        return
    reason = (
        f"this run has lost its lock: it gave no sign of life for {EXPIRY:.0f} seconds, because it"
        f" was paused or could not reach the store, and {_describe_claim(lake, held[1])} now."
        " Of its last window, nothing counts that is not in a snapshot already, and nothing is"
        " lost: run the command again when the other run has ended"
    )
    raise LockLost(reason, file=lake.root, setting="--lake")


@contextmanager
def _lock_in_store(lake: Lake, waiting: _Waiting) -> Iterator[None]:
    folder = LeaseFolder(lake, _describe_self())
    lease = Lease(folder, lambda: LakeWriter(lake).add_fence(COUNTED_TABLE, COUNTED_STAGE))
    is_taken = lease.try_take()
    if not is_taken and waiting is not None:
        waiting(f"{_describe_claim(lake, folder)}; waiting for it to finish")
        is_taken = _poll(lambda: lease.try_take(is_waiting=True), _LEASE_POLL_INTERVAL)
    if not is_taken:
        reason = (
            f"{_describe_claim(lake, folder)}; if it was killed, its lock ends {EXPIRY:.0f} seconds"
            " after its last sign of life: try again then"
        )
        raise ConfigError(reason, file=lake.root, setting="--lake")
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(lease, ended), name="lease", daemon=True)
    thread.start()
    _held[lake] = lease, folder
    try:
        yield
    except ConfigError as error:
        raise _explain(lake, error) from None
    finally:
        del _held[lake]
        ended.set()
        thread.join()
        # Without this, it ends by itself.
        with suppress(ConfigError):
            lease.release()


def _explain(lake: Lake, error: ConfigError) -> ConfigError:
    """Return an error of a run, or that it has lost its lock if that is why."""
    try:
        check_lock(lake)
    except LockLost as lost:
        return lost
    except ConfigError:
        # The first error matters more.
        pass
    return error


def _renew(lease: Lease, ended: threading.Event) -> None:
    """Give signs of life until the run has ended or the lease is lost."""
    while not ended.wait(RENEWAL_INTERVAL):
        # What cannot be reached now may be reached the next time.
        with suppress(ConfigError):
            if not lease.renew():
                return


@contextmanager
def _lock_on_disk(lake: Lake, waiting: _Waiting) -> Iterator[None]:
    with _open(lake, _LOCK_FILE) as file:
        if not (_try_lock(file) or (waiting is not None and _wait(lake, file, waiting))):
            raise ConfigError(_describe_holder(lake, file), file=lake.root, setting="--lake")
        if _read(file)[: len(_HOLDER_START)] not in ("", _HOLDER_START):
            raise ConfigError(_NOT_A_LOCK, file=lake.path(_LOCK_FILE), setting="--lake")
        file.truncate(0)
        file.write(_describe_self() + "\n")
        file.flush()
        yield
        file.truncate(0)


def _wait(lake: Lake, file: IO[str], waiting: Callable[[str], None]) -> bool:
    """Wait for the lock and announce that on the wait file; return whether we got it."""
    waiting(f"{_describe_holder(lake, file)}; waiting for it to finish")
    with _open(lake, _WAIT_FILE) as wait_file:
        # Shared, because several runs may wait.
        fcntl.flock(wait_file, fcntl.LOCK_SH)
        return _poll(lambda: _try_lock(file), _POLL_INTERVAL)


def _poll(try_take: Callable[[], bool], interval: float) -> bool:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not try_take():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
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


def _describe_self() -> str:
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})


def _describe_holder(lake: Lake, file: IO[str]) -> str:
    """Name the process that has the lock."""
    return _describe(lake, _read(file))


def _describe_claim(lake: Lake, folder: LeaseFolder) -> str:
    """Name the process that has the lease."""
    try:
        return _describe(lake, folder.read_holder()[:_MOST_CHARACTERS])
    except ConfigError:
        # It has released it just now.
        return _describe(lake, "")


def _describe(lake: Lake, holder: str) -> str:
    try:
        content = json.loads(holder)
        name = f"process {content['pid']} on {content['host']} (since {content['since']})"
    except (ValueError, KeyError, TypeError):
        # It has just taken the lock and not written the file yet.
        name = "another process"
    return f"{name} is working on changefeed {lake.changefeed!r}"
