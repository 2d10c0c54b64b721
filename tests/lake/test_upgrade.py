"""An older lake is upgraded in place by the next run, also after one that was killed half-way."""

import shutil
from pathlib import Path

import pytest

from tests.lake.older_lakes import FEED, unpack
from ticdc_assets.lake import upgrade as upgrades
from ticdc_assets.lake.upgrade import STEPS, Step, upgrade
from ticdc_assets.log.loads import read_loads
from ticdc_assets.store import format
from ticdc_assets.store.format import FIRST_VERSIONS, FORMAT, read_format
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter


class Killed(BaseException):
    """Nothing but the test catches it."""


def open_lake(root: str | Path) -> LakeSession:
    return LakeSession(lambda: pytest.fail("Spark was started"), Lake(str(root), FEED.id), FEED)


def find_format(lake: LakeSession) -> int:
    return read_format(lake.location, LakeReader(lake.location).open("applied"))


def test_every_format_has_a_step_and_a_version() -> None:
    assert list(FIRST_VERSIONS) == list(range(1, FORMAT + 1))
    assert len(STEPS) == FORMAT


def test_a_new_lake_has_the_newest_format_once_all_of_its_tables_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, create, made = open_lake(tmp_path), LakeWriter.create, list[str]()
    assert not upgrade(lake)
    assert list(tmp_path.iterdir()) == []

    def create_some(self: LakeWriter, table: str, *arguments: object) -> None:
        if len(made) == 4:
            raise Killed
        made.append(table)
        create(self, table, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(LakeWriter, "create", create_some)
        with pytest.raises(Killed):
            create_tables(lake)
    assert not upgrade(lake)
    create_tables(lake)
    assert find_format(lake) == FORMAT
    assert upgrade(lake)
    assert LakeReader(lake.location).open("applied").version() == 0


def test_the_first_lakes_get_the_table_that_they_lack(tmp_path: Path) -> None:
    lake = open_lake(unpack(tmp_path, 0))
    shutil.rmtree(lake.path("loads"))
    # To a reader it has no loads.
    assert (read_loads(LakeReader(lake.location)), find_format(lake)) == ([], 0)
    upgrade(lake)
    assert LakeReader(lake.location).open("loads").version() == 0
    assert find_format(lake) == FORMAT


def make_step(name: str, done: list[str], killed: list[str]) -> Step:
    """A step that writes two files; it is killed between them if its name is listed."""

    def step(lake: LakeSession) -> None:
        done.append(name)
        folder = Path(lake.path(""))
        (folder / f"{name}.first").write_text(name)
        if name in killed:
            killed.remove(name)
            raise Killed
        (folder / f"{name}.second").write_text(name)

    return step


@pytest.mark.parametrize("killed", [[], ["two"], ["two", "three"], ["one", "two", "three"]])
def test_an_upgrade_goes_on_where_one_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: list[str]
) -> None:
    names = ["one", "two", "three"]
    done = list[str]()
    monkeypatch.setattr(format, "FIRST_VERSIONS", {1: "0.1.0", 2: "0.4.0", 3: "0.7.0"})
    monkeypatch.setattr(format, "FORMAT", 3)
    # A step is done again if its run was killed, and no other one is.
    expected = [name for name in names for _ in range(1 + (name in killed))]
    monkeypatch.setattr(upgrades, "STEPS", [make_step(name, done, killed) for name in names])
    lake = open_lake(unpack(tmp_path, 0))
    while killed:
        before = names.index(killed[0])
        with pytest.raises(Killed):
            upgrade(lake)
        assert find_format(lake) == before
    for _ in range(2):
        assert upgrade(lake)
        assert find_format(lake) == 3
        assert done == expected
    stated = LakeReader(lake.location).open("applied").metadata().configuration
    assert stated["ticdc.format_since"] == "0.7.0"
    written = {path.name for path in Path(lake.path("")).glob("*.*")}
    assert {f"{name}.{part}" for name in names for part in ("first", "second")} <= written


def test_a_format_is_stated_by_the_run_that_has_the_lake(tmp_path: Path) -> None:
    """A run that was paused meanwhile fails, since its commit no longer follows what it read."""
    lake = open_lake(unpack(tmp_path, 0))
    paused = LakeReader(lake.location).open("applied")
    upgrade(lake)
    with pytest.raises(ConcurrentCommit):
        LakeWriter(lake.location).set_properties(paused, {"ticdc.format": "1"})
