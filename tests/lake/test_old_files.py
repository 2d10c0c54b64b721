"""Old files go, and every version of the retained time remains as it was, whoever reads it."""

import os
import random
import shutil
from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ticdc_assets.store import old_files
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lease import LockLost
from ticdc_assets.store.old_files import (
    OldFiles,
    RetainedTime,
    find_old_files,
    list_stored_files,
)
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.stored_rows import FilesGone, StoredRows

NOW = datetime(2026, 11, 28, tzinfo=UTC)
HOUR = timedelta(hours=1)
# A day of these is a version per hour.
VERSIONS = 24 * 12
PROPERTIES = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 3650 days"}


class AgedTable:
    """A table with a version per hour up to now, and the rows of each."""

    def __init__(self, root: Path) -> None:
        self._open(root)
        self.rows: list[list[int]] = []
        self._known: set[Path] = set()
        chance = random.Random(7)
        for version in range(VERSIONS):
            is_append = bool(version) and chance.random() < 0.5
            added = [chance.randrange(1000) for _ in range(3)]
            write_deltalake(
                str(self.folder),
                pa.table({"v": pa.array(added, pa.int64())}),
                mode="append" if is_append else "overwrite",
                configuration=PROPERTIES,
            )
            self.rows.append(sorted([*(self.rows[-1] if is_append else []), *added]))
            self._age(NOW - (VERSIONS - version) * HOUR)

    def _open(self, root: Path) -> None:
        self.reader = LakeReader(Lake(str(root), "f"))
        self.folder = root / "f" / "events"

    def copy(self, root: Path) -> Self:
        """Copy the table, with the age of its files."""
        copied = copy(self)
        copied._open(root)
        shutil.copytree(self.folder, copied.folder)
        copied._known = set(copied.folder.rglob("*"))
        return copied

    def _age(self, moment: datetime) -> None:
        new = {path for path in self.folder.rglob("*") if path.is_file()} - self._known
        for path in new:
            self.set_age(path, moment)
        self._known |= new

    def set_age(self, path: Path, moment: datetime) -> None:
        os.utime(path, (moment.timestamp(), moment.timestamp()))

    def find(self, days: float, since: int | None = None, kept: Sequence[int] = ()) -> OldFiles:
        time = RetainedTime.of(NOW, timedelta(days=days))
        stored = list_stored_files(self.reader, "events")
        return find_old_files(self.reader, "events", stored, time, since=since, kept=kept)

    def read(self, version: int) -> list[list[int]]:
        """Read a version with delta-rs and with our own reader."""
        theirs = DeltaTable(str(self.folder), version).to_pyarrow_table()["v"].to_pylist()
        ours = StoredRows(self.reader, "events", version).read()
        return [sorted(theirs), sorted(v for block in ours for v in block["v"].to_pylist())]

    def measure(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> AgedTable:
    return AgedTable(tmp_path_factory.mktemp("aged"))


@pytest.fixture
def table(made: AgedTable, tmp_path: Path) -> AgedTable:
    return made.copy(tmp_path)


def test_versions_of_the_retained_time_and_those_to_keep_remain(table: AgedTable) -> None:
    table.folder.joinpath("_change_data").mkdir()
    stray = {
        name: table.folder / name
        for name in ("killed.parquet", "young.parquet", "_own.bin", "_change_data/c.parquet")
    }
    for name, path in stray.items():
        path.write_bytes(b"x")
        table.set_age(path, NOW - (2 if name == "young.parquet" else 30) * 24 * HOUR)
    # A reader has opened this one, and what maintenance removes is unknown to it.
    began = VERSIONS - 7 * 24
    opened = DeltaTable(str(table.folder), began)
    before = table.measure()
    old = table.find(7, kept=(3, 57))
    assert old.size == sum((table.folder / f.path).stat().st_size for f in (*old.data, *old.log))
    checks: list[str] = []
    old.remove(table.reader, lambda: checks.append("lock"))
    most = old_files._BETWEEN_CHECKS
    assert len(checks) == sum(-(-len(files) // most) for files in (old.data, old.log))
    assert table.measure() == before - old.size
    assert [name for name, path in stray.items() if path.exists()] == ["young.parquet", "_own.bin"]
    assert sorted(opened.to_pyarrow_table()["v"].to_pylist()) == table.rows[began]
    for version in (3, 57, *range(began, VERSIONS, 5), VERSIONS - 1):
        assert table.read(version) == [table.rows[version]] * 2
    # What is left of older versions is not more than their log takes from the last checkpoint.
    commits = sorted(int(path.stem) for path in table.folder.glob("_delta_log/*[0-9].json"))
    assert commits == [*range(4), *range(49, 58), *range(began - 1, VERSIONS)]
    gone = StoredRows(table.reader, "events", 30)
    assert not gone.has_files
    with pytest.raises(FilesGone, match="@ 30"):
        gone.count()
    # Nothing is left to do, and the table goes on.
    assert table.find(7, kept=(3, 57)).number == 0
    write_deltalake(str(table.folder), pa.table({"v": pa.array([1], pa.int64())}), mode="append")
    assert table.read(VERSIONS) == [sorted([*table.rows[-1], 1])] * 2


def test_all_versions_remain_from_one_that_a_snapshot_names(table: AgedTable) -> None:
    table.find(1, since=100).remove(table.reader, lambda: None)
    for version in (*range(100, VERSIONS, 5), VERSIONS - 1):
        assert table.read(version) == [table.rows[version]] * 2
    assert not StoredRows(table.reader, "events", 60).has_files


def test_old_files_that_a_young_commit_adds_again_remain(table: AgedTable) -> None:
    before, newest = VERSIONS - 200, VERSIONS - 1
    restore(table.reader.location, "events", newest, before)
    table._age(NOW - 48 * HOUR)
    write_deltalake(str(table.folder), pa.table({"v": pa.array([1], pa.int64())}), mode="overwrite")
    table._age(NOW)
    table.find(7, since=newest).remove(table.reader, lambda: None)
    assert not StoredRows(table.reader, "events", 30).has_files
    assert table.read(VERSIONS) == [table.rows[before]] * 2


def test_files_of_a_copy_are_older_than_its_log(table: AgedTable) -> None:
    for path in table.folder.glob("*.parquet"):
        table.set_age(path, NOW - 30 * 24 * HOUR)
    log = sorted(table.folder.glob("_delta_log/*"))
    oldest = 99
    for path in log:
        table.set_age(path, NOW)
        if path.name < f"{oldest:020}" and path.name != "_last_checkpoint":
            path.unlink()
    # All that the log has may be of the last days.
    table.find(7, since=VERSIONS - 1).remove(table.reader, lambda: None)
    for version in range(oldest, VERSIONS):
        assert table.read(version) == [table.rows[version]] * 2


def test_the_newest_commits_remain_however_old_they_are(table: AgedTable) -> None:
    for path in table.folder.rglob("*.*"):
        table.set_age(path, NOW - 400 * 24 * HOUR)
    table.find(7).remove(table.reader, lambda: None)
    assert len(DeltaTable(str(table.folder)).history()) >= 100
    assert table.read(VERSIONS - 1) == [table.rows[-1]] * 2


def test_a_removal_that_was_killed_leaves_a_log_without_gaps(table: AgedTable) -> None:
    old = table.find(2)
    half = len(old.log) // 2
    for file in old.log[:half]:
        (table.folder / file.path).unlink()
    commits = sorted(int(path.stem) for path in table.folder.glob("_delta_log/*[0-9].json"))
    assert commits == list(range(commits[0], VERSIONS))
    for version in range(VERSIONS - 48, VERSIONS):
        assert table.read(version) == [table.rows[version]] * 2
    rest = table.find(2)
    assert {file.path for file in rest.log} == {file.path for file in old.log[half:]}


def test_a_removal_ends_where_the_lock_is_lost(
    table: AgedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_files, "_BETWEEN_CHECKS", 3)
    old = table.find(2)
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise LockLost("lost")

    with pytest.raises(LockLost):
        old.remove(table.reader, check)
    gone = {file.path for file in (*old.data, *old.log) if not (table.folder / file.path).exists()}
    assert gone == {file.path for file in old.data[:6]}
    assert len(old.data) > 6
    # What a run finds that has taken the lock, and may have gone back to, stays.
    restore(table.reader.location, "events", VERSIONS - 1, VERSIONS - 30)
    checks = 0
    with pytest.raises(LockLost):
        old.remove(table.reader, check)
    assert table.read(VERSIONS) == [table.rows[VERSIONS - 30]] * 2
