"""How far a history or table of changes has got, as its commits state it: read without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ticdc_assets.store.commits import Commit, decode_metadata, list_commits
from ticdc_assets.store.reader import LakeReader

# One update makes a few commits at most, and maintenance a few more.
COMMITS_TO_SEARCH = 50
_KEEP_ROWS = {"OPTIMIZE", "VACUUM START", "VACUUM END"}


@dataclass(frozen=True)
class UpdateMark:
    """How far a table has got: the snapshot and ts, and the state of its table that it shows."""

    snapshot_id: int
    ts: int
    # The Delta version of the current table.
    version: int
    # Of a history, whose versions a DROP ends.
    dropped_ts: int | None


class MarkedVersion(NamedTuple):
    """The newest complete Delta version of a table of versions, and its mark."""

    version: int
    mark: UpdateMark
    # Whether an update has begun since.
    has_strays: bool


def find_marked_version(reader: LakeReader, name: str) -> MarkedVersion | None:
    """Find the newest complete version of a history or table of changes; None without one."""
    stored = reader.find(name)
    if stored is None:
        return None
    with reader.explained(reader.location.path(name)):
        return find_mark(list_commits(stored, COMMITS_TO_SEARCH), name.partition("/")[0])


def find_mark(commits: Sequence[Commit], stage: str) -> MarkedVersion | None:
    """Find the newest mark of a stage in the newest commits of a table, newest first."""
    has_strays = False
    for commit in commits:
        metadata = decode_metadata(commit.metadata)
        if metadata.get("stage") == stage:
            version = commit.version if has_strays else commits[0].version
            return MarkedVersion(version, _read_mark(metadata), has_strays)
        has_strays = has_strays or commit.operation not in _KEEP_ROWS
    return None


def find_shown_version(reader: LakeReader, name: str) -> int | None:
    """Return the Delta version of the current table that a history or changes show.

    None if there are none, or the newest update did not end.
    """
    found = find_marked_version(reader, name)
    return None if found is None or found.has_strays else found.mark.version


def _read_mark(metadata: Mapping[str, Any]) -> UpdateMark:
    """Read the mark in the metadata of a commit."""
    return UpdateMark(*(metadata[n] for n in ("snapshot_id", "ts", "version", "dropped_ts")))
