"""Publish the tables of the last snapshot at their addresses: one folder per name.

Whatever happens to a name (TRUNCATE, DROP and CREATE, RENAME, a swap, a load), its address has the
rows of the table that has the name now.  A table is published in one commit, after the snapshot,
so nobody sees half a window or what a killed run wrote.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec
from pyarrow import fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.layout import TableLayout, find_layout
from ticdc_assets.events import TableSchema
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.named_tables import (
    NamedTable,
    describe_address,
    describe_named,
    find_true_ts,
    name_tables,
)
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.rows.columns import choose_delta_names, list_stored_columns
from ticdc_assets.store.address_log import (
    COPIES,
    AddressCommit,
    AddressLog,
    write_commit,
)
from ticdc_assets.store.delta_log import read_state
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.not_null import state_not_null
from ticdc_assets.store.reader import LakeReader, create_folder
from ticdc_assets.store.texts import replace_surrogates

_FOLDER = "current"
_DONE_FILE = "published.json"
_RESOLVED_TS = "ticdc.resolved_ts"
_AT_ONCE = 8


class _Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """The snapshot whose tables are all published; None while others are being published.

    `not_null`: the declared layouts that decide on NOT NULL then, if there are some.
    """

    snapshot_id: int | None
    not_null: list[tuple[tuple[str, ...], bool]] = []


def publish(lake: LakeSession, last: Snapshot | None = None, before: Snapshot | None = None) -> int:
    """Publish what has changed since the snapshot that was published last; return how many tables.

    `last` and `before`, the last snapshot and one before it, save reading them again.
    """
    last = read_last_snapshot(lake) if last is None else last
    location = lake.location
    folder = create_folder(location.path(_FOLDER))
    declared = _list_not_null(lake.feed.layouts)
    known = _read_done(folder)
    done = known.snapshot_id if known is not None and known.not_null == declared else None
    if done == last.snapshot_id:
        return 0
    wanted = name_tables(last)
    if done is None or done > last.snapshot_id:
        # A lake of before there were addresses, one that was restored, or another declaration.
        addresses = {*wanted, *_list_addresses(folder)}
    else:
        if before is None or before.snapshot_id != done:
            before = read_snapshot(LakeReader(location), done)
        addresses = _find_changed(name_tables(before), wanted)
    prepare = partial(_prepare, lake, last.ts, wanted)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        commits = [each for each in pool.map(prepare, sorted(addresses)) if each is not None]
        if commits:
            check_lock(location)
            # If this run is killed, the next one compares all.
            write_json_file(folder, _DONE_FILE, _Done(None))
        # Names that have rows come first: whoever looks meanwhile finds no table gone.
        for is_end in (False, True):
            chosen = [commit for commit in commits if commit.is_end == is_end]
            list(pool.map(partial(write_commit, location), chosen))
    write_json_file(folder, _DONE_FILE, _Done(last.snapshot_id, declared))
    return len(commits)


def remove_old_copies(location: Lake, before: datetime) -> None:
    """Remove the copies of files that no address has shown for a week."""
    reader = LakeReader(location)
    folder = reader.open_folder(_FOLDER)
    with reader.explained(location.path(_FOLDER)):
        for address in _list_addresses(folder):
            entries = folder.get_file_info(fs.FileSelector(address, recursive=True))
            inside = {entry.path.removeprefix(f"{address}/"): entry for entry in entries}
            copies = [path for path in inside if path.startswith(COPIES)]
            if not copies:
                continue
            named = AddressLog(location, f"{_FOLDER}/{address}").list_named_files()
            for path in copies:
                is_file = inside[path].type is fs.FileType.File
                if is_file and path not in named and inside[path].mtime < before:
                    # Another run may show the file again; there are few of them.
                    check_lock(location)
                    folder.delete_file(inside[path].path)


def _read_done(folder: fs.FileSystem) -> _Done | None:
    if folder.get_file_info(_DONE_FILE).type is not fs.FileType.File:
        return None
    return read_json_file(folder, _DONE_FILE, _Done)


def _list_not_null(layouts: Iterable[TableLayout]) -> list[tuple[tuple[str, ...], bool]]:
    return [(each.tables, each.not_null) for each in layouts if each.not_null is not None]


def _list_addresses(folder: fs.FileSystem) -> list[str]:
    """List the addresses that exist."""
    entries = folder.get_file_info(fs.FileSelector("", allow_not_found=True))
    # Folders of older current tables have no dot.
    names = [entry.base_name for entry in entries if "." in entry.base_name]
    logs = folder.get_file_info([f"{name}/_delta_log" for name in names])
    return [n for n, log in zip(names, logs, strict=True) if log.type is fs.FileType.Directory]


def _find_changed(known: Mapping[str, NamedTable], wanted: Mapping[str, NamedTable]) -> set[str]:
    return {name for name in {**known, **wanted} if known.get(name) != wanted.get(name)}


def _prepare(
    lake: LakeSession, ts: int, tables: Mapping[str, NamedTable], address: str
) -> AddressCommit | None:
    """Prepare the commit that shows at an address what its name has at a ts; None if it does."""
    log = AddressLog(lake.location, f"{_FOLDER}/{address}")
    found = tables.get(address)
    if found is None:
        ended = {"ticdc.status": "dropped", _RESOLVED_TS: str(ts)}
        is_ended = log.properties.get("ticdc.status") == "dropped"
        return None if is_ended else log.prepare_end(ended)
    table, version = found
    stated = describe_named(lake.feed.id, found)
    not_null = _choose_not_null(lake.feed, table.schema)
    if not_null is not None:
        stated["ticdc.not_null"] = replace_surrogates(json.dumps(not_null, ensure_ascii=False))
    description = describe_address(table.schema, lake.feed.id)
    own = {key for key in log.properties if key.startswith("ticdc.")} - {_RESOLVED_TS}
    is_same = stated == {key: log.properties[key] for key in own}
    if is_same and log.description == description:
        return None
    stated[_RESOLVED_TS] = str(find_true_ts(table, ts))
    state = read_state(LakeReader(lake.location), f"{_FOLDER}/{table.id}", version)
    state = replace(state, description=description)
    if not_null is not None:
        state = state_not_null(state, not_null)
    return log.prepare(f"{_FOLDER}/{table.id}", state, stated)


def _choose_not_null(feed: Changefeed, schema: TableSchema) -> list[str] | None:
    """Return Delta's names of the columns NOT NULL upstream; None to keep all nullable."""
    if not find_layout(feed.layouts, schema.database, schema.table).not_null:
        return None
    names = choose_delta_names(schema)
    return [names[column.name] for column in list_stored_columns(schema) if not column.nullable]
