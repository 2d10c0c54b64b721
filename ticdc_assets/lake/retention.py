"""What maintenance removes: the files that no version of the retained time needs.

A snapshot of that time keeps its versions of all current tables, and so does the newest one before
it: the moments between the two are computed from there.  The version that a load wrote remains for
ever, for no event has its rows, and so do those of a fold, until a newer one takes its place.  Of
other tables only the newest version counts, and the older ones remain for those who have opened
them.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property

import pyarrow.compute as pc

from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.folds import read_folds
from ticdc_assets.store.old_files import (
    OldFiles,
    RetainedTime,
    StoredFile,
    find_old_files,
    list_stored_files,
)
from ticdc_assets.store.reader import LakeNotFound, LakeReader


class Retention:
    """Finds what the tables of a lake do not need for some days back from now."""

    def __init__(self, reader: LakeReader, days: float, now: datetime | None = None) -> None:
        self._reader = reader
        self.time = RetainedTime.of(now or datetime.now(UTC), timedelta(days=days))

    def find(self, table: str, stored: list[StoredFile] | None = None) -> OldFiles:
        """Find it of a table, by its name in the lake; `stored` is what is in its folder."""
        stored = list_stored_files(self._reader, table) if stored is None else stored
        layer, _, incarnation = table.partition("/")
        if layer != "current":
            return find_old_files(self._reader, table, stored, self.time)
        return find_old_files(
            *(self._reader, table, stored, self.time),
            since=self._versions.get(incarnation),
            kept=self._kept.get(incarnation, ()),
        )

    @cached_property
    def _versions(self) -> dict[str, int]:
        """The versions of current tables in the newest snapshot before the retained time."""
        applied = self._reader.open("applied")
        is_older = pc.field("committed_at") <= self.time.began
        older = self._reader.read(applied, ["snapshot_id"], is_older)["snapshot_id"]
        return dict(read_snapshot(self._reader, pc.max(older).as_py() or 0).versions)

    @cached_property
    def _kept(self) -> Mapping[str, set[int]]:
        return read_kept_versions(self._reader)


def read_kept_versions(reader: LakeReader) -> Mapping[str, set[int]]:
    """Read the versions of current tables that remain for ever.

    Those are what loads wrote, and what everything begins with behind a fold, this one or one to
    come.
    """
    versions: dict[str, set[int]] = defaultdict(set)
    for snapshot_id in read_folds(reader).kept_snapshots:
        for incarnation, version in read_snapshot(reader, snapshot_id).versions.items():
            versions[incarnation].add(version)
    try:
        loads = reader.open("loads")
    except LakeNotFound:
        # An older release created the lake.
        return versions
    for row in reader.read(loads, ["incarnation", "version"]).to_pylist():
        versions[row["incarnation"]].add(row["version"])
    return versions
