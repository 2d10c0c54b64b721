"""What a catalog has to be sent so that it states of an Iceberg table what its folder states.

A catalog keeps its own metadata, and changes it as the updates of a commit say.  One commit has all
that differs: columns, snapshots, which snapshot is the current one, properties.  So a reader sees
the table before or after it, and never without a snapshot, and however many snapshots the catalog
missed.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.types import NestedField

_OWN = "ticdc."


# What a table without partitions has, once it has columns and before it has rows.
_UNPARTITIONED: tuple[TableUpdate, ...] = (
    AddPartitionSpecUpdate(spec=UNPARTITIONED_PARTITION_SPEC),
    SetDefaultSpecUpdate.model_validate({"spec-id": -1}),
    AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),
    SetDefaultSortOrderUpdate.model_validate({"sort-order-id": -1}),
)


def list_first_updates(
    staged: TableMetadata, wanted: TableMetadata, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """List what makes a table of one that a catalog has begun to create, with its id for it."""
    version = {"format-version": wanted.format_version}
    return (
        AssignUUIDUpdate(uuid=staged.table_uuid),
        UpgradeFormatVersionUpdate.model_validate(version),
        *list_updates(None, wanted, properties),
    )


def list_updates(
    known: TableMetadata | None, wanted: TableMetadata, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """List what makes the metadata of a catalog state what is wanted; None: it has no table."""
    ids, added = _number_schemas(() if known is None else known.schemas, wanted.schemas)
    updates: list[TableUpdate] = [AddSchemaUpdate(schema=schema) for schema in added]
    current = ids[wanted.current_schema_id]
    if known is None or known.current_schema_id != current:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": current}))
    if known is None:
        updates += _UNPARTITIONED
    if known is None or known.location != wanted.location:
        updates.append(SetLocationUpdate(location=wanted.location))
    updates += (AddSnapshotUpdate(snapshot=each) for each in _list_new(known, wanted, ids))
    newest = wanted.current_snapshot_id
    if newest is not None and (known is None or known.current_snapshot_id != newest):
        main = {"ref-name": "main", "type": "branch", "snapshot-id": newest}
        updates.append(SetSnapshotRefUpdate.model_validate(main))
    # Some catalogs take one at a time only.
    before = set() if known is None else {each.snapshot_id for each in known.snapshots}
    gone = before - {each.snapshot_id for each in wanted.snapshots}
    updates += (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [id]}) for id in sorted(gone))
    return (*updates, *_change_properties({} if known is None else known.properties, properties))


def _number_schemas(
    known: Sequence[Schema], wanted: Sequence[Schema]
) -> tuple[dict[int, int], list[Schema]]:
    """Return which numbers the schemas have in a catalog, and those that it lacks.

    A catalog numbers a new one itself, one above its highest.
    """
    there, added, ids = [*known], [], {}
    for schema in sorted(wanted, key=lambda each: each.schema_id):
        same = (each.schema_id for each in there if list(each.fields) == list(schema.fields))
        id = next(same, None)
        if id is None:
            id = max((each.schema_id for each in there), default=-1) + 1
            new = Schema(*schema.fields, schema_id=id)
            there.append(new)
            added.append(new)
        ids[schema.schema_id] = id
    return ids, added


def _list_new(
    known: TableMetadata | None, wanted: TableMetadata, ids: Mapping[int, int]
) -> Iterator[Snapshot]:
    """List the snapshots that a catalog lacks, as it numbers schemas, in their order."""
    there = set() if known is None else {each.snapshot_id for each in known.snapshots}
    last = 0
    if known is not None and not isinstance(known, TableMetadataV1):
        last = known.last_sequence_number
    for each in sorted(wanted.snapshots, key=lambda each: each.sequence_number or 0):
        if each.snapshot_id in there:
            continue
        number = each.sequence_number or 0
        # A catalog takes one without a parent whatever it has: snapshots of a table that was made
        # anew, or that somebody else committed.
        has_parent = each.parent_snapshot_id in there and number > last
        parent = each.parent_snapshot_id if has_parent else None
        schema_id = None if each.schema_id is None else ids[each.schema_id]
        yield each.model_copy(update={"parent_snapshot_id": parent, "schema_id": schema_id})
        there.add(each.snapshot_id)
        last = number


def _change_properties(
    known: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[TableUpdate]:
    changed = {key: text for key, text in wanted.items() if known.get(key) != text}
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    # What other people added stays.
    if gone := [key for key in known if key.startswith(_OWN) and key not in wanted]:
        yield RemovePropertiesUpdate(removals=gone)


def states(found: TableMetadata, wanted: TableMetadata) -> bool:
    """Whether metadata states the same rows and columns, now and at each snapshot."""
    return _describe(found) == _describe(wanted)


def _describe(metadata: TableMetadata) -> object:
    fields: dict[int | None, list[NestedField]] = {
        schema.schema_id: list(schema.fields) for schema in metadata.schemas
    }
    snapshots = {
        each.snapshot_id: (each.manifest_list, fields.get(each.schema_id))
        for each in metadata.snapshots
    }
    return metadata.current_snapshot_id, fields[metadata.current_schema_id], snapshots
