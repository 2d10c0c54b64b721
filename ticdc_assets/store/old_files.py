"""Files in a Delta table's folder that no version of the retained time needs, and commits so old.

Whatever engine wrote the table, its log states the files of every version.  delta-rs and Spark have
a VACUUM each: one keeps no range of versions, the other forgets what it removed a week ago, and
neither shortens the log of a table whose old versions snapshots name.

A version remains readable if it was the newest when the retained time began, or came later, or is
one to keep.  A file that none of these has goes once it is too old to be part of a commit to come.
The log keeps a checkpoint below each of these versions, and the commits from there on.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple, Self

from pyarrow import fs

from ticdc_assets.store.delta_log import (
    DataFile,
    TableState,
    VersionGone,
    read_added_files,
    read_newest_state,
    read_state,
)
from ticdc_assets.store.log_actions import is_elsewhere, list_paths
from ticdc_assets.store.log_files import LOG_FOLDER, list_checkpoints, list_commits
from ticdc_assets.store.reader import LakeReader

# Stages look for their last commit among fewer of the newest ones.
_COMMITS_TO_KEEP = 100
# The longest time from writing a file to committing it.
_LONGEST_COMMIT = timedelta(days=1)
_AT_ONCE = 16
# So many files may go after the lock was lost; to look after it costs a request in an object store.
_BETWEEN_CHECKS = 64
# With Spark's checksums of versions, and Hadoop's of files.
_OF_VERSION = re.compile(
    r"\.?(\d{20})\.(?:json|crc|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)(?:\.crc)?"
)
# Delta's own folders, and temporary files; but for the changes of rows that older lakes kept.
_HIDDEN = ("_", ".")
_CHANGES = "_change_data/"


class StoredFile(NamedTuple):
    """A file, by its path below the folder of its table."""

    path: str
    size: int
    written: datetime

    @property
    def name_in_log(self) -> str | None:
        folder, _, name = self.path.rpartition("/")
        return name if folder == LOG_FOLDER else None


class RetainedTime(NamedTuple):
    """When the time began whose versions are kept, and before when files to remove were written."""

    began: datetime
    written_before: datetime

    @classmethod
    def none(cls) -> Self:
        """Keep nothing but what is newest, and no file that was written for a commit to come."""
        end = datetime.max.replace(tzinfo=UTC)
        return cls(end, end)

    @classmethod
    def of(cls, now: datetime, span: timedelta) -> Self:
        began = now - span
        return cls(began, began - min(_LONGEST_COMMIT, span))


@dataclass(frozen=True)
class OldFiles:
    """What can be removed of a table: data files, and then files of its log, oldest first."""

    table: str
    # What the newest version of the table is; None without a log.
    newest: TableState | None = None
    data: tuple[StoredFile, ...] = ()
    log: tuple[StoredFile, ...] = ()

    @property
    def number(self) -> int:
        return len(self.data) + len(self.log)

    @property
    def size(self) -> int:
        return sum(file.size for file in (*self.data, *self.log))

    def remove(self, reader: LakeReader, check: Callable[[], None]) -> None:
        """Remove them as long as `check` raises no error."""
        remove = partial(_remove, reader.open_folder(self.table))
        with reader.explained(reader.location.path(self.table)):
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                for files in _split(self.data):
                    # Whoever has taken the lock may go back to a version that needs the others.
                    check()
                    list(threads.map(remove, files))
            # In order: wherever this ends, no commit is missing between two others.
            for files in _split(self.log):
                check()
                list(map(remove, files))


def _split(files: Sequence[StoredFile]) -> Iterator[Sequence[StoredFile]]:
    for start in range(0, len(files), _BETWEEN_CHECKS):
        yield files[start : start + _BETWEEN_CHECKS]


def list_stored_files(reader: LakeReader, table: str) -> list[StoredFile]:
    """List all files below the folder of a table."""
    folder = reader.open_folder(table)
    with reader.explained(reader.location.path(table)):
        found = folder.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        return [
            StoredFile(info.path, info.size or 0, info.mtime)
            for info in found
            if info.type is fs.FileType.File
        ]


# Parameters: a table and what is in its folder, and which of its versions remain.
def find_old_files(
    reader: LakeReader,
    table: str,
    stored: Collection[StoredFile],
    retained: RetainedTime,
    *,
    since: int | None = None,
    kept: Collection[int] = (),
    commits: int = _COMMITS_TO_KEEP,
) -> OldFiles:
    """Find the files that a table does not need any more.

    All versions from `since` on remain readable, too, and single ones to be `kept`; the log keeps
    its newest `commits` in any case.
    """
    found = read_newest_state(reader, table)
    if found is None:
        return OldFiles(table)
    newest, state = found
    older = [v for v, written in _list_commits(stored) if written <= retained.began]
    began = max(older, default=0)
    first = began if since is None else min(began, since)
    needed = _list_needed(reader, table, stored, first, kept)
    data: tuple[StoredFile, ...] = ()
    if needed is not None:
        data = tuple(
            file
            for file in stored
            if file.path not in needed
            and file.written <= retained.written_before
            and (not file.path.startswith(_HIDDEN) or file.path.startswith(_CHANGES))
        )
    log = _find_old_log(stored, min(first, newest - commits), kept)
    return OldFiles(table, state, data, tuple(log))


# Parameters: a table and what is in its folder, and which of its versions remain.
def _list_needed(
    reader: LakeReader,
    table: str,
    stored: Iterable[StoredFile],
    first: int,
    kept: Iterable[int],
) -> set[str] | None:
    """List the files of the versions from `first` on, and of those to be kept.

    A commit may add a file again that is as old as the table, as a restore does: only the log says
    what a version has.  None if it names files by their whole paths, which are not understood here.
    """
    names = {file.name_in_log for file in stored if file.name_in_log is not None}
    files = list(read_added_files(reader, table, first))
    # Nobody can open a version that has left the log already, but those behind it.
    files += _read_first(reader, table, (first, *sorted(list_checkpoints(names))))
    for version in kept:
        files += _read_first(reader, table, (version,))
    if any(is_elsewhere(file) for file in files):
        return None
    return {path for file in files for path in list_paths(file)}


def _read_first(reader: LakeReader, table: str, versions: Iterable[int]) -> tuple[DataFile, ...]:
    """Read the files of the first of some versions that is still in the log; none if none is."""
    for version in versions:
        with suppress(VersionGone):
            return read_state(reader, table, version).files
    return ()


def _list_commits(stored: Iterable[StoredFile]) -> Iterator[tuple[int, datetime]]:
    written = {file.name_in_log: file.written for file in stored if file.name_in_log is not None}
    for version, name in list_commits(written).items():
        yield version, written[name]


def _find_old_log(
    stored: Iterable[StoredFile], first: int, kept: Iterable[int]
) -> list[StoredFile]:
    """Find the files of a log that no version from `first` on needs, nor one to be kept."""
    files = {file.name_in_log: file for file in stored if file.name_in_log is not None}
    checkpoints = list_checkpoints(files)

    def find_start(version: int) -> int:
        return max((each for each in checkpoints if each <= version), default=-1)

    oldest = find_start(first)
    # A version takes a checkpoint and the commits behind it.
    spans = [range(max(find_start(each), 0), each + 1) for each in kept]
    versions = {name: int(match[1]) for name in files if (match := _OF_VERSION.fullmatch(name))}
    old = [
        name
        for name, version in versions.items()
        if version < oldest and not any(version in span for span in spans)
    ]
    return [files[name] for name in sorted(old, key=lambda name: (versions[name], name))]


def _remove(folder: fs.FileSystem, file: StoredFile) -> None:
    # A run that was killed, or another program, may have been here before.
    with suppress(FileNotFoundError):
        folder.delete_file(file.path)
