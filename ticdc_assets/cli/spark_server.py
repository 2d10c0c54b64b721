"""`spark-server`: a Spark Connect server that is started again whenever it ends."""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ticdc_assets.cli.output import say, warn
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.spark_server import (
    FOLDER,
    START_TIMEOUT,
    TOKEN,
    SparkServer,
    find_free_port,
    server_lock,
    withdraw,
)
from ticdc_assets.resources.spark_settings import MASTER, choose_java_home, choose_settings

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LOCAL = "local[*]"
_HOST = "127.0.0.1"
# In seconds.
_STOP_TIMEOUT = 20
_WARM_UP_TIMEOUT = 120
_POLL_INTERVAL = 0.2
_CHECK_INTERVAL = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# A server that has not answered so often in a row hangs.
_MOST_FAILURES = 3


def spark_server(options: argparse.Namespace) -> int:
    """Keep a server running until the process is interrupted."""
    stated = options.dir or os.environ.get(FOLDER)
    if not stated:
        raise ConfigError("name the folder of the server", setting=f"--dir or {FOLDER}")
    folder = Path(stated).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    settings = _choose_settings(get_lake_root(options.lake))
    try:
        with server_lock(folder) as lock:
            if lock is None:
                raise ConfigError("a Spark server runs in this folder", file=str(folder))
            _keep_running(settings, folder, lock)
    except KeyboardInterrupt:
        warn("ticdc-assets: interrupted; the Spark server has stopped")
    return 130


def _choose_settings(lake: str) -> dict[str, str]:
    settings = choose_settings(_LOCAL, lake)
    # Half a server would serve nobody.
    settings["spark.driver.extraJavaOptions"] += " -XX:+ExitOnOutOfMemoryError"
    return settings | {
        "spark.master": _LOCAL,
        "spark.connect.grpc.binding.address": _HOST,
    }


def _keep_running(settings: dict[str, str], folder: Path, lock: IO[str]) -> None:
    pause = _FIRST_PAUSE
    while True:
        started = time.monotonic()
        _run(settings, folder, lock)
        if time.monotonic() - started > START_TIMEOUT:
            pause = _FIRST_PAUSE
        warn(f"ticdc-assets: the Spark server ended; starting it again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _run(settings: dict[str, str], folder: Path, lock: IO[str]) -> None:
    """Run one server until it ends; clients find it from the beginning, and wait for it."""
    port, token = find_free_port(), secrets.token_hex(32)
    process = _start(settings | {"spark.connect.grpc.binding.port": str(port)}, token, folder, lock)
    try:
        server = SparkServer(port, token, process.pid)
        server.announce(folder)
        until = time.monotonic() + START_TIMEOUT
        while process.poll() is None and not server.is_answering():
            if time.monotonic() > until:
                return
            time.sleep(_POLL_INTERVAL)
        if process.poll() is None:
            say(f"Spark server (process {process.pid}) at {server.url}")
            _warm_up(folder)
            _wait(process, server)
    finally:
        withdraw(folder)
        _stop(process)


def _start(
    settings: dict[str, str], token: str, folder: Path, lock: IO[str]
) -> "subprocess.Popen[bytes]":
    pyspark = find_spec("pyspark")
    assert pyspark
    home = Path(str(pyspark.origin)).parent
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    java_home = choose_java_home()
    return subprocess.Popen(
        [*command, "--class", _CLASS],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
            **({} if java_home is None else {"JAVA_HOME": str(java_home)}),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            TOKEN: token,
        },
        stdin=subprocess.DEVNULL,
        # The lock lasts as long as Java does, even if this process is killed.
        pass_fds=(lock.fileno(),),
    )


def _warm_up(folder: Path) -> None:
    """Let the server load and compile what runs need; the first of them may come meanwhile."""
    environment = {name: value for name, value in os.environ.items() if name != MASTER}
    # A failure matters to nobody: if the server is at fault, the next run says so.
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-m", "ticdc_assets.resources.exercise"],
            env=environment | {FOLDER: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WARM_UP_TIMEOUT,
            check=False,
        )


def _wait(process: "subprocess.Popen[bytes]", server: SparkServer) -> None:
    """Wait until a server ends, or hangs."""
    failures = 0
    while failures < _MOST_FAILURES:
        try:
            process.wait(_CHECK_INTERVAL)
            return
        except subprocess.TimeoutExpired:
            failures = 0 if server.is_answering() else failures + 1


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
