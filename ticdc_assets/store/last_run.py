"""The last run of a changefeed: what it was, when it was, and how it ended.

A run that fails commits nothing, and neither does one that finds nothing new.  So each run that
holds the run lock replaces one small file beside the tables, when it begins and when it ends.
It is for people: no stage reads it.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Literal

import msgspec
from deltalake.exceptions import DeltaError
from msgspec.structs import replace
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import open_folder
from ticdc_assets.version import VERSION

# Of the lock, too: a run is a command that holds it, or the run of Dagster's that does the same.
RunCommand = Literal["advance", "resume", "rebuild", "maintain", "backup", "check"]
# "killed" is a run whose process is gone; on another machine, such a run still looks as running.
RunResult = Literal["running", "ok", "failed", "interrupted", "killed"]

_FILE = "last_run.json"
_MAX_REASON = 500


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its file states it; without an end while it goes on."""

    command: RunCommand
    started_at: datetime
    host: str
    pid: int
    ended_at: datetime | None = None
    result: RunResult = "running"
    reason: str | None = None
    # Of this software; nothing before versions were recorded.
    version: str | None = None


@contextmanager
def recorded(lake: Lake, command: RunCommand) -> Iterator[None]:
    """Record a run, and how it ends."""
    begun = LastRun(
        command=command,
        started_at=datetime.now(UTC),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=VERSION,
    )
    _write(lake, begun)
    try:
        yield
    except BaseException as error:
        result: RunResult = "failed" if isinstance(error, Exception) else "interrupted"
        reason = describe_error(error)[:_MAX_REASON] if isinstance(error, Exception) else None
        # The error of the run matters more.
        with suppress(ConfigError):
            _write(lake, _end(begun, result, reason))
        raise
    _write(lake, _end(begun, "ok"))


def read_last_run(lake: Lake) -> LastRun | None:
    """Read the last run; None if nothing states it."""
    # Whoever wrote the file, its absence loses nothing.
    try:
        folder = open_folder(lake.path(""))
        # While delta-rs opens a file, other threads of this process wait; here they go on.
        if folder.get_file_info(_FILE).type != fs.FileType.File:
            return None
        run = read_json_file(folder, _FILE, LastRun)
    except (OSError, DeltaError):
        return None
    if run is None or run.result != "running" or run.host != socket.gethostname():
        return run
    return run if _is_alive(run.pid) else replace(run, result="killed")


def _end(run: LastRun, result: RunResult, reason: str | None = None) -> LastRun:
    return replace(run, ended_at=datetime.now(UTC), result=result, reason=reason)


def _write(lake: Lake, run: LastRun) -> None:
    """Replace the file, on disk so that nobody reads half of it."""
    name = f"{_FILE}.new" if lake.is_on_disk else _FILE
    try:
        folder = open_folder(lake.path(""))
        write_json_file(folder, name, run)
        if lake.is_on_disk:
            folder.move(name, _FILE)
    except (OSError, DeltaError) as error:
        reason = f"cannot be written: {describe_error(error)}"
        raise ConfigError(reason, file=lake.path(_FILE), setting="--lake") from None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It belongs to another user.
        pass
    return True
