"""Whether the rules and the key of `[changefeed.privacy]` are those that the lake was written with.

The events of a table are decoded by one set of rules, so a run begins only if every table has the
columns that the rules of now make.  `privacy.json` has what a key makes of a fixed text: it shows
that a key is another one, and not what the key is.
"""

import hmac
from collections.abc import Collection

import msgspec
from pyarrow import fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.log.loads import read_loads
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.schema.catalog import TableKey, key_of
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader, create_folder
from ticdc_assets.stream.privacy import OTHER_RULES, protect_schema, restore_schema

_FILE = "privacy.json"
_TEXT = b"ticdc-assets key"
_BYTES = 8
_SETTING = "changefeed.privacy.table"
_CHANGED = (
    "the entries make other columns of {} now than those by which its rows were stored ({}): decode"
    " its events again (ticdc-assets rebuild {} --from-raw), load it again, or restore the entries"
)
_FOLDED = (
    "the entries make other columns than those by which rows below the fold were stored ({}), and"
    " their events are gone: load {} again, or restore the entries"
)


class _KeyCheck(msgspec.Struct, frozen=True):
    key: str


def require_key(feed: Changefeed, location: Lake) -> None:
    """Raise `ConfigError` without the key that rules need, or with another one than before."""
    privacy = feed.privacy
    if privacy is None or not privacy.needs_key:
        return
    check = hmac.digest(privacy.read_key(), _TEXT, "sha256")[:_BYTES].hex()
    folder = create_folder(location.path(""))
    is_there = folder.get_file_info(_FILE).type is fs.FileType.File
    known = read_json_file(folder, _FILE, _KeyCheck) if is_there else None
    if known is None:
        write_json_file(folder, _FILE, _KeyCheck(check))
    elif known.key != check:
        reason = (
            f"the key in {privacy.key_env} is not the one that this lake was written with, so equal"
            " values would have different hashes: restore that key, or begin a lake in another"
            " folder"
        )
        raise ConfigError(reason, setting="changefeed.privacy.key-env")


def require_same_rules(
    feed: Changefeed, location: Lake, applied: Snapshot, replayed: Collection[str] = ()
) -> None:
    """Raise `ConfigError` if the rules of now are not those that tables were stored by.

    A table that waits for the rows of a load begins anew.  `replayed` are tables that are to go on
    from the events that the lake has.
    """
    known = applied.state.incarnations
    found: dict[TableKey, tuple[TableSchema, list[str]]] = {}
    for id, table in known.items():
        if table.status == "dropped":
            continue
        changed = _list_changed(feed, table.schema)
        # Its DDL led to other rules: it stays paused, and all other tables go on.
        is_led = (table.reason or "").startswith(OTHER_RULES)
        if id in replayed if is_led else changed:
            found[key_of(table.schema)] = table.schema, changed
    if not found:
        return
    waiting = {key_of(each.schema) for each in read_loads(LakeReader(location), known)}
    for key, (schema, changed) in found.items():
        if key not in waiting:
            name = f"{schema.database}.{schema.table}"
            columns = ", ".join(column[:80] for column in changed) or "all columns"
            raise ConfigError(_CHANGED.format(name, columns, name), setting=_SETTING)


def require_same_rules_below(feed: Changefeed, fold: Snapshot, tables: Collection[str]) -> None:
    """Raise `ConfigError` if the rules of now are not those of rows from below a fold.

    No event has these rows any more, so they cannot be decoded by other rules.
    """
    for id, table in fold.state.incarnations.items():
        if id in tables and (changed := _list_changed(feed, table.schema)):
            name = f"{table.schema.database}.{table.schema.table}"
            columns = ", ".join(column[:80] for column in changed)
            raise ConfigError(_FOLDED.format(columns, name), setting=_SETTING)


def _list_changed(feed: Changefeed, schema: TableSchema) -> list[str]:
    """List the columns of a table of the lake that the rules of now make otherwise."""
    now = protect_schema(feed.privacy, restore_schema(schema)).columns
    return [
        column.name for column, other in zip(schema.columns, now, strict=True) if column != other
    ]
