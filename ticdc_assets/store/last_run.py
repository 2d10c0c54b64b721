"""The last run of a changefeed: what it was, when it was, and how it ended.

A run that fails commits nothing, and neither does one that finds nothing new.  So each run that
holds the run lock replaces one small file beside the tables, when it begins and when it ends.
It is for people and monitoring: no stage reads it.
"""

import os
import socket
import time
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
from ticdc_assets.store.run_id import find_run_id
from ticdc_assets.version import VERSION

# Of the lock, too: a run is a command that holds it, or the run of Dagster's that does the same.
RunCommand = Literal["advance", "resume", "rebuild", "erase", "maintain", "backup", "check"]
# "killed" is a run whose process is gone; on another machine, such a run still looks as running.
RunResult = Literal["running", "ok", "failed", "interrupted", "killed"]

_FILE = "last_run.json"
_MAX_REASON = 500


class StageWork(msgspec.Struct, kw_only=True):
    """What a stage did: how often it ran, how long it took, and what it took in."""

    times: int = 0
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    # Files of the source that it listed.
    listed: int = 0

    def add(self, other: "StageWork") -> None:
        self.times += other.times
        self.seconds += other.seconds
        self.rows += other.rows
        self.bytes += other.bytes
        self.listed += other.listed


# By stage.
Work = dict[str, StageWork]


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its file states it; without an end while it goes on."""

    command: RunCommand
    # Of the command, or of Dagster's run.
    run_id: str | None = None
    started_at: datetime
    host: str
    pid: int
    ended_at: datetime | None = None
    result: RunResult = "running"
    reason: str | None = None
    # What the stages of this run did, and those of all runs since the file was first written.
    work: Work = {}
    total_work: Work = {}
    # How many runs have ended, by command and result.
    runs: dict[str, int] = {}

    # Of this software; nothing before versions were recorded.
    version: str | None = None


# What the stages of the recorded runs of this process have done so far.
_working: dict[Lake, Work] = {}


class StageClock:
    """Takes the time of the stages of a run, one after the other."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._since = time.monotonic()

    def end(self, stage: str, rows: int = 0, bytes: int = 0, listed: int = 0) -> None:
        """Note what a stage did since the end of the one before."""
        now = time.monotonic()
        done = StageWork(times=1, seconds=now - self._since, rows=rows, bytes=bytes, listed=listed)
        self._since = now
        # Of a run that nobody records, such as one in a test, nothing is kept.
        if (work := _working.get(self._lake)) is not None:
            work.setdefault(stage, StageWork()).add(done)


@contextmanager
def recorded(lake: Lake, command: RunCommand) -> Iterator[None]:
    """Record a run, and how it ends."""
    before = read_last_run(lake)
    begun = LastRun(
        command=command,
        run_id=find_run_id(),
        started_at=datetime.now(UTC),
        host=socket.gethostname(),
        pid=os.getpid(),
        total_work={} if before is None else before.total_work,
        runs={} if before is None else before.runs,
        version=VERSION,
    )
    _write(lake, begun)
    _working[lake] = {}
    try:
        yield
    except BaseException as error:
        result: RunResult = "failed" if isinstance(error, Exception) else "interrupted"
        reason = describe_error(error)[:_MAX_REASON] if isinstance(error, Exception) else None
        # The error of the run matters more.
        with suppress(ConfigError):
            _write(lake, _end(lake, begun, result, reason))
        raise
    else:
        _write(lake, _end(lake, begun, "ok"))
    finally:
        _working.pop(lake, None)


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


def _end(lake: Lake, run: LastRun, result: RunResult, reason: str | None = None) -> LastRun:
    work = _working.get(lake, {})
    total = {stage: replace(done) for stage, done in run.total_work.items()}
    for stage, done in work.items():
        total.setdefault(stage, StageWork()).add(done)
    kind = f"{run.command} {result}"
    return replace(
        run,
        ended_at=datetime.now(UTC),
        result=result,
        reason=reason,
        work=work,
        total_work=total,
        runs={**run.runs, kind: run.runs.get(kind, 0) + 1},
    )


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
