"""Maintenance: compact small files, remove old ones that no snapshot needs, expire old records.

A run restores every current table to its version in the last snapshot, so maintenance ends with a
snapshot of its own: the same ts, the new versions.  If it is killed before that, the next run
undoes what it did to current tables.

What it removes by default breaks no promise (`lake.retention`): tables of snapshots before the
retained time are computed from their events (`views.asof`), and replays from there start with the
first event, or the load.  What a killed load wrote is removed by then.

Records of topics expire only on request: `rebuild --from-raw` decodes them again.  Files of a
folder are recognized by their row in `raw`, and row events tell a repetition from a change that
arrives late; those are folded on request, too (`lake.fold`).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.fold import FoldResult, fold_events
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.iceberg.published import (
    publish_iceberg,
    read_published,
    remove_old_iceberg,
)
from ticdc_assets.lake.kept_days import MIN_RETAIN_DAYS, RETAIN_DAYS, VERIFICATION_DAYS
from ticdc_assets.lake.new_versions import write_new_versions
from ticdc_assets.lake.publish import publish, remove_old_copies
from ticdc_assets.lake.raw.erased_records import erase_repeated_records, holds_records
from ticdc_assets.lake.retention import Retention
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.erasures import read_erasures
from ticdc_assets.log.loads import read_loads
from ticdc_assets.log.named_tables import find_true_ts, name_tables
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.verifications import Results
from ticdc_assets.plan.load import is_loaded
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.address_log import COPIES
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.contracts import CONTRACTS, LATER_CONTRACTS, LAYOUT
from ticdc_assets.store.lake import LakeSession, find_folder
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.old_files import OldFiles
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.store.writer import LakeWriter, is_writable

# More days are a mistake, and above some millions no date of Python's or Spark's.
_MAX_DAYS = 36_500
# A table is compacted from this many files on, if they are smaller than this many bytes on average.
_MIN_FILES = 8
_SMALL_FILE = 16 << 20
# From this many bytes on, a table of the lake is clustered, so that reading one current table's
# events skips files.
_LARGE_TABLE = 1 << 30
# Of what could not be maintained; errors of Spark have a hundred lines.
_MOST_SHOWN, _MOST_CHARACTERS = 10, 500
_OF_SPARK = (PySparkException, Py4JJavaError)
_FAULTS = (ConfigError, DeltaError, OSError, *_OF_SPARK)
_T = TypeVar("_T")


@dataclass(frozen=True)
class MaintainResult:
    """Tables compacted, files of all tables before and after; what was removed and expired."""

    compacted: int
    files_before: int
    files_after: int
    removed_files: int
    removed_bytes: int
    expired: int
    fold: FoldResult
    # What could not be maintained, and why.
    faults: tuple[str, ...] = ()

    def require_whole(self) -> None:
        """Raise a `ConfigError` that names what could not be maintained, if there is something."""
        if self.faults:
            shown = "; ".join(self.faults[:_MOST_SHOWN])
            rest = len(self.faults) - _MOST_SHOWN
            more = f"; and {rest:,} more" if rest > 0 else ""
            raise ConfigError(f"all was maintained but for {shown}{more}")


# Parameters: the lake and its last snapshot; how long what remains, and tests set the last one.
def maintain(
    lake: LakeSession,
    applied: Snapshot,
    *,
    retain_days: float = RETAIN_DAYS,
    expire_days: int | None = None,
    min_files: int = _MIN_FILES,
    keep_events_days: float | None = None,
) -> MaintainResult:
    """Compact a lake at its last snapshot, and remove and expire what is old.

    Files go last: nothing that is shown, or that a run continues from, names one of them by then.
    """
    # A run that was killed may have left addresses behind.
    publish(lake, applied)
    publish_iceberg(lake, applied)
    remove_old_iceberg(lake.location)
    reader = LakeReader(lake.location)
    if read_erasures(reader) and holds_records(reader):
        # A run that was killed may have left what it took in again.
        erase_repeated_records(lake.location)
    if keep_events_days is None:
        keep_events_days = lake.feed.keep_events_days
    fold = fold_events(lake, applied, keep_events_days, retain_days, _now())
    maintenance = _Maintenance(lake, applied, retain_days, min_files)
    expired = 0 if expire_days is None else _expire(lake, applied, expire_days)
    Results(lake.location).remove_old(_now() - timedelta(days=VERIFICATION_DAYS))
    later = [name for name in LATER_CONTRACTS if reader.find(name) is not None]
    done = maintenance.maintain_own(["raw", *CONTRACTS, *later])
    done += maintenance.maintain_current()
    done += maintenance.maintain_histories()
    last = read_last_snapshot(lake)
    publish(lake, last, applied)
    publish_iceberg(lake, last, applied)
    removed = maintenance.remove_old([each.name for each in done], last)
    maintenance.attempt("loads", partial(_remove_killed_loads, maintenance.reader, retain_days))
    old = _now() - timedelta(days=retain_days)
    maintenance.attempt("addresses", partial(remove_old_copies, lake.location, old))
    return MaintainResult(
        compacted=sum(each.is_compacted for each in done),
        files_before=sum(each.files_before for each in done),
        files_after=sum(each.files_after for each in done),
        removed_files=sum(old.number for old in removed),
        removed_bytes=sum(old.size for old in removed),
        expired=expired,
        fold=fold,
        faults=tuple(sorted(maintenance.faults)),
    )


def check_days(retain_days: int, expire_days: int | None) -> None:
    """Raise a `ConfigError` for a number of days that maintenance does not take."""
    _require_days("--retain-days", retain_days, MIN_RETAIN_DAYS)
    # With fewer than 1, every record that has been applied would be old.
    _require_days("--expire-days", expire_days, 1)


def _require_days(setting: str, days: int | None, least: int) -> None:
    if days is not None and not least <= days <= _MAX_DAYS:
        bound = f"at least {least}" if days < least else f"at most {_MAX_DAYS}"
        raise ConfigError(f"must be {bound}, not {days}", setting=setting)


class _Maintained(NamedTuple):
    """What was done to a table."""

    name: str
    is_compacted: bool
    files_before: int
    files_after: int


class _Maintenance:
    def __init__(self, lake: LakeSession, applied: Snapshot, days: float, min_files: int) -> None:
        self._lake = lake
        self._applied = applied
        self._min_files = min_files
        self.reader = LakeReader(lake.location)
        self._writer = LakeWriter(lake.location)
        self._retention = Retention(self.reader, days, _now())
        self.faults: list[str] = []

    def attempt(self, name: str, do: Callable[[], _T]) -> _T | None:
        """Do something for a table; if that fails, note why, and let others go on."""
        try:
            return do()
        except _FAULTS as error:
            # Without the lock, or without Spark, nothing goes on.
            check_lock(self._lake.location)
            if isinstance(error, _OF_SPARK):
                self._lake.spark.range(1).count()
            self.faults.append(f"{name}: {describe_error(error)[:_MOST_CHARACTERS]}")
            return None

    def _attempt_all(self, names: Iterable[str], do: Callable[[str], _T]) -> list[_T]:
        """Do something for tables; leave those out where it fails."""
        with ThreadPoolExecutor() as pool:
            found = pool.map(lambda name: self.attempt(name, partial(do, name)), names)
            return [each for each in found if each is not None]

    def maintain_own(self, names: Sequence[str]) -> list[_Maintained]:
        """Maintain the lake's own tables; only their newest versions are read."""
        return self._attempt_all(names, self._maintain_own)

    def _maintain_own(self, name: str) -> _Maintained:
        opened = self.reader.open(name)
        is_clustered = "clustering" in (opened.protocol().writer_features or ())
        is_large = self.reader.measure(opened).size >= _LARGE_TABLE
        if name in LAYOUT and is_large and not is_clustered:
            # From now on Spark alone writes the table: it costs less than reading files in vain.
            columns = ", ".join(map(quote_identifier, LAYOUT[name]))
            self._lake.spark.sql(f"ALTER TABLE {self._lake.sql(name)} CLUSTER BY ({columns})")
        return self._compact(name)

    def maintain_current(self) -> list[_Maintained]:
        """Maintain the current tables, then write a snapshot with their new versions."""
        versions = self._applied.versions

        def maintain_table(name: str) -> tuple[str, int, _Maintained]:
            incarnation = name.removeprefix("current/")
            table = CurrentTable(self._lake, incarnation)
            known, version = self._applied.state.incarnations[incarnation], versions[incarnation]
            ts = write_ts(find_true_ts(known, self._applied.ts))
            restore(self._lake.location, name, table.version, version, ts)
            # Compaction clusters a large table.
            table.adapt_to_size(known.schema, known.layout)
            done = self._compact(name)
            return incarnation, table.version, done

        tables = self._attempt_all([f"current/{id}" for id in versions], maintain_table)
        new_versions = {id: version for id, version, _ in tables if version != versions[id]}
        if new_versions:
            write_new_versions(self._lake, self._applied, new_versions)
        return [done for _, _, done in tables]

    def maintain_histories(self) -> list[_Maintained]:
        """Maintain histories and changes; only their newest versions are read."""

        kinds: dict[str, type[HistoryTable | ChangesTable]]
        kinds = {"history": HistoryTable, "changes": ChangesTable}

        def maintain_table(name: str) -> list[_Maintained]:
            folder, _, incarnation = name.partition("/")
            table = kinds[folder](self._lake, incarnation)
            if table.version is None:
                return []
            table.undo_strays()
            return [self._compact(name)]

        names = [f"{folder}/{id}" for id in self._applied.versions for folder in kinds]
        return [done for each in self._attempt_all(names, maintain_table) for done in each]

    def remove_old(self, names: Sequence[str], last: Snapshot) -> list[OldFiles]:
        """Remove the old files of tables, with the last snapshot; return what was removed."""
        spared = self._list_shown_late(last)

        def remove(name: str) -> OldFiles:
            old = self._retention.find(name)
            old.remove(self.reader, partial(check_lock, self._lake.location))
            return old

        return self._attempt_all([name for name in names if name not in spared], remove)

    def _list_shown_late(self, last: Snapshot) -> set[str]:
        """List the current tables whose Iceberg tables could not be brought up to date.

        They still show files of before.
        """
        published = read_published(self._lake.location)
        tables = {
            address: f"current/{table.id}" for address, (table, _) in name_tables(last).items()
        }
        if published.patterns and published.snapshot_id != last.snapshot_id:
            return set(tables.values())
        behind = {fault.address for fault in published.faults if not fault.is_lasting}
        return {tables[address] for address in behind & tables.keys()}

    def _compact(self, name: str) -> _Maintained:
        """Compact a table if its files are small."""
        opened = self.reader.open(name)
        before, size = self.reader.measure(opened)
        is_fragmented = before >= self._min_files and size < before * _SMALL_FILE
        after = before
        if is_fragmented:
            if is_writable(opened) and self.reader.is_small(opened):
                self._writer.compact(opened)
            else:
                self._lake.spark.sql(f"OPTIMIZE {self._lake.sql(name)}").collect()
            after = self.reader.measure(self.reader.open(name)).number
        return _Maintained(name, is_fragmented, before, after)


def _now() -> datetime:
    return datetime.now(UTC)


def _remove_killed_loads(reader: LakeReader, days: float) -> None:
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
            # A load that has just begun has no file yet.
            if written and all(time < _now() - timedelta(days=days) for time in written):
                check_lock(reader.location)
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
