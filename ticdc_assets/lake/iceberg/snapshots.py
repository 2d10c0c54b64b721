"""The manifests of a snapshot: which files a table consists of, and what became of others.

A manifest whose files all remain is taken as it is, so a snapshot costs what changed.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)

from ticdc_assets.lake.iceberg.files import LakeFiles

# This many manifests become one.
_MANY_MANIFESTS = 100
_CODEC: Literal["deflate"] = "deflate"


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of files of deleted rows, which `pyiceberg` only reads."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(frozen=True)
class LiveFiles:
    """The files of a snapshot, by manifest."""

    manifests: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]] = ()

    @property
    def by_path(self) -> dict[str, DataFile]:
        entries = (entry for _, entries in self.manifests for entry in entries)
        return {entry.data_file.file_path: entry.data_file for entry in entries}


def read_live_files(files: LakeFiles, snapshot: Snapshot | None) -> LiveFiles:
    """Read which files a snapshot consists of."""
    if snapshot is None:
        return LiveFiles()
    found = [(each, each.fetch_manifest_entry(files)) for each in snapshot.manifests(files)]
    return LiveFiles([(manifest, entries) for manifest, entries in found if entries])


@dataclass(frozen=True)
class NextSnapshot:
    """What the next snapshot of a table changes: files that come, and paths of those that go."""

    added: Sequence[DataFile]
    removed: frozenset[str]
    schema: Schema
    # With what the snapshot states.
    stated: dict[str, str]

    @property
    def operation(self) -> Operation:
        if not self.removed:
            has_deletes = any(_is_delete(file) for file in self.added)
            return Operation.OVERWRITE if has_deletes else Operation.APPEND
        return Operation.OVERWRITE if self.added else Operation.DELETE


@dataclass(frozen=True)
class Place:
    """Where a snapshot comes in a table, and where its manifests are written."""

    folder: str
    id: int
    number: int
    parent: Snapshot | None
    timestamp_ms: int


def write_snapshot(files: LakeFiles, place: Place, live: LiveFiles, new: NextSnapshot) -> Snapshot:
    """Write the manifests of a snapshot."""
    writing = _Writing(files, place, new.schema)
    manifests: list[ManifestFile] = []
    for content in (ManifestContent.DATA, ManifestContent.DELETES):
        manifests += writing.write(content, live, new)
    list_uri = f"{place.folder}/snap-{place.id}-{writing.run}.avro"
    parent = None if place.parent is None else place.parent.snapshot_id
    with write_manifest_list(
        2, files.new_output(list_uri), place.id, parent, place.number, _CODEC
    ) as writer:
        writer.add_manifests(manifests)
    return Snapshot.model_validate(
        {
            "snapshot-id": place.id,
            "parent-snapshot-id": parent,
            "sequence-number": place.number,
            "timestamp-ms": place.timestamp_ms,
            "manifest-list": list_uri,
            "summary": _sum_up(place, live, new),
            "schema-id": new.schema.schema_id,
        }
    )


def _sum_up(place: Place, live: LiveFiles, new: NextSnapshot) -> Summary:
    counts = SnapshotSummaryCollector()
    for file in new.added:
        counts.add_file(file, new.schema)
    known = live.by_path
    for path in new.removed:
        counts.remove_file(known[path], new.schema)
    before = None if place.parent is None else place.parent.summary
    summary = Summary(new.operation, **counts.build(), **new.stated)
    return update_snapshot_summaries(summary, before)


class _Writing:
    def __init__(self, files: LakeFiles, place: Place, schema: Schema) -> None:
        self._files = files
        self._place = place
        self._schema = schema
        self._number = 0
        self.run = uuid.uuid4()

    def write(
        self, content: ManifestContent, live: LiveFiles, new: NextSnapshot
    ) -> Iterable[ManifestFile]:
        """Write the manifests of data files, or of files of deleted rows; yield all."""
        is_delete = content is ManifestContent.DELETES
        known = [each for each in live.manifests if each[0].content is content]
        is_merged = len(known) >= _MANY_MANIFESTS
        changed: list[ManifestEntry] = []
        for manifest, entries in known:
            if is_merged or any(entry.data_file.file_path in new.removed for entry in entries):
                changed += entries
            else:
                yield manifest
        if changed:
            yield self._write_manifest(
                content, [(entry, entry.data_file.file_path in new.removed) for entry in changed]
            )
        added = [file for file in new.added if _is_delete(file) == is_delete]
        if added:
            with self._open(content) as writer:
                for file in added:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self._place.id, data_file=file
                    )
                    writer.add(entry)
            yield writer.to_manifest_file()

    def _write_manifest(
        self, content: ManifestContent, entries: Sequence[tuple[ManifestEntry, bool]]
    ) -> ManifestFile:
        """Write entries of earlier manifests again, with whether each is removed."""
        with self._open(content) as writer:
            for entry, is_removed in entries:
                if is_removed:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

    def _open(self, content: ManifestContent) -> ManifestWriter:
        kind = _DeleteManifestWriter if content is ManifestContent.DELETES else ManifestWriterV2
        uri = f"{self._place.folder}/{self.run}-m{self._number}.avro"
        self._number += 1
        output = self._files.new_output(uri)
        return kind(UNPARTITIONED_PARTITION_SPEC, self._schema, output, self._place.id, _CODEC)


def _is_delete(file: DataFile) -> bool:
    return file.content.value != 0
