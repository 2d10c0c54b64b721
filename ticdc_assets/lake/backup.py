"""Copy a changefeed's folder while runs go on, so that the copy is a lake that `advance` continues.

The next run continues from whatever a killed run leaves: the logs of the tables while no run has
the lock.  A copy of them at any other time may have events of input that its `raw` lacks, or a
snapshot that names versions that it lacks.  So the logs are copied under the lock, which takes
seconds.  Data files come after it: they never change, and none that those logs name is removed for
a week.

A copy that is not complete has no log of snapshots, so nothing can be read of it.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader, create_folder, write_content

# What is of one place or one moment: runs make it anew.
_LEFT_OUT = ("iceberg/", "iceberg-catalog/", "catalog-", "run.", "last_run.json")
_LOG, _SNAPSHOTS = "_delta_log/", "applied/_delta_log/"
# What writes these needs no lock.  A load makes its table first, and then states it.
_UNLOCKED = ("loads", "verifications", "differences", "verification_progress", "copy_progress")
_AT_ONCE = 16
_BLOCK = 4 << 20


@dataclass(frozen=True)
class Copied:
    """What a copy took: the files that were copied, their bytes, and the files of the copy."""

    copied: int
    size: int
    files: int


def copy_lake(lake: Lake, into: str, waiting: Callable[[str], None]) -> Copied:
    """Copy a changefeed's folder into another lake, or bring an earlier copy of it up to date."""
    target = Lake(into, lake.changefeed)
    reader = LakeReader(target)
    with reader.explained(target.path("")):
        there = create_folder(target.path(""))
        known = _list_files(there)
        if any(name.startswith(("run.", "last_run.json")) for name in known):
            reason = "runs have worked on what is there, so it is no copy: name another folder"
            raise ConfigError(reason, file=target.path(""), setting="--into")
        for name in known:
            if name.startswith(_SNAPSHOTS):
                there.delete_file(name)
    source = LakeReader(lake).open_folder("")
    copy = partial(_copy_file, source, there)
    with locked(lake, "backup", waiting=waiting), reader.explained(target.path("")):
        files = _choose_files(source)
        logs = list(filter(_is_state, files))
        snapshots = {n: _read(source, n) for n in logs if n.startswith(_SNAPSHOTS)}
        logs = [name for name in logs if name not in snapshots]
        _create_folders(there, files)
        _do_all(copy, logs)
    with reader.explained(target.path("")):
        data = [n for n, size in files.items() if not _is_state(n) and known.get(n) != size]
        _do_all(copy, data)
        for name in known.keys() - files.keys():
            if not name.startswith(_SNAPSHOTS):
                there.delete_file(name)
        # In order, so that the log has no gap at any time.
        for name in sorted(snapshots):
            write_content(there, name, snapshots[name])
    copied = [*logs, *data, *snapshots]
    return Copied(len(copied), sum(files[name] for name in copied), len(files))


def _choose_files(source: fs.FileSystem) -> dict[str, int]:
    """Choose the files that make a lake, with their sizes."""
    # Listed first, they name nothing that others lack.  Their last checkpoint may be a later one.
    files = {
        name: size
        for table in _UNLOCKED
        for name, size in _list_files(source, table).items()
        if not name.endswith("/_last_checkpoint")
    }
    unlocked = tuple(f"{table}/" for table in _UNLOCKED)
    return files | {
        name: size
        for name, size in _list_files(source).items()
        if not name.startswith((*_LEFT_OUT, *unlocked))
    }


def _is_state(name: str) -> bool:
    """Whether a file says what counts; others are named by such files."""
    return f"/{_LOG}" in name or name.endswith(".json")


def _list_files(folder: fs.FileSystem, below: str = "") -> Mapping[str, int]:
    """List the files of a folder with their sizes."""
    found = folder.get_file_info(fs.FileSelector(below, recursive=True, allow_not_found=True))
    return {info.path.lstrip("/"): info.size for info in found if info.type is fs.FileType.File}


def _create_folders(folder: fs.FileSystem, names: Iterable[str]) -> None:
    for name in {name.rpartition("/")[0] for name in names} - {""}:
        folder.create_dir(name)


def _do_all(do: Callable[[str], None], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(do, names))


def _read(folder: fs.FileSystem, name: str) -> bytes:
    with folder.open_input_file(name) as file:
        content: bytes = file.read()
        return content


def _copy_file(source: fs.FileSystem, target: fs.FileSystem, name: str) -> None:
    # A file that is gone is none that counts: what a killed run, or maintenance, has left.
    with (
        suppress(FileNotFoundError),
        source.open_input_file(name) as file,
        # See `write_content` for the buffer.
        target.open_output_stream(name, buffer_size=_BLOCK) as copy,
    ):
        while block := file.read(_BLOCK):
            copy.write(block)
