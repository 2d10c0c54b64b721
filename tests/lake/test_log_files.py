"""The end of a log is the same by the hint that leads to it as by a list of the log."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import fs

from ticdc_assets.store import log_files
from ticdc_assets.store.log_files import LOG_FOLDER, NotInLog, RemovedFromLog, read_log_end

NEWEST = 9
HINTS = [b"", b"{", b"[]", b'{"version":"4"}', b'{"version":-1}', b'{"version":4,"parts":2}']
HINTS += [b'{"version":4,"v2Checkpoint":{"path":"x"}}', b'{"version":1e99}', b"\xff"]
hints = st.none() | st.sampled_from(HINTS) | st.integers(0, NEWEST + 2)


def name_commit(version: int) -> str:
    return f"{version:020}.json"


def name_checkpoint(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def write_log(
    folder: Path, first: int, newest: int, checkpoints: set[int], hint: bytes | int | None
) -> fs.FileSystem:
    """Write a log whose commits before `first` are gone."""
    log = folder / LOG_FOLDER
    log.mkdir()
    for version in range(first, newest + 1):
        (log / name_commit(version)).write_bytes(b"commit %d" % version)
    for version in checkpoints:
        (log / name_checkpoint(version)).write_bytes(b"")
    if hint is not None:
        content = json.dumps({"version": hint}).encode() if isinstance(hint, int) else hint
        (log / "_last_checkpoint").write_bytes(content)
    return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())


@given(
    first=st.integers(0, NEWEST),
    newest=st.integers(-1, NEWEST),
    checkpoints=st.sets(st.integers(0, NEWEST), max_size=4),
    hint=hints,
    wanted=st.none() | st.integers(0, NEWEST),
)
@example(first=0, newest=7, checkpoints={2, 5}, hint=2, wanted=None)
@example(first=6, newest=7, checkpoints={2, 5}, hint=2, wanted=None)
@example(first=0, newest=5, checkpoints={2, 5}, hint=5, wanted=None)
@example(first=0, newest=7, checkpoints={2, 5}, hint=5, wanted=3)
@example(first=6, newest=7, checkpoints={5}, hint=5, wanted=4)
def test_a_version_is_what_the_whole_log_says(
    first: int, newest: int, checkpoints: set[int], hint: bytes | int | None, wanted: int | None
) -> None:
    commits = set(range(first, newest + 1))
    # The commit of a checkpoint goes with those before it only, once there is a newer checkpoint.
    checkpoints = {each for each in checkpoints if each <= newest or not commits}
    end = max(commits | checkpoints, default=-1) if wanted is None else wanted
    starts = [c for c in (-1, *checkpoints) if c <= end and commits >= {*range(c + 1, end + 1)}]
    with TemporaryDirectory() as temporary:
        folder = write_log(Path(temporary), first, newest, checkpoints, hint)
        if not starts or (wanted is not None and end > max(commits | checkpoints, default=-1)):
            is_removed = any(each > end for each in checkpoints)
            with pytest.raises(RemovedFromLog if is_removed else NotInLog) as raised:
                read_log_end(folder, wanted)
            assert type(raised.value) is (RemovedFromLog if is_removed else NotInLog)
            return
        found = read_log_end(folder, wanted)
    assert found.version == end
    start = next((c for c in starts if found.checkpoint == (name_checkpoint(c),)), -1)
    assert found.checkpoint == (() if start < 0 else (name_checkpoint(start),))
    behind = [(name_commit(v), b"commit %d" % v) for v in range(start + 1, end + 1)]
    assert list(found.commits) == behind


def test_no_list_is_needed_behind_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_log(tmp_path, 0, 7, {2, 5}, 5)
    monkeypatch.delattr(log_files, "list_log")
    assert read_log_end(folder).version == 7
    assert read_log_end(folder, 5).checkpoint == (name_checkpoint(5),)
    with pytest.raises(NameError):
        read_log_end(folder, 4)
