"""Maintenance: compact small files, vacuum files that no snapshot needs, expire old records.

A run restores every current table to its version in the last snapshot, so maintenance ends with a
snapshot of its own: the same ts, the new versions.  If it is killed before that, the next run
undoes what it did to current tables.

Vacuuming and expiry are opt-in.  A snapshot younger than the retention keeps all its versions
readable: a file remains if the table had it when the retention began, or has got it since.  Tables
of older snapshots are computed from their events (`views.asof`), and replays cannot start from one;
`rebuild` starts from nothing and remains possible.  What a killed load wrote is removed by then.

Only records of topics expire.  Files of a folder are recognized by their row in `raw`, and row
events tell a repetition from a change that arrives late.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.iceberg.published import publish_iceberg, remove_old_iceberg
from ticdc_assets.lake.log.applied import read_last_snapshot, write_snapshot
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.log.loads import read_loads
from ticdc_assets.lake.log.schema_history import write_tables
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.publish import publish, remove_old_copies
from ticdc_assets.plan.load import is_loaded
from ticdc_assets.store.address_log import COPIES
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.contracts import CONTRACTS, LATER_CONTRACTS, LAYOUT
from ticdc_assets.store.lake import LakeSession, find_folder
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.store.writer import LakeWriter, is_writable

# Below this Delta itself raises an error: VACUUM could remove files that a long run is writing.
MIN_RETAIN_DAYS = 7
# More days are a mistake, and above some millions no date of Python's or Spark's.
_MAX_DAYS = 36_500
# A table is compacted from this many files on, if they are smaller than this many bytes on average.
_MIN_FILES = 8
_SMALL_FILE = 16 << 20
# From this many bytes on, a table of the lake is clustered, so that reading one current table's
# events skips files.
_LARGE_TABLE = 1 << 30


@dataclass(frozen=True)
class MaintainResult:
    """Tables compacted, files of all tables before and after, and records expired."""

    compacted: int
    files_before: int
    files_after: int
    expired: int


def maintain(
    lake: LakeSession,
    applied: Snapshot,
    *,
    retain_days: int | None = None,
    expire_days: int | None = None,
    min_files: int = _MIN_FILES,
) -> MaintainResult:
    """Compact, vacuum and expire a lake at its last snapshot."""
    check_days(retain_days, expire_days)
    if retain_days is not None:
        # Snapshots that name files leave before these do.
        remove_old_iceberg(lake.location)
    maintenance = _Maintenance(lake, applied, retain_days, min_files)
    expired = 0 if expire_days is None else _expire(lake, applied, expire_days)
    writer = LakeWriter(lake.location)
    later = [name for name in LATER_CONTRACTS if writer.find(name) is not None]
    own = maintenance.maintain_own(["raw", *CONTRACTS, *later])
    files = own + maintenance.maintain_current() + maintenance.maintain_histories()
    publish(lake, before=applied)
    publish_iceberg(lake, read_last_snapshot(lake), applied)
    if retain_days is not None:
        _remove_killed_loads(maintenance.reader, retain_days)
        remove_old_copies(lake.location, _now() - timedelta(days=retain_days))
    return MaintainResult(
        compacted=sum(compacted for compacted, _, _ in files),
        files_before=sum(before for _, before, _ in files),
        files_after=sum(after for _, _, after in files),
        expired=expired,
    )


def check_days(retain_days: int | None, expire_days: int | None) -> None:
    """Raise a `ConfigError` for a number of days that maintenance does not take."""
    _require_days("--retain-days", retain_days, MIN_RETAIN_DAYS)
    # With fewer than 1, every record that has been applied would be old.
    _require_days("--expire-days", expire_days, 1)


def _require_days(setting: str, days: int | None, least: int) -> None:
    if days is not None and not least <= days <= _MAX_DAYS:
        bound = f"at least {least}" if days < least else f"at most {_MAX_DAYS}"
        raise ConfigError(f"must be {bound}, not {days}", setting=setting)


# Whether a table was compacted, and its number of files before and after.
_Files = tuple[bool, int, int]


class _Maintenance:
    def __init__(
        self, lake: LakeSession, applied: Snapshot, days: int | None, min_files: int
    ) -> None:
        self._lake = lake
        self._applied = applied
        self._days = days
        self._min_files = min_files
        self.reader = LakeReader(lake.location)
        self._writer = LakeWriter(lake.location)
        self._kept = {} if days is None else self._find_kept(days)

    def maintain_own(self, names: Sequence[str]) -> list[_Files]:
        """Maintain the lake's own tables; only their newest versions are read."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(self._maintain_own, names))

    def _maintain_own(self, name: str) -> _Files:
        opened = self.reader.open(name)
        is_clustered = "clustering" in (opened.protocol().writer_features or ())
        is_large = self.reader.measure(opened).size >= _LARGE_TABLE
        if name in LAYOUT and is_large and not is_clustered:
            # From now on Spark alone writes the table: it costs less than reading files in vain.
            columns = ", ".join(map(quote_identifier, LAYOUT[name]))
            self._lake.spark.sql(f"ALTER TABLE {self._lake.sql(name)} CLUSTER BY ({columns})")
        return self._maintain(name)

    def maintain_current(self) -> list[_Files]:
        """Maintain the current tables, then write a snapshot with their new versions."""
        versions = self._applied.versions

        def maintain_table(incarnation: str) -> tuple[str, int, _Files]:
            table = CurrentTable(self._lake, incarnation)
            version, ts = versions[incarnation], write_ts(self._applied.ts)
            name = f"current/{incarnation}"
            restore(self._lake.location, name, table.version, version, ts)
            # Compaction clusters a large table.
            known = self._applied.state.incarnations[incarnation]
            table.adapt_to_size(known.schema, known.layout)
            if self._days is not None:
                table.keep_removed_files(self._days)
            files = self._maintain(f"current/{incarnation}", self._kept.get(incarnation))
            return incarnation, table.version, files

        with ThreadPoolExecutor() as pool:
            tables = list(pool.map(maintain_table, versions))
        new_versions = {id: version for id, version, _ in tables if version != versions[id]}
        if new_versions:
            self._write_snapshot(new_versions)
        return [files for _, _, files in tables]

    def maintain_histories(self) -> list[_Files]:
        """Maintain histories and changes; only their newest versions are read."""

        def maintain_tables(incarnation: str) -> list[_Files]:
            files = []
            for kind in (HistoryTable, ChangesTable):
                table = kind(self._lake, incarnation)
                if table.version is not None:
                    table.undo_strays()
                    files.append(self._maintain(table.name))
            return files

        with ThreadPoolExecutor() as pool:
            found = pool.map(maintain_tables, self._applied.versions)
        return [files for each in found for files in each]

    def _write_snapshot(self, new_versions: dict[str, int]) -> None:
        before = self._applied
        row = self._lake.read("applied").where(f"snapshot_id = {before.snapshot_id}")
        watermarks = dict(row.select("watermarks").collect()[0][0] or {})
        write_tables(self._lake, before, before.state, new_versions)
        write_snapshot(
            self._lake,
            before,
            before.state,
            batch=before.batch,
            decoded_batch=before.decoded_batch,
            versions=new_versions,
            watermarks=watermarks,
            counts=(),
        )

    def _maintain(self, name: str, kept: int | None = None) -> _Files:
        """Compact a table if its files are small; vacuum it on request.

        The files of the Delta version `kept` remain.
        """
        opened = self.reader.open(name)
        before, size = self.reader.measure(opened)
        is_fragmented = before >= self._min_files and size < before * _SMALL_FILE
        if is_fragmented:
            if is_writable(opened) and self.reader.is_small(opened):
                self._writer.compact(opened)
            else:
                self._lake.spark.sql(f"OPTIMIZE {self._lake.sql(name)}").collect()
            opened = self.reader.open(name)
        after = self.reader.measure(opened).number if is_fragmented else before
        if self._days is not None:
            self._vacuum(name, opened, self._days * 24, kept)
        return is_fragmented, before, after

    def _vacuum(self, name: str, opened: DeltaTable, hours: int, kept: int | None) -> None:
        if is_writable(opened):
            self._writer.vacuum(opened, hours, kept)
        else:
            sql = f"VACUUM {self._lake.sql(name)} RETAIN {hours} HOURS"
            self._lake.spark.sql(sql).collect()

    def _find_kept(self, days: int) -> Mapping[str, int]:
        """Return the Delta versions of current tables at the time when the retention begins."""
        began = _now() - timedelta(days=days)
        applied, is_older = self.reader.open("applied"), pc.field("committed_at") <= began
        older = self.reader.read(applied, ["snapshot_id"], is_older)["snapshot_id"]
        return read_snapshot(self.reader, pc.max(older).as_py() or 0).versions


def _now() -> datetime:
    return datetime.now(UTC)


def _remove_killed_loads(reader: LakeReader, days: int) -> None:
    """Remove the tables of loads that never took effect: nothing names them.

    A load that is running has written to its table in the last days.
    """
    folder = reader.open_folder("current")
    with reader.explained(reader.location.path("current")):
        # In lakes of before there were addresses, all are side by side.
        names = _list_folders(folder, "")
        lives = [*names, *(life for name in names for life in _list_folders(folder, name))]
        loads = {find_folder(f"current/{load.incarnation}") for load in read_loads(reader)}
        for life in lives:
            if f"current/{life}" in loads or not is_loaded(life) or f"/{COPIES}" in life:
                continue
            files = folder.get_file_info(fs.FileSelector(life, recursive=True))
            written = [file.mtime for file in files if file.type is fs.FileType.File]
            if all(time < _now() - timedelta(days=days) for time in written):
                folder.delete_dir(life)


def _list_folders(folder: fs.FileSystem, name: str) -> list[str]:
    """List the folders in a folder by their paths."""
    entries = folder.get_file_info(fs.FileSelector(name, allow_not_found=True))
    return [entry.path for entry in entries if entry.type is fs.FileType.Directory]


def _expire(lake: LakeSession, applied: Snapshot, days: int) -> int:
    """Delete old records that have been applied; keep those where reading and numbering resume."""
    raw = lake.read("raw")
    if "offset" not in raw.columns:
        reason = "only records of topics expire: `raw` identifies the files of a folder"
        raise ConfigError(reason, setting="--expire-days")
    # Ingest resumes after the newest record of each partition, and numbers on from the last record.
    ends = raw.groupBy("topic", "partition").agg(F.max_by("seq", "offset").alias("seq"))
    kept = {row["seq"] for row in ends.collect()} | {raw.agg(F.max("seq")).collect()[0][0]}
    kept_seqs = ", ".join(str(seq) for seq in sorted(seq for seq in kept if seq is not None)) or "0"
    done = min(applied.batch, applied.decoded_batch)
    old = (
        f"batch <= {done} AND offset IS NOT NULL AND seq NOT IN ({kept_seqs})"
        f" AND timestamp < current_timestamp() - INTERVAL {days} DAYS"
    )
    expired = raw.where(old).count()
    if expired:
        lake.spark.sql(f"DELETE FROM {lake.sql('raw')} WHERE {old}").collect()
    return expired
