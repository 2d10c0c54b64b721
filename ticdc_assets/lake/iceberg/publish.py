"""Publish the tables of the last snapshot as Iceberg tables, one folder per name.

As at an address, a name has the rows of the table that has it now, in one commit after the
snapshot.  A table that Iceberg does not have has no Iceberg table either: who reads it gets an
error, and not the rows of an earlier time.
"""

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from pyarrow import fs

from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.iceberg.columns import CannotPublish
from ticdc_assets.lake.iceberg.files import LakeFiles
from ticdc_assets.lake.iceberg.published import (
    CATALOGS_FOLDER,
    FOLDER,
    Published,
    TableFault,
    write_published,
)
from ticdc_assets.lake.iceberg.shown_table import ShownTable
from ticdc_assets.lake.iceberg.table import KEPT_DAYS, MOST_METADATA_FILES, IcebergTable
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.named_tables import NamedTable, name_tables
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.reader import LakeReader, open_folder
from ticdc_assets.store.texts import replace_surrogates

_AT_ONCE = 8


def publish(
    lake: LakeSession,
    snapshots: tuple[Snapshot | None, Snapshot],
    known: Published,
    wanted: Published,
) -> list[TableFault]:
    """Publish what has changed since a snapshot was published; return what is not.

    `snapshots` are one before the last, if it was read, and the last.
    """
    files = LakeFiles(lake.location)
    before, last = snapshots
    tables = name_tables(last)
    there = _list_tables(files)
    selected = {
        address
        for address, (table, _) in tables.items()
        if match_table(wanted.patterns, table.schema.database, table.schema.table)
    }
    changed = selected | there
    if known.snapshot_id is not None and known.is_of(wanted):
        if before is None or before.snapshot_id != known.snapshot_id:
            before = read_snapshot(LakeReader(lake.location), known.snapshot_id)
        was = name_tables(before)
        differing = {name for name in changed if was.get(name) != tables.get(name)}
        changed = differing | (changed & known.unfinished)
    # If this run is killed, the next one compares all.
    write_published(lake.location, replace(wanted, snapshot_id=None, faults=known.faults))
    work = _Work(lake, files, last.ts, tables, selected)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Names that have rows come first: whoever looks meanwhile finds no table gone.
        found = list(pool.map(work.attempt, sorted(changed & selected)))
        found += pool.map(work.attempt, sorted(changed - selected))
    faults = [fault for fault in found if fault is not None]
    kept = [each for each in known.faults if each.address in selected - changed]
    write_published(lake.location, replace(wanted, faults=(*kept, *faults)))
    return faults


def remove_old(location: Lake) -> None:
    """Expire the snapshots that are too old, and remove files that none needs any more."""
    files = LakeFiles(location)
    before = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    for address in _list_tables(files):
        check_lock(location)
        # Of one that is damaged, publishing has said so.
        with suppress(ConfigError, OSError, ValueError):
            table = IcebergTable(location, address, files)
            table.expire()
            needed = table.list_needed()
            for entry in files.folder.get_file_info(fs.FileSelector(address, recursive=True)):
                is_old = entry.type is fs.FileType.File and entry.mtime < before
                if is_old and entry.path not in needed:
                    files.folder.delete_file(entry.path)
    _remove_old_of_catalogs(location, before)


def _remove_old_of_catalogs(location: Lake, before: datetime) -> None:
    """Remove the metadata that a catalog wrote before the files that its newest one names."""
    folder = open_folder(location.path(""))
    selected = fs.FileSelector(CATALOGS_FOLDER, recursive=True, allow_not_found=True)
    written: dict[str, list[fs.FileInfo]] = defaultdict(list)
    for entry in folder.get_file_info(selected):
        if entry.type is fs.FileType.File:
            written[entry.path.rpartition("/")[0]].append(entry)
    for entries in written.values():
        newest_first = sorted(entries, key=lambda entry: entry.mtime, reverse=True)
        # The newest, and as many as it lists from before.
        for entry in newest_first[MOST_METADATA_FILES + 1 :]:
            if entry.mtime < before:
                check_lock(location)
                folder.delete_file(entry.path)


def _list_tables(files: LakeFiles) -> set[str]:
    entries = files.folder.get_file_info(fs.FileSelector("", allow_not_found=True))
    return {entry.base_name for entry in entries if entry.type is fs.FileType.Directory}


class _Work:
    def __init__(
        self,
        lake: LakeSession,
        files: LakeFiles,
        ts: int,
        tables: Mapping[str, NamedTable],
        selected: set[str],
    ) -> None:
        self._lake = lake
        self._files = files
        self._ts = ts
        self._tables = tables
        self._selected = selected

    def attempt(self, address: str) -> TableFault | None:
        """Bring an Iceberg table to the snapshot; return why it is not there."""
        try:
            self._bring(address)
        except CannotPublish as error:
            return self._make_fault(address, f"it has no Iceberg table: {error}", is_lasting=True)
        except Exception as error:
            # Whatever it is, nothing else waits for it.
            is_foreseen = isinstance(error, ConfigError | OSError)
            kind = "" if is_foreseen else f"unexpected {type(error).__name__}: "
            reason = (
                f"{FOLDER}/{address} is not at the last snapshot, and the next run tries again;"
                f" if that does not help, delete this folder: {kind}{describe_error(error)}"
            )
            return self._make_fault(address, reason, is_lasting=False)
        return None

    def _make_fault(self, address: str, reason: str, *, is_lasting: bool) -> TableFault:
        found = self._tables.get(address)
        names = ("", "") if found is None else (found[0].schema.database, found[0].schema.table)
        database, table = replace_surrogates(names)
        return TableFault(address, database, table, reason, is_lasting)

    def _bring(self, address: str) -> None:
        found = self._tables.get(address)
        if found is not None and address not in self._selected:
            self._remove(address)
            return
        shown = ShownTable(self._lake.location, address, self._files)
        if found is None:
            shown.end(self._ts)
            return
        try:
            shown.show(self._lake.feed.id, found, self._ts)
        except CannotPublish:
            self._remove(address)
            raise

    def _remove(self, address: str) -> None:
        if address in _list_tables(self._files):
            self._files.folder.delete_dir(address)
