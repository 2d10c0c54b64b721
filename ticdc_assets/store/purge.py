"""Remove everything of a table that its newest version does not have: files, and the log before.

Statistics in a log have values, too.  The version that a load wrote is written again in its place:
no event has its rows, and replays of the table begin there.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ticdc_assets.store.address_log import COPIES
from ticdc_assets.store.checkpoints import replace_commit, write_checkpoint
from ticdc_assets.store.delta_log import (
    VersionGone,
    read_named_files,
    read_newest_state,
    read_state,
)
from ticdc_assets.store.file_rewrites import FileRewrite
from ticdc_assets.store.log_actions import list_paths
from ticdc_assets.store.old_files import (
    OldFiles,
    RetainedTime,
    StoredFile,
    find_old_files,
    list_stored_files,
)
from ticdc_assets.store.reader import LakeReader

# What no commit names may be of one to come; by then, it is not.
_LONGEST_COMMIT = timedelta(days=1)


def purge(
    rewrite: FileRewrite,
    check: Callable[[], None],
    kept: Collection[int] = (),
    *,
    is_locked: bool = True,
) -> OldFiles | None:
    """Leave the newest version of a table alone, and those of loads, which are `kept`.

    Unless the lock is for the table, too, others may have written files that nothing names yet.
    None if there is no table.
    """
    reader, table = rewrite.reader, rewrite.table
    found = read_newest_state(reader, table)
    if found is None:
        return None
    newest = found[0]
    kept = [version for version in kept if version != newest]
    # First: from now on, nobody computes the newest version from one that is written again.
    write_checkpoint(reader, table, newest)
    for version in kept:
        _rewrite_version(rewrite, version)
    stored = list_stored_files(reader, table)
    named = None if is_locked else _list_named(reader, table)
    old = find_old_files(reader, table, stored, RetainedTime.none(), kept=kept, commits=0)
    old = _spare_new(old, named)
    old.remove(reader, check)
    return old


def _list_named(reader: LakeReader, table: str) -> set[str]:
    return {path for file in read_named_files(reader, table) for path in list_paths(file)}


def _spare_new(old: OldFiles, named: Collection[str] | None) -> OldFiles:
    """Spare files that no commit has named, and one to come may."""
    if named is None:
        return old
    before = datetime.now(UTC) - _LONGEST_COMMIT
    return replace(old, data=tuple(f for f in old.data if f.path in named or f.written < before))


def _rewrite_version(rewrite: FileRewrite, version: int) -> None:
    """Write a version again in its place, so that whoever names it goes on."""
    reader, table = rewrite.reader, rewrite.table
    try:
        files = read_state(reader, table, version).files
    except VersionGone:
        return
    if list(files) == rewrite.rewrite(files):
        return
    # The files are there; readers take the checkpoint from now on, and then the commit is as new.
    write_checkpoint(reader, table, version, rewrite.replace_actions, is_newest=False)
    replace_commit(reader, table, version, rewrite.replace_actions)


def remove_old_data(
    reader: LakeReader, table: str, check: Callable[[], None], *, is_locked: bool = True
) -> OldFiles | None:
    """Remove the data files that the newest version of a table does not have; its log stays.

    Unless the lock is for the table, too, others may have written files that nothing names yet.
    """
    found = read_newest_state(reader, table)
    if found is None:
        return None
    stored = list_stored_files(reader, table)
    old = find_old_files(reader, table, stored, RetainedTime.none())
    old = _spare_new(replace(old, log=()), None if is_locked else _list_named(reader, table))
    old.remove(reader, check)
    return old


def purge_address(reader: LakeReader, address: str, check: Callable[[], None]) -> OldFiles | None:
    """Remove the log of an address before its newest version, and the copies of files of before.

    The tables below it are purged by themselves.
    """
    found = read_newest_state(reader, address)
    if found is None:
        return None
    newest, state = found
    write_checkpoint(reader, address, newest)
    stored = list_stored_files(reader, address)
    shown = {path for file in state.files for path in list_paths(file)}
    copies = tuple(file for file in stored if _is_copy(file) and file.path not in shown)
    old = find_old_files(reader, address, stored, RetainedTime.none(), commits=0)
    old = replace(old, data=copies)
    old.remove(reader, check)
    return old


def _is_copy(file: StoredFile) -> bool:
    return file.path.startswith(COPIES)
