"""Folders on local disk: list what TiCDC can have written, and open nothing else.

Whoever can write into a folder must not choose what a run reads or waits for: no symbolic link is
followed, and no pipe or device is opened.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, NamedTuple

_LINK = "a symbolic link is not followed: replace it by what it refers to"
_SPECIAL = "not a regular file"
_NOT_UTF8 = "its path is not UTF-8, so TiCDC did not write it"
# The stages read this file by its name and report what is wrong with it.
_METADATA = "metadata"


class FileEntry(NamedTuple):
    """A file of a folder: its path below the prefix, size in bytes, modification time (Unix ns)."""

    path: str
    size: int
    modified_ns: int
    # Why the file is not read.
    problem: str | None = None


def list_files(root: str) -> Iterator[FileEntry]:
    """Yield all files below a folder in no order; raise `OSError` if it cannot be listed."""
    start = os.fsencode(root or "/")
    pending = [start]
    while pending:
        for path, entry in _list_directory(pending.pop(), start):
            if entry is None:
                pending.append(path)
            else:
                yield entry


def list_directory(root: str, directory: str) -> tuple[list[str], list[FileEntry]]:
    """Return the directories and files directly in a directory of a folder; paths are below that.

    Raise `OSError` if it cannot be listed.
    """
    start = os.fsencode(root or "/")
    directories, files = [], []
    for path, entry in _list_directory(os.path.join(start, os.fsencode(directory)), start):
        if entry is not None:
            files.append(entry)
        else:
            # TiCDC writes UTF-8.
            with suppress(UnicodeDecodeError):
                directories.append(path[_measure_prefix(start) :].decode())
    return directories, files


def _list_directory(directory: bytes, start: bytes) -> Iterator[tuple[bytes, FileEntry | None]]:
    """Yield what is in a directory, by its path; None stands for a directory."""
    # To compute a relative path of each would take longer than the listing.
    skipped = _measure_prefix(start)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.path, None
                elif described := _describe(entry, entry.path[skipped:]):
                    yield entry.path, described
    except FileNotFoundError:
        # It is gone, or not there yet.
        return


def _measure_prefix(start: bytes) -> int:
    """Return how many bytes of each path below a folder are the folder."""
    return len(os.path.join(start, b""))


def _describe(entry: os.DirEntry[bytes], path: bytes) -> FileEntry | None:
    try:
        name, problem = path.decode(), None
    except UnicodeDecodeError:
        name, problem = path.decode(errors="backslashreplace"), _NOT_UTF8
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        problem = _LINK if stat.S_ISLNK(status.st_mode) else _SPECIAL
    if problem is not None and name == _METADATA:
        return None
    size = status.st_size if problem is None else 0
    return FileEntry(name, size, status.st_mtime_ns, problem)


def read_file(path: str, size: int | None) -> bytes:
    """Read a file's first bytes, None for all; raise `OSError` unless it is a regular file."""
    with open_file(path) as file:
        return file.read(-1 if size is None else size)


def open_file(path: str) -> BinaryIO:
    """Open a file for reading; raise `OSError` unless it is a regular file."""
    if os.path.islink(path):
        raise OSError(_LINK)
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(descriptor, "rb")  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(_SPECIAL)
    return file
