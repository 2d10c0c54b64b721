"""Commands in processes of their own, forked from one that has imported what they need.

Imports are most of what a short command does.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_IMPORTED = ("ticdc_assets.cli", "ticdc_assets.lake.advance", "boto3")
_NOWHERE = Path(os.devnull)


def start_forked(
    command: list[str], environment: Mapping[str, str], out: Path = _NOWHERE, err: Path = _NOWHERE
) -> ForkServerProcess:
    """Start a command here, with this environment alone, as the first process of a session."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*_IMPORTED, __name__])
    here = os.getcwd()
    process = server.Process(target=_run, args=(command, dict(environment), here, out, err))
    process.start()
    return process


# Parameters: all that a process does not take over from the one that starts it.
def _run(command: list[str], environment: dict[str, str], here: str, out: Path, err: Path) -> None:
    from ticdc_assets import cli

    os.setsid()
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((out, err), 1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.exit(cli.main(command))
