"""Columns that are NOT NULL upstream, as the schema of a Delta table states them.

A Delta column may be non-nullable only while no row has NULL there, and some rows have: a zero date
is NULL, and so is what the stream lacks.  The statistics of the data files tell.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from ticdc_assets.store.delta_log import DataFile, Protocol, TableState
from ticdc_assets.store.stored_rows import PHYSICAL_NAME

# In the metadata of a column that is NOT NULL upstream, and nullable here.
NOT_NULL_UPSTREAM = "ticdc.not_null"
_INVARIANTS = "invariants"


class _Statistics(msgspec.Struct, rename="camel"):
    null_count: Mapping[str, Any] = {}


_decode = msgspec.json.Decoder(_Statistics).decode


def state_not_null(state: TableState, columns: Collection[str]) -> TableState:
    """Return a state in whose schema some columns are non-nullable, if no row has NULL there.

    Each of the others says so in its metadata.
    """
    counts = [_count_nulls(file) for file in state.files]
    schema = json.loads(state.schema)
    for field in schema["fields"]:
        if field["name"] in columns:
            stored = field["metadata"].get(PHYSICAL_NAME, field["name"])
            field["nullable"] = any(count.get(stored) != 0 for count in counts)
            if field["nullable"]:
                field["metadata"][NOT_NULL_UPSTREAM] = True
    text = json.dumps(schema, separators=(",", ":"))
    return replace(state, schema=text, protocol=_add_invariants(state.protocol))


def _add_invariants(protocol: Protocol) -> Protocol:
    """Name the feature of non-nullable columns: Spark opens no such table without it.

    It concerns writers only.  Protocols that name no features imply it.
    """
    features = protocol.writer_features
    if features is None or _INVARIANTS in features:
        return protocol
    return structs.replace(protocol, writer_features=[*features, _INVARIANTS])


def _count_nulls(file: DataFile) -> Mapping[str, Any]:
    """Return how many NULLs columns have in a file, deleted rows included, where that is known."""
    if file.statistics is None:
        return {}
    return _decode(file.statistics).null_count
