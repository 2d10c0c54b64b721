"""Of two concurrent runs the second learns who has the lock; a dead process has none."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.lock_waiter import LockWaiter
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.spark import describe_failure
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import read_last_run
from ticdc_assets.store.lock import is_lock_wanted, locked

HOLDER = """
import sys, time
from ticdc_assets.store.lock import locked
from ticdc_assets.store.lake import Lake
with locked(Lake(sys.argv[1], "feed"), "advance"):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_second_run_fails_until_the_first_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    project = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"locked\n"
        lake = Lake(str(tmp_path), "feed")
        message = f"process {first.pid} on "
        with pytest.raises(ConfigError, match=message) as error, locked(lake, "advance"):
            pass
        assert "since 20" in str(error.value)
        # Another changefeed has a lock of its own.
        with locked(Lake(str(tmp_path), "other"), "advance"):
            pass
        # It is the run of the other process that is known, not the attempt to begin another.
        last = read_last_run(lake)
        assert last is not None
        assert (last.command, last.pid, last.result) == ("advance", first.pid, "running")
        first.send_signal(signal.SIGKILL)
        first.wait()
    last = read_last_run(lake)
    assert last is not None
    assert (last.result, last.ended_at) == ("killed", None)
    with locked(lake, "advance"):
        pass


@pytest.mark.parametrize(
    ("error", "result", "reason"),
    [
        (None, "ok", None),
        (
            ConfigError("is wrong: password=S3CRET", setting="tz"),
            "failed",
            "tz: is wrong: password=…",
        ),
        (RuntimeError("two\nlines sasl-password=S3CRET"), "failed", "two lines sasl-password=…"),
        (KeyboardInterrupt(), "interrupted", None),
    ],
)
def test_the_last_run_is_known_with_its_end(
    tmp_path: Path, error: BaseException | None, result: str, reason: str | None
) -> None:
    lake = Lake(str(tmp_path / "a lake"), "feed")
    assert read_last_run(lake) is None
    with suppress(ConfigError, RuntimeError, KeyboardInterrupt), locked(lake, "rebuild"):
        if error is not None:
            raise error
    last = read_last_run(lake)
    assert last is not None
    assert (last.command, last.result, last.reason) == ("rebuild", result, reason)
    assert last.ended_at is not None
    assert last.started_at <= last.ended_at


def test_half_a_record_of_a_run_is_none(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "feed")
    Path(lake.path("last_run.json")).parent.mkdir()
    Path(lake.path("last_run.json")).write_text('{"command":"adv')
    assert read_last_run(lake) is None


def test_a_process_takes_the_lock_once_and_releases_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "deep" / "lake"), "feed")
    with (
        locked(lake, "advance"),
        pytest.raises(ConfigError, match=f"process {os.getpid()} "),
        locked(lake, "advance"),
    ):
        pass
    with locked(lake, "advance"):
        pass


def test_without_a_lock_the_second_commit_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's transaction versions keep concurrent runs from committing twice."""
    path, begun, go_on = (str(tmp_path / name) for name in ("table", "begun", "go on"))
    rows = spark.range(0, 1, 1, numPartitions=1)
    rows.write.format("delta").save(path)

    def late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(begun).touch()
        until = time.monotonic() + 60
        while not Path(go_on).exists() and time.monotonic() < until:
            time.sleep(0.01)
        yield from batches

    def write(of: DataFrame) -> None:
        same = {"txnAppId": "a run", "txnVersion": "1"}
        of.write.format("delta").mode("append").options(**same).save(path)

    with ThreadPoolExecutor() as pool:
        second = pool.submit(write, rows.mapInArrow(late, rows.schema))
        while not Path(begun).exists() and not second.done():
            time.sleep(0.01)
        write(rows)
        Path(go_on).touch()
    error = second.exception()
    assert error is not None
    assert (describe_failure(error) or "").startswith("another run is at work in this lake")
    assert spark.read.format("delta").load(path).count() == 2


@pytest.mark.parametrize("name", ["run.lock", "run.wanted"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_lock_file_is_no_link_and_no_pipe(tmp_path: Path, name: str, kind: str) -> None:
    lake = Lake(str(tmp_path / "lake"), "feed")
    place, precious = Path(lake.path(name)), tmp_path / "precious"
    place.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(precious)
    if kind == "link":
        precious.write_text("keep")
    with pytest.raises(ConfigError, match=f"{name}: .*is not a lock file"):
        _ = is_lock_wanted(lake) if name == "run.wanted" else locked(lake, "advance").__enter__()
    assert precious.exists() == (kind == "link")
    assert kind != "link" or precious.read_text() == "keep"


def test_a_file_that_is_no_lock_keeps_its_content(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "feed")
    place = Path(lake.path("run.lock"))
    place.parent.mkdir()
    for content in (b"keep", b"\xff\0"):
        place.write_bytes(content)
        with pytest.raises(ConfigError, match="is not a lock file"), locked(lake, "advance"):
            pass
        assert place.read_bytes() == content
    place.unlink()
    with locked(lake, "advance"):
        assert json.loads(place.read_text())["pid"] == os.getpid()
    assert place.read_bytes() == b""


def test_the_holder_sees_who_waits_and_who_waits_comes_next(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "feed")
    waiter = LockWaiter(lake)
    with locked(lake, "advance"):
        assert not is_lock_wanted(lake)
        waiter.start()
        assert is_lock_wanted(lake)
        assert not waiter.had_lock.is_set()
    waiter.join()
    assert waiter.had_lock.is_set()
    assert not is_lock_wanted(lake)
    assert len(waiter.messages) == 1
    assert f"process {os.getpid()} " in waiter.messages[0]
