"""`ticdc-assets dev` as a separate process, started as in the README."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[1]


@contextmanager
def dev_loop(
    folder: Path, port: int, log: Path, *, sink: str | None = None, **settings: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the simulation and the UI with their defaults, except for the sink and `settings`."""
    command = [sys.executable, "-m", "ticdc_assets.cli", "dev"]
    command += ["--dir", str(folder), "--port", str(port)]
    command += ["--sink", sink] if sink else []
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TICDC_")} | settings
    with log.open("wb") as out:
        dev = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=out, stderr=out)
        try:
            yield dev
        finally:
            dev.send_signal(signal.SIGINT)
            dev.wait(120)
