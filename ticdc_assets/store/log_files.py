"""Which files of a Delta table's log make up a version: a checkpoint, and the commits behind it.

A log has thousands of files if a lake runs for weeks.  `_last_checkpoint` names the newest
checkpoint and the commits behind it follow by number, so a read of the end needs no list of them.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import msgspec
from pyarrow import fs

from ticdc_assets.events.written import find_decoder
from ticdc_assets.store.reader import naming

LOG_FOLDER = "_delta_log"
_HINT = "_last_checkpoint"
_NEWEST = 1 << 63
_COMMIT = re.compile(r"([0-9]{20})\.json")
# In one file, or in numbered parts.
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.[0-9]{10}\.([0-9]{10}))?\.parquet")


class NotInLog(FileNotFoundError):
    """A log does not have a version."""


class RemovedFromLog(NotInLog):
    """Nor does it have what the version follows, but what follows it."""


class LogEnd(NamedTuple):
    """What a version is replayed from; of no log, version -1."""

    version: int
    # Names of files.
    checkpoint: tuple[str, ...]
    # What is in the commits behind it, by their names.
    commits: tuple[tuple[str, bytes], ...]


class _Hint(msgspec.Struct, rename="camel"):
    version: int
    # Of checkpoints in several files.
    parts: int | None = None
    v2_checkpoint: msgspec.Raw | None = None


def read_log_end(folder: fs.FileSystem, version: int | None = None) -> LogEnd:
    """Read what a version of a table consists of, by default the newest; raise `NotInLog`."""
    found = _read_by_hint(folder, version)
    return _read_by_list(folder, version) if found is None else found


def list_log(folder: fs.FileSystem) -> list[str]:
    """List the names of the files in a log."""
    selected = fs.FileSelector(LOG_FOLDER, allow_not_found=True)
    return [info.base_name for info in folder.get_file_info(selected)]


def list_commits(names: Iterable[str]) -> dict[int, str]:
    """List the commits among the files of a log, by version."""
    return {int(match[1]): match[0] for match in map(_COMMIT.fullmatch, names) if match}


def list_checkpoints(names: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """List the complete checkpoints among the files of a log, by version."""
    found: dict[tuple[int, int], list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, names)):
        found.setdefault((int(match[1]), int(match[2] or 1)), []).append(match[0])
    # Of two at a version, the one in more parts.
    whole = sorted(key for key, files in found.items() if len(files) == key[1])
    return {key[0]: tuple(sorted(found[key])) for key in whole}


def _read_by_hint(folder: fs.FileSystem, version: int | None) -> LogEnd | None:
    """Read the end that the hint leads to; None where only a list shows whether it is the end."""
    content = _read(folder, _HINT)
    with suppress(msgspec.MsgspecError):
        hint: _Hint = find_decoder(_Hint).decode(content or b"")
        is_plain = hint.parts is None and hint.v2_checkpoint is None
        if is_plain and 0 <= hint.version <= (_NEWEST if version is None else version):
            commits = tuple(_read_commits(folder, hint.version + 1, version))
            last = hint.version + len(commits)
            # Without a commit behind it, the hint may be old.
            if last == version or (version is None and commits):
                checkpoint = f"{hint.version:020}.checkpoint.parquet"
                if folder.get_file_info(f"{LOG_FOLDER}/{checkpoint}").type is fs.FileType.File:
                    return LogEnd(last, (checkpoint,), commits)
    return None


def _read_commits(
    folder: fs.FileSystem, first: int, last: int | None
) -> Iterator[tuple[str, bytes]]:
    """Read the commits from a version on that are there, without a gap."""
    for version in count(first) if last is None else range(first, last + 1):
        name = f"{version:020}.json"
        content = _read(folder, name)
        if content is None:
            return
        yield name, content


def _read_by_list(folder: fs.FileSystem, version: int | None) -> LogEnd:
    names = list_log(folder)
    checkpoints, commits = list_checkpoints(names), list_commits(names)
    newest = max([*checkpoints, *commits], default=-1)
    wanted = newest if version is None else version
    since = max((each for each in checkpoints if each <= wanted), default=-1)
    behind = tuple(_read_commits(folder, since + 1, wanted))
    if since + len(behind) < wanted or (version is not None and newest < 0):
        is_removed = any(each > wanted for each in checkpoints)
        raise (RemovedFromLog if is_removed else NotInLog)(
            f"version {wanted} is not in the Delta log"
        )
    return LogEnd(wanted, checkpoints.get(since, ()), behind)


def _read(folder: fs.FileSystem, name: str) -> bytes | None:
    """Read a file of a log; None if it is not there."""
    with naming(name):
        try:
            with folder.open_input_file(f"{LOG_FOLDER}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
