"""The actions of a Delta commit that this process writes itself.

They only name files, with deletion vectors and whatever else a table has: delta-rs writes no such
commit.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ticdc_assets.store.deletion_vector import find_vector_file
from ticdc_assets.store.delta_log import DataFile, TableState

# The type of storage of a deletion vector that is in a file of its table.
_IN_A_FILE = "u"
# Likewise, in a file that is named by its whole path.
_BY_PATH = "p"

encode_action = msgspec.json.Encoder().encode


def list_paths(file: DataFile) -> Iterator[str]:
    """List the files of a table's folder that a data file consists of."""
    yield file.path
    if file.deleted is not None and file.deleted.storage_type == _IN_A_FILE:
        yield find_vector_file(file.deleted)


def is_elsewhere(file: DataFile) -> bool:
    """Whether the log names a file, or its deletion vector, by a whole path or URI."""
    is_whole = file.path.startswith("/") or "://" in file.path
    return is_whole or (file.deleted is not None and file.deleted.storage_type == _BY_PATH)


def add_file(file: DataFile) -> bytes:
    """Write the action that adds a file."""
    vector = {} if file.deleted is None else {"deletionVector": file.deleted}
    stats = {} if file.statistics is None else {"stats": file.statistics}
    place = {"path": quote(file.path, safe="/:"), "partitionValues": {}, "size": file.size}
    times = {"modificationTime": _now(), "dataChange": True}
    return encode_action({"add": {**place, **times, **stats, **vector}})


def remove_file(file: DataFile) -> bytes:
    """Write the action that removes a file."""
    vector = {} if file.deleted is None else {"deletionVector": file.deleted}
    times = {"deletionTimestamp": _now(), "dataChange": True}
    return encode_action({"remove": {"path": quote(file.path, safe="/:"), **times, **vector}})


def describe_commit(
    operation: str, metadata: str | None, parameters: Mapping[str, str] | None = None
) -> bytes:
    """Write what a commit says of itself."""
    about: dict[str, Any] = {"timestamp": _now(), "operation": operation}
    about["operationParameters"] = dict(parameters or {})
    stated = {} if metadata is None else {"userMetadata": metadata}
    return encode_action({"commitInfo": {**about, **stated}})


def describe_table(state: TableState) -> bytes:
    """Write the columns and properties of a table; a new one gets an id."""
    named = {"name": state.name, "description": state.description}
    about = {
        "id": state.id or str(uuid.uuid4()),
        **{key: text for key, text in named.items() if text is not None},
        "format": {"provider": "parquet", "options": {}},
        "schemaString": state.schema,
        "partitionColumns": [],
        "configuration": state.properties,
        "createdTime": _now(),
    }
    return encode_action({"metaData": about})


def _now() -> int:
    return time.time_ns() // 1_000_000
