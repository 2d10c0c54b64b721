"""`spark-server`: a Spark Connect server that is started again whenever it ends."""

import argparse
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from resources.lake import get_lake_root
from resources.spark import choose_settings
from resources.spark_server import FOLDER, TOKEN, SparkServer, withdraw
from ticdc_assets.cli.output import say, warn
from ticdc_assets.errors import ConfigError

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
# In seconds.
_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 20
_POLL_INTERVAL = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


def spark_server(options: argparse.Namespace) -> int:
    """Keep a server running until the process is interrupted."""
    stated = options.dir or os.environ.get(FOLDER)
    if not stated:
        raise ConfigError("name the folder of the server", setting=f"--dir or {FOLDER}")
    folder = Path(stated).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = choose_settings("local[*]", get_lake_root(options.lake))
    # Clients keep both when the server is started again: they notice at once that it was.
    server = SparkServer(_find_free_port(), secrets.token_hex(32))
    settings |= {
        "spark.master": "local[*]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(server.port),
    }
    with _locked(folder) as lock:
        pause = _FIRST_PAUSE
        while True:
            started = time.monotonic()
            _run(server, settings, folder, lock)
            if time.monotonic() - started > _START_TIMEOUT:
                pause = _FIRST_PAUSE
            warn(f"ticdc-assets: the Spark server ended; starting it again in {pause:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _run(server: SparkServer, settings: dict[str, str], folder: Path, lock: IO[str]) -> None:
    """Run the server until it ends; clients find it while it answers."""
    pyspark = find_spec("pyspark")
    assert pyspark
    home = Path(str(pyspark.origin)).parent
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    process = subprocess.Popen(
        [*command, "--class", _CLASS],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            TOKEN: server.token,
        },
        stdin=subprocess.DEVNULL,
        # The lock lasts as long as Java does, even if this process is killed.
        pass_fds=(lock.fileno(),),
    )
    try:
        until = time.monotonic() + _START_TIMEOUT
        while process.poll() is None and not server.is_answering():
            if time.monotonic() > until:
                return
            time.sleep(_POLL_INTERVAL)
        if process.poll() is None:
            server.announce(folder)
            say(f"Spark Connect server (process {process.pid}) at {server.url}")
            process.wait()
    finally:
        withdraw(folder)
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _locked(folder: Path) -> Iterator[IO[str]]:
    with (folder / "server.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError("a Spark server runs in this folder", file=str(folder)) from None
        yield lock
