"""One Iceberg table in a folder, as Hadoop's catalog and readers of a path find it.

    metadata/v7.metadata.json    the table after its 7th commit
    metadata/version-hint.text   7
    metadata/….avro              which files its snapshots consist of
    deletes/….parquet            deleted rows of data files

A commit is a new file, written last: whoever opens the table once sees all of it or nothing.
"""

import re
import time
import uuid
from collections.abc import Mapping, Sequence

from pyarrow import fs
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from ticdc_assets.lake.iceberg.columns import Columns, write_name_mapping
from ticdc_assets.lake.iceberg.files import LakeFiles
from ticdc_assets.lake.iceberg.published import FOLDER, make_uri
from ticdc_assets.lake.iceberg.snapshots import (
    LiveFiles,
    NextSnapshot,
    Place,
    read_live_files,
    write_snapshot,
)
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.once import write_once
from ticdc_assets.store.reader import write_content

KEPT_DAYS = 7
_KEPT_MS = KEPT_DAYS * 24 * 3600 * 1000
# However many windows a day has: each commit writes all snapshots again.
_MOST_SNAPSHOTS = 1_000
MOST_METADATA_FILES = 100
_HINT = "version-hint.text"
_METADATA = re.compile(r"v([0-9]+)\.metadata\.json")
_OWN_PROPERTIES = {
    # Who expires snapshots or drops the table must not remove the files of Delta tables.
    "gc.enabled": "false",
    "history.expire.max-snapshot-age-ms": str(_KEPT_MS),
    "write.metadata.previous-versions-max": str(MOST_METADATA_FILES),
}


class IcebergTable:
    """An Iceberg table as it is now; there is none in a new folder."""

    def __init__(self, location: Lake, address: str, files: LakeFiles) -> None:
        self._lake = location
        self._files = files
        self._folder = f"{address}/metadata"
        self.home = make_uri(location.path(f"{FOLDER}/{address}"))
        hinted = self._read_hint()
        self._version = self._find_version(hinted)
        self._is_hinted = (hinted or 0) == self._version
        self._base: TableMetadataV2 | None = None
        if self._version:
            found = files.new_input(self._name_metadata(self._version))
            base = _require_v2(FromInputFile.table_metadata(found))
            # A lake that was moved begins anew: its files have other names.
            self._base = base if base.location == self.home else None

    def _read_hint(self) -> int | None:
        """Read which version is the newest; None if nothing says so."""
        folder, path = self._files.folder, f"{self._folder}/{_HINT}"
        if folder.get_file_info(path).type is not fs.FileType.File:
            return None
        with folder.open_input_file(path) as file:
            return int(file.read())

    def _find_version(self, hinted: int | None) -> int:
        """Find the newest version: a killed run may have written one that is not hinted at."""
        if hinted is None:
            selected = fs.FileSelector(self._folder, allow_not_found=True)
            names = (each.base_name for each in self._files.folder.get_file_info(selected))
            return max((int(n[1]) for name in names if (n := _METADATA.fullmatch(name))), default=0)
        version = hinted
        while self._files.new_input(self._name_metadata(version + 1)).exists():
            version += 1
        return version

    def _name_metadata(self, version: int) -> str:
        return f"{self.home}/metadata/v{version}.metadata.json"

    @property
    def exists(self) -> bool:
        return self._base is not None

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self._base is None else self._base.properties

    @property
    def schemas(self) -> Sequence[Schema]:
        """The columns of all snapshots, the current ones last."""
        if self._base is None:
            return ()
        current = self._base.current_schema_id
        return sorted(self._base.schemas, key=lambda schema: schema.schema_id == current)

    @property
    def last_column_id(self) -> int:
        return 0 if self._base is None else self._base.last_column_id

    @property
    def metadata(self) -> TableMetadataV2:
        """All that is stated of the table; raise an `OSError` if there is none."""
        if self._base is None:
            raise OSError(f"{self.home} has no table")
        return self._base

    def read_files(self) -> LiveFiles:
        """Read which files the table consists of."""
        return read_live_files(self._files, self._current)

    @property
    def _current(self) -> Snapshot | None:
        return None if self._base is None else self._base.current_snapshot()

    def _list_kept(self) -> list[Snapshot]:
        """List the snapshots that are not too old, or too many; the current one always."""
        if self._base is None:
            return []
        least = _now() - _KEPT_MS
        newest = sorted(self._base.snapshots, key=lambda each: each.sequence_number or 0)
        young = [each for each in newest[-_MOST_SNAPSHOTS:] if each.timestamp_ms >= least]
        current = self._current
        return young if current is None or current in young else [current, *young]

    def replace_rows(
        self,
        columns: Columns,
        live: LiveFiles,
        wanted: Sequence[DataFile],
        properties: Mapping[str, str],
    ) -> None:
        """Commit a snapshot that consists of some files; `live` are those that were read."""
        base = self._base or _make_table(self.home, columns.schema)
        kept = [] if columns.is_break else self._list_kept()
        parent = self._current if kept else None
        live = live if parent is not None else LiveFiles()
        known = live.by_path
        paths = {file.file_path for file in wanted}
        schema = columns.schema
        stated = {key: text for key, text in properties.items() if key.startswith("ticdc.")}
        added = [file for file in wanted if file.file_path not in known]
        new = NextSnapshot(added, frozenset(known.keys() - paths), schema, stated)
        place = Place(
            folder=f"{self.home}/metadata",
            id=base.new_snapshot_id(),
            number=base.last_sequence_number + 1,
            parent=parent,
            timestamp_ms=max(_now(), base.last_updated_ms),
        )
        self._files.folder.create_dir(self._folder)
        snapshot = write_snapshot(self._files, place, live, new)
        updates = _remove_others(base, kept)
        if schema.schema_id not in {each.schema_id for each in base.schemas}:
            updates.append(AddSchemaUpdate(schema=schema))
        updates += [
            SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id}),
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
            ),
        ]
        self._commit(base, updates, properties)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Commit properties, and no snapshot."""
        assert self._base is not None
        self._commit(self._base, _remove_others(self._base, self._list_kept()), properties)

    def expire(self) -> None:
        """Remove the snapshots that are too old, if there are any."""
        base, kept = self._base, self._list_kept()
        if base is not None and len(kept) < len(base.snapshots):
            self._commit(base, _remove_others(base, kept), {})

    def finish_commit(self) -> None:
        """Let readers find what a run committed that was killed right after."""
        if not self._is_hinted:
            self._write_hint(self._version)

    def _commit(
        self, base: TableMetadataV2, updates: list[TableUpdate], properties: Mapping[str, str]
    ) -> None:
        used_by = update_table_metadata(base, tuple(updates))
        used = {each.schema_id for each in used_by.snapshots} | {used_by.current_schema_id}
        schemas = [each for each in used_by.schemas if each.schema_id in used]
        unused = [each.schema_id for each in used_by.schemas if each.schema_id not in used]
        mapping = {"schema.name-mapping.default": write_name_mapping(schemas)}
        updates.append(SetPropertiesUpdate(updates={**_OWN_PROPERTIES, **properties, **mapping}))
        if unused:
            updates.append(RemoveSchemasUpdate.model_validate({"schema-ids": unused}))
        before = self._name_metadata(self._version) if self._version else None
        done = update_table_metadata(base, tuple(updates), metadata_location=before)
        version = self._version + 1
        content = done.model_dump_json(exclude_none=True).encode()
        path = self._lake.path(f"{FOLDER}/{self._folder}")
        self._files.folder.create_dir(self._folder)
        write_once(self._lake, path, f"v{version}.metadata.json", content)
        self._version, self._base = version, _require_v2(done)
        self._write_hint(version)

    def _write_hint(self, version: int) -> None:
        folder, path = self._files.folder, f"{self._folder}/{_HINT}"
        if not self._lake.is_on_disk:
            write_content(folder, path, str(version).encode())
            return
        # A reader finds one or the other.
        write_content(folder, f"{path}.tmp", str(version).encode())
        folder.move(f"{path}.tmp", path)

    def list_needed(self) -> set[str]:
        """List the files that the table needs, by their paths below the folder of all tables."""
        base = self.metadata
        needed = {self._name_metadata(self._version), f"{self.home}/metadata/{_HINT}"}
        for snapshot in base.snapshots:
            needed.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self._files):
                needed.add(manifest.manifest_path)
                if manifest.content.value:
                    entries = manifest.fetch_manifest_entry(self._files)
                    needed |= {entry.data_file.file_path for entry in entries}
        return {self._files.find(uri) for uri in needed}


def _make_table(home: str, schema: Schema) -> TableMetadataV2:
    spec, order = UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
    return TableMetadataV2.model_validate(
        {
            "location": home,
            "schemas": [schema],
            "last-column-id": schema.highest_field_id,
            "current-schema-id": schema.schema_id,
            "partition-specs": [spec],
            "default-spec-id": spec.spec_id,
            "last-partition-id": spec.last_assigned_field_id,
            "sort-orders": [order],
            "default-sort-order-id": order.order_id,
            "table-uuid": uuid.uuid4(),
        }
    )


def _require_v2(metadata: TableMetadata) -> TableMetadataV2:
    if not isinstance(metadata, TableMetadataV2):
        raise OSError(f"{metadata.location} has another version of Iceberg's format than 2")
    return metadata


def _remove_others(base: TableMetadata, kept: Sequence[Snapshot]) -> list[TableUpdate]:
    ids = {snapshot.snapshot_id for snapshot in kept}
    gone = [each.snapshot_id for each in base.snapshots if each.snapshot_id not in ids]
    return [RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone})] if gone else []


def _now() -> int:
    return time.time_ns() // 1_000_000
