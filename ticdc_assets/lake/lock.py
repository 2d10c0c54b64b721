"""One run at a time for one changefeed's part of a lake.

For a lake on a local file system: a file in it that the run holds a lock on, and that says who
holds it.  The lock is the operating system's, so it ends with its process, however that ends.

A lake in an object store has none.  There a second run is harmless, if wasteful: commits of raw,
events and `applied` carry a Delta transaction id, of two runs with the same one only the first is
done, and what else a run has written counts only by its line of `applied`.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.tables import Lake

_FILE = "run.lock"


@contextmanager
def locked(lake: Lake) -> Iterator[None]:
    """Keep other runs out; raise `ConfigError` that says who is at it."""
    place = lake.path(_FILE)
    if "://" in place:
        yield
        return
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise ConfigError(reason, file=error.filename, setting="--lake") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            reason = f"{_holder(file.read())} is at work on changefeed {lake.changefeed!r}"
            raise ConfigError(reason, file=lake.root, setting="--lake") from None
        file.truncate(0)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        said = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        file.write(json.dumps(said) + "\n")
        file.flush()
        yield
        file.truncate(0)


def _holder(text: str) -> str:
    try:
        said = json.loads(text)
        return f"process {said['pid']} on {said['host']} (since {said['since']})"
    except (ValueError, KeyError, TypeError):
        # It has the lock, and has not said so yet.
        return "another process"
