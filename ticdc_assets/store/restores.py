"""Take a table back to a Delta version of it, or change only its log, in a commit of this process.

Spark takes seconds to do so, and delta-rs knows few features.  The features stay that the table has
got since: a reader has to know them, and they are in nobody's way.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.delta_log import (
    CLUSTERING,
    DataFile,
    TableState,
    identify,
    read_newest_state,
    read_state,
)
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.log_actions import (
    add_file,
    describe_commit,
    describe_table,
    encode_action,
    list_paths,
    remove_file,
)
from ticdc_assets.store.once import IS_AT_WORK, write_once
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import ConcurrentCommit

_LAST_COLUMN = "delta.columnMapping.maxColumnId"


# Parameters: a table of a lake, where it is, and where it is to be.
def restore(
    location: Lake, table: str, opened: int, version: int, metadata: str | None = None
) -> int:
    """Take a table whose newest version is `opened` back to a version of its files and columns.

    Return its newest version then.  The commit has the metadata.  Raise `ConcurrentCommit` if
    another run has committed since the table was opened, and a `ConfigError` if files are gone.
    """
    if opened == version:
        return opened
    reader = LakeReader(location)
    now = _read_opened(reader, table, opened)
    wanted = read_state(reader, table, version)
    actions = [describe_commit("RESTORE", metadata, {"version": str(version)})]
    actions += _describe(now, wanted)
    known = {identify(file): file for file in now.files}
    kept = {identify(file): file for file in wanted.files}
    actions += [remove_file(file) for id, file in known.items() if id not in kept]
    added = [file for id, file in kept.items() if id not in known]
    _require_files(reader, table, added)
    actions += map(add_file, added)
    return _commit(reader, table, opened, actions)


def state_version(location: Lake, table: str, version: int, metadata: str) -> int:
    """Let a commit that changes nothing have metadata for the versions after one, if there are any.

    Return the newest version then.
    """
    reader = LakeReader(location)
    newest, _ = _read_newest(reader, table)
    if newest == version:
        return newest
    stated = describe_commit("WRITE", metadata, {"mode": "Append"})
    return _commit(reader, table, newest, [stated])


def order_columns(location: Lake, table: str, opened: int, names: Sequence[str]) -> None:
    """Put the columns of a table whose newest version is `opened` into the order of their names.

    The commit states nothing.  delta-rs takes schemas for equal whose columns have another order.
    """
    reader = LakeReader(location)
    now = _read_opened(reader, table, opened)
    schema = msgspec.json.decode(now.schema)
    fields = {field["name"]: field for field in schema["fields"]}
    schema["fields"] = [fields[name] for name in names]
    ordered = replace(now, schema=msgspec.json.encode(schema).decode())
    actions = [describe_commit("CHANGE COLUMN", None), describe_table(ordered)]
    _commit(reader, table, opened, actions)


def _read_opened(reader: LakeReader, table: str, opened: int) -> TableState:
    """Read the newest state of a table, which another run has not changed since it was opened."""
    newest, now = _read_newest(reader, table)
    if newest != opened:
        path = reader.location.path(table)
        raise ConcurrentCommit(IS_AT_WORK, file=path, setting="--lake")
    return now


def _read_newest(reader: LakeReader, table: str) -> tuple[int, TableState]:
    found = read_newest_state(reader, table)
    if found is None:
        raise ConfigError("there is no Delta log", file=reader.location.path(table))
    return found


def _commit(reader: LakeReader, table: str, newest: int, actions: Iterable[bytes]) -> int:
    """Commit actions after the newest version; return theirs."""
    path = reader.location.path(table)
    content = b"\n".join(actions) + b"\n"
    # Of another run that has taken the lock meanwhile, no commit may be replaced.
    check_lock(reader.location)
    with reader.explained(path):
        write_once(reader.location, f"{path}/_delta_log", f"{newest + 1:020}.json", content)
    return newest + 1


def _require_files(reader: LakeReader, table: str, files: Iterable[DataFile]) -> None:
    """Raise a `ConfigError` unless files are there: VACUUM removes those of old versions."""
    paths = [path for file in files for path in list_paths(file)]
    path = reader.location.path(table)
    with reader.explained(path):
        found = reader.open_folder(table).get_file_info(paths)
    gone = next((info.path for info in found if info.type is not fs.FileType.File), None)
    if gone is not None:
        raise ConfigError(f"{gone} is gone: load the table again", file=path, setting="--lake")


def _describe(now: TableState, wanted: TableState) -> Iterator[bytes]:
    """Describe columns, properties and clustering where they change."""
    properties = dict(wanted.properties)
    last = now.properties.get(_LAST_COLUMN)
    if last is not None and _LAST_COLUMN in properties:
        # A column that is added later never gets the number of one that was there.
        properties[_LAST_COLUMN] = max(last, properties[_LAST_COLUMN], key=int)
    described = replace(now, schema=wanted.schema, properties=properties)
    described = replace(described, name=wanted.name, description=wanted.description)
    if described != now:
        yield describe_table(described)
    if now.clustering != wanted.clustering:
        is_removed = wanted.clustering is None
        domain = {"domain": CLUSTERING, "removed": is_removed}
        configuration = now.clustering if is_removed else wanted.clustering
        yield encode_action({"domainMetadata": {**domain, "configuration": configuration}})
