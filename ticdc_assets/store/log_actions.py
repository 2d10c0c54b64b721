"""The actions of a Delta commit that this process writes itself.

They only name files, with deletion vectors and whatever else a table has: delta-rs writes no such
commit.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ticdc_assets.store.delta_log import DataFile, TableState

encode_action = msgspec.json.Encoder().encode


def identify(file: DataFile) -> tuple[str, object]:
    """Return what tells a file of a version of a table from the others."""
    return file.path, file.deleted and file.deleted.id


def add_file(file: DataFile) -> bytes:
    """Write the action that adds a file."""
    vector = {} if file.deleted is None else {"deletionVector": file.deleted}
    stats = {} if file.statistics is None else {"stats": file.statistics}
    place = {"path": quote(file.path), "partitionValues": {}, "size": file.size}
    times = {"modificationTime": _now(), "dataChange": True}
    return encode_action({"add": {**place, **times, **stats, **vector}})


def remove_file(file: DataFile) -> bytes:
    """Write the action that removes a file."""
    vector = {} if file.deleted is None else {"deletionVector": file.deleted}
    times = {"deletionTimestamp": _now(), "dataChange": True}
    return encode_action({"remove": {"path": quote(file.path), **times, **vector}})


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
