"""The run lock of a lake on a real S3 server, and what a run that has lost it may still do."""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Self

import pyarrow as pa
import pytest

from tests.lake.addresses import LIFE, read_addresses, send
from tests.lake.addresses import open_lake as open_addressed
from tests.lock_waiter import LockWaiter
from tests.resources.advancing import (
    SHORT_EXPIRY,
    Story,
    count_windows,
    main,
    open_lake,
    read_windows,
)
from tests.resources.s3_account import open_client, s3_account
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply.table_commits import describe_commit
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.named_tables import name_tables
from ticdc_assets.plan.state import name_address
from ticdc_assets.store import lease, lock, old_files
from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.last_run import read_last_run
from ticdc_assets.store.lease import LockLost
from ticdc_assets.store.lease_folder import LeaseFolder
from ticdc_assets.store.lock import is_lock_wanted, is_locked, locked
from ticdc_assets.store.old_files import StoredFile
from ticdc_assets.store.once import write_once
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter


@pytest.fixture(scope="module", autouse=True)
def server(moto: str) -> Iterator[str]:
    with s3_account(moto) as url:
        yield url


def test_a_lock_is_held_until_it_is_released_or_its_lease_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Lake("s3://lakes/held", "feed")
    assert not is_locked(lake)
    with locked(lake, "advance"):
        assert is_locked(lake)
        with monkeypatch.context() as patch:
            # As it is later, where the run was killed.
            patch.setattr(lease, "EXPIRY", 0.0)
            assert not is_locked(lake)
        assert is_locked(lake)
    assert not is_locked(lake)


def test_a_lake_in_an_object_store_has_one_run_at_a_time(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_LEASE_POLL_INTERVAL", 0.1)
    lake = Lake("s3a://lakes/a b/runs", "feed")
    assert read_last_run(lake) is None
    with locked(lake, "advance"):
        assert not is_lock_wanted(lake)
        last = read_last_run(lake)
        assert last is not None
        assert (last.command, last.result) == ("advance", "running")
        holder = f"process {os.getpid()} on .* is working on changefeed 'feed'; if it was killed"
        with pytest.raises(ConfigError, match=holder), locked(lake, "maintain"):
            pass
        assert not is_lock_wanted(lake)
        # Another changefeed has a lock of its own.
        with locked(Lake(lake.root, "other"), "advance"):
            pass
        waiter = LockWaiter(lake)
        waiter.start()
        assert is_lock_wanted(lake)
        assert not waiter.had_lock.is_set()
    waiter.join()
    assert len(waiter.messages) == 1
    assert re.match("process .* 'feed'; waiting for it to finish", waiter.messages[0])
    assert not is_lock_wanted(lake)
    last = read_last_run(lake)
    assert last is not None
    assert (last.command, last.result) == ("advance", "ok")
    # However many runs there were.
    client = open_client(server)
    left = client.list_objects_v2(Bucket="lakes", Prefix="a b/runs/feed/run.lease/")["Contents"]
    assert len(left) == 2


def test_a_run_that_lost_its_lock_commits_and_publishes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = open_addressed("s3a://lakes/lost")
    assert advance(lake, send(1)).applied.problems == []
    monkeypatch.setattr(lease, "EXPIRY", 0.0)
    holder = '{"pid": 7, "host": "h", "since": "noon"}'

    def lose() -> None:
        """Advance after another run has taken over, as if this one was paused."""
        other = lease.Lease(LeaseFolder(lake.location, holder), lambda: None)
        with locked(lake.location, "advance"):
            assert other.try_take()
            advance(lake, send(2))

    lost = r"lost its lock: .*, and process 7 on h \(since noon\) is .*: run the command again"
    with pytest.raises(LockLost, match=lost):
        lose()
    assert read_addresses(lake) == LIFE[0][1]
    assert advance(lake, send(2)).applied.problems == []
    assert read_addresses(lake) == LIFE[1][1]


@pytest.mark.all_cases
def test_a_maintenance_that_lost_its_lock_removes_no_more(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, client = open_addressed("s3a://lakes/lost-removal"), open_client(server)
    for windows in (1, 2, 4):
        assert advance(lake, send(windows)).applied.problems == []
    left = [f"lost-removal/lake/f/events/left-{n}.parquet" for n in range(9)]
    for key in left:
        client.put_object(Bucket="lakes", Key=key, Body=b"x")

    def list_left() -> set[str]:
        found = client.list_objects_v2(Bucket="lakes", Prefix=left[0].rpartition("-")[0])
        return {each["Key"] for each in found.get("Contents", [])}

    other = lease.Lease(LeaseFolder(lake.location, ""), lambda: None)
    remove, taken = old_files._remove, []

    def lose(folder: object, file: StoredFile) -> None:
        remove(folder, file)  # type: ignore[arg-type]
        if "left-" in file.path and not taken:
            taken.append(other.try_take())

    with monkeypatch.context() as patch:
        patch.setattr(lease, "EXPIRY", 0.0)
        patch.setattr(old_files, "_BETWEEN_CHECKS", 1)
        patch.setattr(old_files, "_remove", lose)
        with pytest.raises(LockLost), locked(lake.location, "maintain"):
            maintain(lake, read_last_snapshot(lake), retain_days=0)
        assert taken == [True]
    assert len(list_left()) == 8
    assert read_addresses(lake) == LIFE[3][1]
    assert advance(lake, send(6)).applied.problems == []
    maintain(lake, read_last_snapshot(lake), retain_days=0).require_whole()
    assert list_left() == set()
    assert read_addresses(lake) == LIFE[5][1]


def test_a_snapshot_that_was_begun_before_a_fence_is_not_written() -> None:
    location = Lake("s3a://lakes/fenced", "shop")
    lake = LakeSession(None, location, None)  # type: ignore[arg-type]
    writer, rows = LakeWriter(location), pa.table({"n": [1]})
    writer.create("applied", rows.schema, {})
    assert commit_rows(lake, "applied", rows, StageMark("apply", 1))
    begun = LakeReader(location).open("applied")
    writer.add_fence("applied", "apply")
    with pytest.raises(ConcurrentCommit):
        writer.append(begun, rows, StageMark("apply", 2).properties)
    # Behind it, the numbers go on.
    assert commit_rows(lake, "applied", rows, StageMark("apply", 2))
    assert not commit_rows(lake, "applied", rows, StageMark("apply", 2))
    assert LakeReader(location).open("applied").to_pyarrow_table().num_rows == 2


def test_a_file_that_is_written_once_on_s3_is_never_replaced() -> None:
    lake = Lake("s3a://lakes/written once/表", "shop")
    written = []

    def write(number: int) -> None:
        with suppress(ConcurrentCommit):
            write_once(lake, lake.path("log"), "1.json", f"{number}".encode())
            written.append(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    folder = LakeReader(lake).open_folder("log")
    with folder.open_input_file("1.json") as file:
        assert [int(file.read())] == written


def test_of_runs_that_create_or_write_a_table_at_once_one_does() -> None:
    """Else delta-rs puts one commit behind the other, and both believe that it is their version."""
    location = Lake("s3a://lakes/at once", "shop")
    writer, rows = LakeWriter(location), pa.table({"n": [1]})
    columns, files, commit = rows.schema, [WrittenFile("f.parquet", 1, 1, "{}")], describe_commit(1)

    def create(number: int) -> bool:
        try:
            writer.create_of_files("t", columns, files, {}, commit)
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 1
    first, second = (LakeReader(location).open("t") for _ in range(2))
    assert first.version() == 0
    writer.append_files(first, files, commit)
    assert first.version() == 1
    with pytest.raises(ConcurrentCommit):
        writer.append_files(second, files, commit)


@pytest.mark.parametrize("seconds", [2, pytest.param(300, marks=pytest.mark.soak)])
def test_processes_that_are_killed_and_paused_advance_one_lake_on_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    random, root = Random(seconds), f"s3a://lakes/two of {seconds}"
    windows = max(40, 4 * seconds)
    log, lake, story = tmp_path / "log", open_lake(root), Story(seconds, windows)
    assert advance(lake, story.source(1)).applied.problems == []
    with Advancing(str(log), dict(os.environ), root, seconds, windows) as processes:
        end = time.monotonic() + seconds
        # On a busy machine they take longer.
        while (
            time.monotonic() < end
            or read_windows(lake) < max(2, seconds / 10)
            or not min(processes.counts.values())
        ):
            assert time.monotonic() < end + 200 + 20 * seconds
            processes.disturb(random)
    monkeypatch.setattr(lease, "EXPIRY", SHORT_EXPIRY)
    with locked(lake.location, "advance", waiting=print):
        last = read_windows(lake) + 1
        assert advance(lake, story.source(last)).applied.problems == []

    # Whatever else ended a run was foreseen.
    said = log.read_text() if log.exists() else ""
    assert not re.search("Traceback|problem: ", said), said
    reader = LakeReader(lake.location)
    rows = reader.read(reader.open("applied"), ["snapshot_id", "resolved_ts"])
    snapshots = rows.sort_by("snapshot_id").to_pylist()
    assert [each["snapshot_id"] for each in snapshots] == [*range(1, len(snapshots) + 1)]
    # Every snapshot has its own rows still.
    for each in snapshots:
        tables = name_tables(read_snapshot(reader, each["snapshot_id"]))
        found = {name: read_rows(lake, id.id, version) for name, (id, version) in tables.items()}
        assert found == name_truth(story, count_windows(each["resolved_ts"]))
    shown = {name: read_rows(lake, name) for name in name_truth(story, last)}
    assert shown == name_truth(story, last)


class Advancing:
    """Two processes that advance a lake; they and what was done to them."""

    def __init__(self, *arguments: object) -> None:
        self.counts = {"killed": 0, "paused": 0}
        self._arguments = arguments
        # It imports all that they need, once.
        self._server = multiprocessing.get_context("forkserver")
        self._server.set_forkserver_preload([main.__module__])
        self._running = [self._start() for _ in range(2)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.join()

    def disturb(self, random: Random) -> None:
        """Kill one and start another, or pause one, for less time than its lease has or more."""
        time.sleep(random.uniform(0.5, 3))
        at = random.randrange(2)
        process = self._running[at]
        if random.random() < 0.3:
            process.kill()
            process.join()
            self._running[at] = self._start()
            self.counts["killed"] += 1
        else:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(random.uniform(0, 2.5 * SHORT_EXPIRY))
            os.kill(process.pid, signal.SIGCONT)
            self.counts["paused"] += 1

    def _start(self) -> ForkServerProcess:
        process = self._server.Process(target=main, args=self._arguments)
        process.start()
        return process


def name_truth(story: Story, windows: int) -> dict[str, dict[int, str]]:
    return {name_address("d", name): rows for name, rows in story.truths[windows].items()}


def read_rows(lake: LakeSession, table: str, version: int | None = None) -> dict[int, str]:
    reader = LakeReader(lake.location)
    opened = open_table(f"{lake.path('current')}/{table}") if version is None else None
    rows = reader.read(opened or reader.open(f"current/{table}", version), ["id", "v"])
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == len(rows)
    return found
