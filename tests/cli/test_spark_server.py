"""`spark-server`: runs share it, do without it, and lose nothing when it is killed."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from resources import spark_server
from resources.spark_server import SparkServer, find_server
from tests.cli.conftest import Run
from tests.lake.crash_runs import Runs
from tests.servers import SHORT_LIVED_JVM, free_port
from ticdc_assets.demo import SimulationOptions

SMALL = SimulationOptions(workload="bulk", tables=2, transactions=12, flush_every=4, rows_each=5)
TIMEOUT = 300


def wait_for(condition: object, what: str) -> None:
    assert callable(condition)
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@contextmanager
def running_server(folder: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "ticdc_assets.cli", "spark-server", "--dir", str(folder)]
    small = {"TICDC_SPARK_MEMORY": "1g", **SHORT_LIVED_JVM}
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=os.environ | small, stdout=out, stderr=out)
        try:
            yield server
        finally:
            server.terminate()
            assert server.wait(60) == 130


def process_id(log: Path) -> int:
    """The process id of the Java that was started last."""
    return int(log.read_text().rpartition("(process ")[2].partition(")")[0])


@pytest.mark.slow
def test_a_server_killed_during_a_run_is_started_again_and_the_next_run_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = tmp_path / "spark", tmp_path / "server.log"
    monkeypatch.setenv(spark_server.FOLDER, str(folder))
    monkeypatch.delenv("TICDC_SPARK_MASTER", raising=False)
    runs = Runs(tmp_path, SMALL, seed=1)
    while runs.continue_feed():
        pass
    names = ["--changefeeds", str(runs.simulation.changefeeds), "--lake", runs.location.root]
    advance = [sys.executable, "-m", "ticdc_assets.cli", "advance", *names]
    tables = Path(runs.location.path("current"))
    with running_server(folder, log):
        wait_for((folder / "server.json").exists, log.read_text())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "server.json").stat().st_mode) == 0o600
        server = find_server()
        assert server is not None
        java = process_id(log)
        with subprocess.Popen(advance, stderr=subprocess.PIPE, text=True) as run:
            wait_for(lambda: list(tables.rglob("*.parquet")), "no table was written")
            os.kill(java, signal.SIGKILL)
            _, err = run.communicate(timeout=TIMEOUT)
        assert run.returncode == 2, err
        wait_for(lambda: process_id(log) != java and find_server(), log.read_text())
        done = subprocess.run(advance, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        command = Path(f"/proc/{process_id(log)}/cmdline").read_text()
    assert server.token not in command + log.read_text() + err + done.stdout + done.stderr
    assert runs.check_snapshot(spark) == runs.simulation.checkpoints[-1]
    assert find_server() is None


def test_only_a_server_that_answers_and_whose_file_is_private_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_server, "_SECONDS_TO_ANSWER", 0.2)
    monkeypatch.setenv(spark_server.FOLDER, str(tmp_path))
    assert find_server() is None
    server, file = SparkServer(free_port(), "sesame"), tmp_path / "server.json"
    server.announce(tmp_path)
    assert find_server() is None
    with socket.create_server(("127.0.0.1", server.port)):
        # It accepts connections and hangs.
        assert find_server() is None
    monkeypatch.setattr(SparkServer, "is_answering", lambda _: True)
    assert find_server() == server
    file.chmod(0o640)
    assert find_server() is None
    file.chmod(0o600)
    for damaged in ("", "[]", "{}", json.dumps({"port": "x", "token": "y"})):
        file.write_text(damaged)
        assert find_server() is None


def test_a_second_server_in_a_folder_is_an_error(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "spark" / "server.lock"
    lock.parent.mkdir()
    holder = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        code, out, err = run("spark-server", "--dir", lock.parent)
        process.communicate(b"\n")
    assert (code, out) == (2, b"")
    assert err == [f"ticdc-assets: {lock.parent}: a Spark server runs in this folder"]
