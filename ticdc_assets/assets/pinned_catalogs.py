"""The catalogs that a code location was loaded from, pinned for the runs that load it again.

A run is planned with the assets that the code location had; since then tables may have been created
or dropped.  So a run loads its definitions from the catalogs at the same Delta versions.
"""

import json
from collections.abc import Mapping
from typing import Any

import dagster as dg

# Dagster has no public way to tell that a run loads the definitions again: the context it offers to
# `StateBackedComponent` is internal, and that component keeps its state in files of its own.
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)

# Delta versions by table of the lake.
Versions = Mapping[str, int]
_METADATA_KEY = "ticdc/catalogs"


def pin_catalogs(read_at: Mapping[str, Versions]) -> dict[str, Any]:
    """Return the metadata of definitions that were loaded at these versions, by changefeed."""
    text = json.dumps({feed: dict(versions) for feed, versions in read_at.items()})
    return {_METADATA_KEY: dg.MetadataValue.code_location_reconstruction(text)}


def read_pinned_catalogs() -> dict[str, Versions] | None:
    """Return the versions to load a run's definitions at; None to load the newest."""
    context = DefinitionsLoadContext.get()
    if context.load_type != DefinitionsLoadType.RECONSTRUCTION:
        return None
    text = context.reconstruction_metadata.get(_METADATA_KEY)
    pinned: dict[str, Versions] | None = None if text is None else json.loads(text)
    return pinned
