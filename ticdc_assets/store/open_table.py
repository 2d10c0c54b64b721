"""Opens Delta tables with delta-rs, which reads the whole end of a log each time.

A run opens the tables of the lake again and again, mostly unchanged.  So a table on a disk that
nobody uses any more is handed out again, together with the commits that came meanwhile.
"""

import os
import sys
from collections import OrderedDict
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ticdc_assets.store.uris import choose_storage_options, format_uri

# Enough for the own tables of a lake, and for some current tables.
_MOST_KEPT = 32
# From `_Kept` and from the call that counts them.
_REFERENCES_OF_OURS = 2


class _Commit(NamedTuple):
    """The file of a commit: another one has its name once a table takes another one's place."""

    device: int
    inode: int
    written_ns: int
    size: int


class _Kept(NamedTuple):
    table: DeltaTable
    newest: _Commit


_kept: "OrderedDict[str, _Kept]" = OrderedDict()


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """Open the table at a path or URI, and raise the errors of delta-rs.

    What is opened belongs to the caller: nobody else gets it before the last reference is gone.
    """
    if version is not None or "://" in path:
        return _open(path, version)
    table = _reopen(path) or _open(path)
    newest = _find_commit(path, table.version())
    if newest is not None:
        _kept[path] = _Kept(table, newest)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return table


def _reopen(path: str) -> DeltaTable | None:
    """Return the table that was opened last, at its newest version, if it is in nobody's hands."""
    kept = _kept.pop(path, None)
    if kept is None or sys.getrefcount(kept.table) > _REFERENCES_OF_OURS:
        return None
    version = kept.table.version()
    if _find_commit(path, version) != kept.newest:
        return None
    if _find_commit(path, version + 1) is not None:
        try:
            kept.table.update_incremental()
        except DeltaError:
            return None
    return kept.table


def _find_commit(path: str, version: int) -> _Commit | None:
    try:
        found = os.stat(os.path.join(path, "_delta_log", f"{version:020}.json"))
    except OSError:
        return None
    return _Commit(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _open(path: str, version: int | None = None) -> DeltaTable:
    return DeltaTable(format_uri(path), version, storage_options=choose_storage_options(path))
