"""The data versions of a changefeed's assets, and of what each was made from.

Dagster marks an asset as stale ("Upstream data") if an asset that it depends on has another data
version than the one that it was made from.  So a version changes when the content does:

    raw, events         never: they only grow, and what of them concerns a table changes that table
    quarantine          with every row that is added
    schema history      with every version of the table's schema
    current             when a window or a replay wrote rows or columns; not by compaction
    history, changes    that of the current table that they show

What is stale then waits for something: a history that could not be updated, or an asset of somebody
else that reads a table.
"""

from collections import defaultdict
from collections.abc import Mapping

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.catalog import LakeCatalog

GROWS = "grows"
# The version of an asset that nobody has materialized: Dagster does not compare it.
NONE = "INITIAL"
# What Dagster writes for the assets of a run, and has no public names for.  A table that is not
# selected, or has no definition yet, is materialized all the same; without these tags, Dagster
# would compare times of events.
_VERSION = "dagster/data_version"
_VERSION_IS_STATED = "dagster/data_version_is_user_provided"
_CODE_VERSION = "dagster/code_version"
_INPUT_VERSION = "dagster/input_data_version/"
_INPUT_EVENT = "dagster/input_event_pointer/"
_NO_EVENT = "NULL"
Tags = Mapping[str, str]


def layer_version(layer: str, after: LakeCatalog) -> str:
    """Return the data version of a layer that holds all tables."""
    match layer:
        case naming.RAW | naming.EVENTS:
            return GROWS
        case naming.CHECKPOINTS:
            return str(after.ts)
        case _:
            return snapshot_version(after.last)


def snapshot_version(snapshot: AppliedRow | None) -> str:
    """Return the version of what a snapshot changed: its ts, and its id.

    A replay changes rows at the same ts.
    """
    return NONE if snapshot is None else f"{snapshot.ts}/{snapshot.snapshot_id}"


def schema_versions(after: LakeCatalog) -> dict[str, str]:
    """Return the version of each table's schema history, by incarnation: the newest, of how many.

    A late DDL is not the newest one.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for step in after.steps:
        found[step.incarnation].append(step.valid_from)
    return {id: f"{max(steps)}/{len(steps)}" for id, steps in found.items()}


def make_tags(version: str, made_from: Mapping[dg.AssetKey, str], run_id: str) -> dict[str, str]:
    """Return the tags of a materialization with these versions."""
    tags = {
        _VERSION: version,
        _VERSION_IS_STATED: "true",
        # As for any asset without a version of its code.
        _CODE_VERSION: run_id,
    }
    for key, its in made_from.items():
        tags[_INPUT_VERSION + key.to_user_string()] = its
        tags[_INPUT_EVENT + key.to_user_string()] = _NO_EVENT
    return tags


def read_version(tags: Tags) -> str | None:
    """Return the data version of a materialization."""
    return tags.get(_VERSION)


def read_made_from(tags: Tags, key: dg.AssetKey) -> str | None:
    """Return the version of an asset that a materialization was made from."""
    return tags.get(_INPUT_VERSION + key.to_user_string())
