"""`backup` says what it copied; what is not complete is no lake, and a lake in use no copy."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.lake.older_lakes import FEED, LAST, unpack
from ticdc_assets.lake import backup
from ticdc_assets.resources.lake import LAKE
from ticdc_assets.store.format import FORMAT


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    declared = f'[[changefeed]]\nid = "{FEED.id}"\nsink-uri = "dump:///none?protocol=simple"\n'
    Path("changefeeds.toml").write_text(declared)
    root = Path(unpack(tmp_path, FORMAT))
    monkeypatch.setenv(LAKE, str(root))
    return root


def test_the_second_backup_copies_what_is_new_and_removes_what_is_gone(
    lake: Path, run: Run
) -> None:
    assert run("backup", "--into", "copy")[0] == 0
    copy = Path("copy", FEED.id)
    (stale, data) = (copy / "current" / "stale.parquet"), next(copy.glob("raw/*.parquet"))
    shutil.copy(data, stale)
    (copy / "events" / "_delta_log" / f"{99:020}.json").write_text("{}")
    data.write_bytes(b"half")
    code, out, err = run("backup", "--into", "copy")
    assert (code, err) == (0, [])
    assert f"{FEED.id} at {LAST} " in out.decode()
    assert str(copy.resolve()) in out.decode()
    kept = {p.relative_to(lake / FEED.id): p.read_bytes() for p in lake.rglob("*") if p.is_file()}
    there = {
        p.relative_to(copy.resolve()): p.read_bytes()
        for p in copy.resolve().rglob("*.*")
        if p.is_file()
    }
    beside = {Path(name) for name in ("run.lock", "last_run.json")}
    assert there == {name: content for name, content in kept.items() if name not in beside}


def test_a_copy_is_read_only_once_it_is_complete(
    lake: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("backup", "--into", "copy")
    assert run("tables", "--lake", "copy")[0] == 0
    copy = backup._copy_file

    def copy_some(*arguments: object) -> None:
        if str(arguments[-1]).endswith(".parquet"):
            raise KeyboardInterrupt
        copy(*arguments)  # type: ignore[arg-type]

    for data in Path("copy", FEED.id).glob("raw/*.parquet"):
        data.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(backup, "_copy_file", copy_some)
        assert run("backup", "--into", "copy")[0] == 130
    code, _, err = run("tables", "--lake", "copy")
    assert code == 2
    assert "holds nothing of changefeed 'f' yet" in err[0]
    assert run("backup", "--into", "copy")[0] == 0
    assert run("tables", "--lake", "copy")[0] == 0


def test_a_backup_writes_into_no_lake_that_is_in_use(lake: Path, run: Run) -> None:
    code, _, err = run("backup", "--into", lake / "copies")
    assert (code, "is inside the lake" in err[0]) == (2, True)
    code, _, err = run("backup", "--into", "copy", "--lake", "nowhere")
    assert (code, "holds nothing of changefeed" in err[0]) == (2, True)
    assert not Path("copy").exists()
    run("backup", "--into", "copy")
    # Whatever works on the copy makes it a lake of its own.
    run("maintain", "--lake", "copy")
    before = sorted(Path("copy").rglob("*"))
    code, _, err = run("backup", "--into", "copy")
    assert (code, "so it is no copy" in err[0]) == (2, True)
    assert sorted(Path("copy").rglob("*")) == before
