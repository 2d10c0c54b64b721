"""Commands killed with -9, each with its Java, at any moment, and started again."""

import os
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

from tests.forked_command import start_forked

_TIMEOUT_SECONDS = 300


def run_killed(
    command: list[object], folder: Path, random: Random, *, kills: int, most_files: int
) -> tuple[int, int]:
    """Run a command again and again, until a run ends by itself or enough of them were killed.

    Each is killed once it has added some files, at most `most_files`, to a folder.  Return how many
    were killed and the exit code of the last run, which nothing killed.
    """
    killed = 0
    while killed < kills and _kill_after(_start(command), folder, random.randint(1, most_files)):
        killed += 1
    last = _start(command)
    last.join(_TIMEOUT_SECONDS)
    assert last.exitcode is not None
    return killed, last.exitcode


def _start(command: list[object]) -> ForkServerProcess:
    return start_forked([*map(str, command)], os.environ)


def _kill_after(run: ForkServerProcess, folder: Path, files: int) -> bool:
    """Kill a run when it has added this many files; return False if the run ended earlier."""
    before = _count_files(folder)
    until = time.monotonic() + _TIMEOUT_SECONDS
    while run.is_alive():
        assert time.monotonic() < until
        if _count_files(folder) - before >= files:
            assert run.pid is not None
            os.killpg(run.pid, signal.SIGKILL)
            run.join()
            return True
        time.sleep(0.005)
    return False


def _count_files(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*"))
