"""Take a table back to a Delta version of it, in one commit that this process writes.

Spark takes seconds to do so, and delta-rs knows few features.  The features stay that the table has
got since: a reader has to know them, and they are in nobody's way.
"""

from collections.abc import Iterator
from dataclasses import replace

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.delta_log import CLUSTERING, TableState, read_newest_state, read_state
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.log_actions import (
    add_file,
    describe_commit,
    describe_table,
    encode_action,
    identify,
    remove_file,
)
from ticdc_assets.store.once import write_once
from ticdc_assets.store.reader import LakeReader

_LAST_COLUMN = "delta.columnMapping.maxColumnId"


def restore(location: Lake, table: str, version: int, metadata: str | None = None) -> int:
    """Take a table back to a version of its files and columns, unless it is there.

    Return its newest version then.  The commit has the metadata.  Raise `ConcurrentCommit` if
    another run commits meanwhile.
    """
    reader = LakeReader(location)
    path = location.path(table)
    found = read_newest_state(reader, table)
    if found is None:
        raise ConfigError("there is no Delta log", file=path)
    newest, now = found
    if newest == version:
        return newest
    wanted = read_state(reader, table, version)
    actions = [describe_commit("RESTORE", metadata, {"version": str(version)})]
    actions += _describe(now, wanted)
    known = {identify(file): file for file in now.files}
    kept = {identify(file): file for file in wanted.files}
    actions += [remove_file(file) for id, file in known.items() if id not in kept]
    actions += [add_file(file) for id, file in kept.items() if id not in known]
    content = b"\n".join(actions) + b"\n"
    # Of another run that has taken the lock meanwhile, no commit may be replaced.
    check_lock(location)
    with reader.explained(path):
        write_once(location, f"{path}/_delta_log", f"{newest + 1:020}.json", content)
    return newest + 1


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
