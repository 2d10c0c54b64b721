"""Checkpoints of Delta logs that this process writes, for tables with any feature.

A checkpoint has all that a version consists of, so that the log before it can be removed.  What was
removed from a table is not in it: its files go with the log.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ticdc_assets.store.delta_log import list_columns
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.log_files import LOG_FOLDER, LogEnd, read_log_end
from ticdc_assets.store.reader import LakeReader, naming, open_folder, write_content

_TEXTS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_SCHEMA = pa.schema(
    {
        "txn": pa.struct(
            [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
        ),
        "add": pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", _TEXTS),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
                ("tags", _TEXTS),
                ("deletionVector", _VECTOR),
                ("baseRowId", pa.int64()),
                ("defaultRowCommitVersion", pa.int64()),
                ("clusteringProvider", pa.string()),
            ]
        ),
        "remove": pa.struct(
            [
                ("path", pa.string()),
                ("deletionTimestamp", pa.int64()),
                ("dataChange", pa.bool_()),
                ("deletionVector", _VECTOR),
            ]
        ),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("description", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                ("schemaString", pa.string()),
                ("partitionColumns", _NAMES),
                ("configuration", _TEXTS),
                ("createdTime", pa.int64()),
            ]
        ),
        "protocol": pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", _NAMES),
                ("writerFeatures", _NAMES),
            ]
        ),
        "domainMetadata": pa.struct(
            [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
        ),
    }
)
_Action = dict[str, Any]


# Parameters: a table, a version, and what takes the place of its files.
def write_checkpoint(
    reader: LakeReader,
    table: str,
    version: int,
    replace: Callable[[Iterable[_Action]], list[_Action]] = list,
    *,
    is_newest: bool = True,
) -> None:
    """Write the checkpoint of a version, in place of one that is there.

    `replace` gets its actions that add files, and returns those to be written.
    """
    folder, path = reader.open_folder(table), reader.location.path(table)
    with reader.explained(path):
        actions = [*_replay(_read_actions(folder, read_log_end(folder, version)), replace)]
        rows = {n: [each.get(n) for each in actions] for n in _SCHEMA.names}
        columns = [pa.array(rows[field.name], field.type) for field in _SCHEMA]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), sink, compression="zstd")
        log, name = f"{path}/{LOG_FOLDER}", f"{version:020}.checkpoint.parquet"
        put(reader.location, log, name, sink.getvalue().to_pybytes())
        if is_newest:
            about = {"version": version, "size": len(actions)}
            put(reader.location, log, "_last_checkpoint", json.dumps(about).encode())


def replace_commit(
    reader: LakeReader,
    table: str,
    version: int,
    replace: Callable[[Iterable[_Action]], list[_Action]],
) -> None:
    """Write a commit again with other files in place of those that it adds."""
    folder, path = reader.open_folder(table), reader.location.path(table)
    name = f"{version:020}.json"
    with reader.explained(path):
        with folder.open_input_file(f"{LOG_FOLDER}/{name}") as file:
            actions = list(_decode(file.read()))
        rest = [each for each in actions if "add" not in each]
        added = replace(each["add"] for each in actions if "add" in each)
        lines = [json.dumps(each) for each in (*rest, *({"add": each} for each in added))]
        put(reader.location, f"{path}/{LOG_FOLDER}", name, "\n".join(lines).encode() + b"\n")


def put(location: Lake, path: str, name: str, content: bytes) -> None:
    """Write a file of a folder as a whole, in place of one that is there."""
    folder = open_folder(path)
    if not location.is_on_disk:
        write_content(folder, name, content)
        return
    part = f".{name}.{secrets.token_hex(8)}.tmp"
    write_content(folder, part, content)
    os.replace(f"{path}/{part}", f"{path}/{name}")


def _read_actions(folder: fs.FileSystem, end: LogEnd) -> Iterator[_Action]:
    for name in end.checkpoint:
        with naming(name), folder.open_input_file(f"{LOG_FOLDER}/{name}") as file:
            parquet = open_parquet(file)
            chosen = list_columns(parquet.schema_arrow, _SCHEMA.names)
            for batch in parquet.iter_batches(columns=chosen, use_threads=False):
                yield from batch.to_pylist(maps_as_pydicts="strict")
    for name, content in end.commits:
        with naming(name):
            yield from _decode(content)


def _decode(content: bytes) -> Iterator[_Action]:
    return (json.loads(line) for line in content.splitlines() if line.strip())


def _replay(
    actions: Iterable[_Action], replace: Callable[[Iterable[_Action]], list[_Action]]
) -> Iterator[_Action]:
    """Yield what is left of the actions of a log, one of a kind in each."""
    files: dict[object, _Action] = {}
    single: dict[object, _Action] = {}
    for action in actions:
        for kind, value in action.items():
            if value is None:
                continue
            if kind == "remove":
                files.pop(_identify(value), None)
            elif kind == "add":
                # Of a state, nothing is new.
                files[_identify(value)] = {**value, "dataChange": False}
            elif kind in _NAMED:
                single[kind, value.get(_NAMED[kind])] = {kind: value}
    yield from (each for each in single.values() if not _is_gone(each))
    yield from ({"add": each} for each in replace(files.values()))


# What tells several of a kind apart; of the others, the last one counts.
_NAMED = {"txn": "appId", "domainMetadata": "domain", "metaData": "", "protocol": ""}


def _is_gone(action: Mapping[str, Any]) -> bool:
    domain = action.get("domainMetadata")
    return domain is not None and bool(domain.get("removed"))


def _identify(file: Mapping[str, Any]) -> object:
    vector = file.get("deletionVector") or {}
    names = ("storageType", "pathOrInlineDv", "offset")
    return unquote(file["path"]), tuple(vector.get(name) for name in names)
