"""`spark-server`: runs share it, do without it, and lose nothing when it is killed."""

import gc
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from tests.cli.conftest import Run
from tests.servers import HOST, SHORT_LIVED_JVM, free_port
from ticdc_assets.cli import spark_server as command
from ticdc_assets.demo import SimulationOptions, encode_truth, prepare
from ticdc_assets.resources import spark_server
from ticdc_assets.resources.shared_session import collect_released, open_shared_session
from ticdc_assets.resources.spark import describe_session
from ticdc_assets.resources.spark_server import SparkServer, find_server, server_lock
from ticdc_assets.resources.spark_settings import MASTER

PROJECT = Path(__file__).resolve().parents[2]
SMALL = SimulationOptions(workload="bulk", tables=1, transactions=6, flush_every=3, rows_each=5)
TIMEOUT = 120

# Warming up takes longer than these tests.
SERVER = """
import sys
from ticdc_assets.cli import main, spark_server
spark_server._warm_up = lambda *_: None
sys.exit(main(["spark-server", "--dir", sys.argv[1]]))
"""
# Says which session it has, and leaves it open; with a folder, it writes a table there, in which
# the worker waits.
CLIENT = """
import sys, time
from pathlib import Path
from ticdc_assets.resources.spark import get_session
print(get_session().session_id, flush=True)
folder = Path(*sys.argv[1:])

def wait(batches):
    (folder / "began").touch()
    while not (folder / "go").exists():
        time.sleep(0.1)
    yield from batches

if sys.argv[1:]:
    rows = get_session().range(1).mapInArrow(wait, "id bigint")
    rows.write.format("delta").save(str(folder / "table"))
"""

# Kills the server before Spark is to type rows: raw and events hold them, the tables do not yet.
KILLER = """
import os, signal, sys
from ticdc_assets.cli import main
from ticdc_assets.lake.apply import task_runs
do_in_workers = task_runs._do_in_workers

def kill_server(lake, *given):
    lake.spark
    os.kill(int(sys.argv[1]), signal.SIGKILL)
    return do_in_workers(lake, *given)

task_runs._do_in_workers, task_runs.FEW_ROWS = kill_server, 0
sys.exit(main(sys.argv[2:]))
"""


def wait_for(condition: Callable[[], object], log: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server that runs in a folder; its log is beside it."""
    folder = tmp_path_factory.mktemp("server") / "spark"
    environment = {name: value for name, value in os.environ.items() if name != MASTER}
    with folder.with_name("log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, folder],
            env=environment | {"TICDC_SPARK_MEMORY": "1g", **SHORT_LIVED_JVM},
            cwd=folder.parent,
            stdout=log,
            stderr=log,
        )
        try:
            yield folder
        finally:
            process.terminate()
            assert process.wait(60) == 130
    assert not (folder / "server.json").exists()


@pytest.fixture
def running(server: Path, monkeypatch: pytest.MonkeyPatch) -> SparkServer:
    """The server, once it answers; this process and those that it starts are to use it."""
    monkeypatch.setenv(spark_server.FOLDER, str(server))
    monkeypatch.delenv(MASTER, raising=False)
    wait_for(find_server, server.with_name("log"))
    found = find_server()
    assert found is not None
    monkeypatch.setenv(spark_server.TOKEN, found.token)
    return found


def start(*command: object) -> "subprocess.Popen[str]":
    environment = {n: value for n, value in os.environ.items() if n != spark_server.TOKEN}
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"PYTHONPATH": str(PROJECT)},
    )


def is_closed(server: SparkServer, session: str) -> bool:
    """Whether the server knows a session as one that was closed."""
    condition = find_error(f"{server.url}/;user_id=ticdc;session_id={session}")
    collect_released()
    return condition == "INVALID_HANDLE.SESSION_CLOSED"


def find_error(url: str) -> str | None:
    client = ConnectSession(url)
    try:
        client.sql("SELECT 1").collect()
    except SparkConnectException as error:
        return error.getCondition()
    finally:
        client.stop()
    return None


@pytest.mark.slow
def test_a_session_ends_with_its_client_and_one_of_a_killed_client_with_the_next(
    server: Path, running: SparkServer, tmp_path: Path
) -> None:
    log = server.with_name("log")
    with start("-c", CLIENT, tmp_path) as killed:
        assert killed.stdout is not None
        abandoned = killed.stdout.readline().strip()
        wait_for(lambda: (tmp_path / "began").exists() or killed.poll() is not None, log)
        assert killed.poll() is None, killed.communicate()
        killed.kill()
    assert [path.name for path in (server / "sessions").iterdir()] == [abandoned]
    with start("-c", CLIENT) as client:
        out, err = client.communicate(timeout=TIMEOUT)
    assert client.returncode == 0, err
    assert list((server / "sessions").iterdir()) == []
    assert is_closed(running, out.strip())
    assert is_closed(running, abandoned)
    # In the thread that frees a session, its client waits for the calls of all others.
    assert not [each for each in gc.get_objects() if type(each) is ConnectSession]
    # What the server did for it has ended, too.
    (tmp_path / "go").touch()
    time.sleep(2)
    assert list(tmp_path.glob("table/_delta_log/*.json")) == []


@pytest.mark.slow
def test_a_server_killed_during_a_run_starts_again_and_the_next_run_loses_nothing(
    server: Path, running: SparkServer, run: Run, tmp_path: Path
) -> None:
    log = server.with_name("log")
    simulation = prepare(tmp_path / "feed", SMALL)
    *_, last = simulation
    given = ("--changefeeds", simulation.changefeeds, "--lake", tmp_path / "lake")
    with start("-c", KILLER, running.process, "advance", *given) as failing:
        out, err = failing.communicate(timeout=TIMEOUT)
    assert (failing.returncode, out) == (2, "")
    [said] = [line for line in err.splitlines() if "Spark" in line][:1]
    assert said == "ticdc-assets: Spark failed: the Spark server ended during this run"
    assert "Traceback" not in err
    assert list(tmp_path.glob("lake/*/events/**/*.parquet"))
    assert not list(tmp_path.glob("lake/*/current/**/*.parquet"))

    with start("-m", "ticdc_assets.cli", "advance", *given) as next_run:
        out, more = next_run.communicate(timeout=TIMEOUT)
    assert next_run.returncode == 0, more
    started_again = find_server()
    assert started_again is not None
    assert started_again.token != running.token
    assert run("ledger", *given)[0] == 0
    assert run("show", "--out", tmp_path / "out", *given) == (0, b"", [])
    expected = {
        f"{last.checkpoint}/{database}/{table}.jsonl": b"".join(lines)
        for (database, table), lines in encode_truth(simulation.truth(last.checkpoint)).items()
    }
    written = (tmp_path / "out").rglob("*.jsonl")
    shown = {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in written}
    assert shown == expected

    assert stat.S_IMODE(server.stat().st_mode) == 0o700
    assert stat.S_IMODE((server / "server.json").stat().st_mode) == 0o600
    arguments = Path(f"/proc/{started_again.process}/cmdline").read_text()
    for token in (running.token, started_again.token):
        assert token not in arguments + log.read_text() + out + err + more


def test_only_a_server_that_runs_and_whose_file_is_private_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_server, "_ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr(spark_server, "START_TIMEOUT", 0.3)
    monkeypatch.setenv(spark_server.FOLDER, str(tmp_path))
    assert find_server() is None
    server, file = SparkServer(free_port(), "sesame", 1), tmp_path / "server.json"
    server.announce(tmp_path)
    with socket.create_server((HOST, server.port)), server_lock(tmp_path):
        # It accepts connections and hangs.
        assert find_server() is None
    monkeypatch.setattr(SparkServer, "is_answering", lambda _: True)
    # It was killed, together with the process that would have removed the file.
    assert find_server() is None
    with server_lock(tmp_path):
        assert find_server() == server
        file.chmod(0o640)
        assert find_server() is None
        file.chmod(0o600)
        for damaged in ("", "[]", "{}", json.dumps({"port": "x", "token": "y", "process": 1})):
            file.write_text(damaged)
            assert find_server() is None


def test_a_run_waits_for_a_server_that_is_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(spark_server.FOLDER, str(tmp_path))
    answers = iter([False, False, True])
    monkeypatch.setattr(SparkServer, "is_answering", lambda _: next(answers))
    server = SparkServer(free_port(), "sesame", 1)
    with server_lock(tmp_path):
        server.announce(tmp_path)
        assert find_server() == server


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_CHECK_INTERVAL", 0.01)
    answers = iter([False, False, True, False, False, False])
    monkeypatch.setattr(SparkServer, "is_answering", lambda _: next(answers))
    with subprocess.Popen(["sleep", "60"]) as process:
        command._wait(process, SparkServer(1, "sesame", process.pid))
        assert process.poll() is None
        process.kill()
    assert list(answers) == []


def test_a_run_says_that_no_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MASTER, raising=False)
    monkeypatch.delenv(spark_server.FOLDER, raising=False)
    local = SparkSession.__new__(SparkSession)
    assert describe_session(local) == "a session of its own"
    monkeypatch.setenv(spark_server.FOLDER, str(tmp_path))
    assert open_shared_session() is None
    said = "a session of its own, for no server answers in TICDC_SPARK_SERVER"
    assert describe_session(local) == said


def test_a_second_server_in_a_folder_is_an_error(run: Run, tmp_path: Path) -> None:
    with server_lock(tmp_path) as lock:
        assert lock is not None
        code, out, err = run("spark-server", "--dir", tmp_path)
    assert (code, out) == (2, b"")
    assert err == [f"ticdc-assets: {tmp_path}: a Spark server runs in this folder"]
