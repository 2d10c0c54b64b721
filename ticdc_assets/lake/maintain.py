"""Maintenance: many small files become few, and what nobody needs any more goes.

A run puts every current table back to the version that the last line of `applied` names, so what is
done here ends with a line of its own: the same ts, the new versions.  Killed before that, it is
undone by the next run.

Files are removed only when asked for, of current tables as of the lake's own.  A line of `applied`
that is younger than the retention keeps all its versions readable: a file is removed only if it was
replaced before the retention began, and what a line names was not replaced when it was written.
Older pictures are given up; so are replays that would have to start from them, but for those that
start from nothing (`rebuild`).

Only records of topics expire: files of a folder are known by their line in `raw`, and row events
are what tells a sender's repetition from a change that came too late.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.log.applied import Snapshot, write_snapshot
from ticdc_assets.lake.store.contracts import CONTRACTS
from ticdc_assets.lake.store.lake import LakeSession

# Delta refuses less: a file that a long run writes could be taken for one that nobody needs.
LEAST_DAYS = 7
# Many small files: so many, of so many bytes on average.
_MANY = 8
_SMALL = 16 << 20


@dataclass(frozen=True)
class MaintainResult:
    """What was done: tables whose files were joined, files of all tables, expired records."""

    joined: int
    files_before: int
    files_after: int
    expired: int


def maintain(
    lake: LakeSession,
    applied: Snapshot,
    *,
    retain_days: int | None = None,
    expire_days: int | None = None,
    many: int = _MANY,
) -> MaintainResult:
    """Look after the files of a lake at its last line; `many` small files are joined."""
    if retain_days is not None and retain_days < LEAST_DAYS:
        raise ConfigError(f"{LEAST_DAYS} at least", setting="--retain-days")
    keeper = _Keeper(lake, applied, retain_days, many)
    expired = 0 if expire_days is None else _expire(lake, applied, expire_days)
    done = keeper.own(["raw", *CONTRACTS]) + keeper.current()
    return MaintainResult(
        joined=sum(joined for joined, _, _ in done),
        files_before=sum(before for _, before, _ in done),
        files_after=sum(after for _, _, after in done),
        expired=expired,
    )


# Whether files were joined, and how many there were before and are now.
_Done = tuple[bool, int, int]


class _Keeper:
    def __init__(self, lake: LakeSession, applied: Snapshot, days: int | None, many: int) -> None:
        self._lake = lake
        self._applied = applied
        self._days = days
        self._many = many

    def own(self, names: Sequence[str]) -> list[_Done]:
        """The lake's own tables: nobody asks for an old version of them."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda name: self._table(self._lake.sql(name)), names))

    def current(self) -> list[_Done]:
        """The current tables; then a line that names the versions they have now."""
        versions = self._applied.versions

        def one(incarnation: str) -> tuple[str, int, _Done]:
            table = CurrentTable(self._lake, incarnation)
            table.restore(versions[incarnation])
            done = self._table(table.sql)
            return incarnation, table.version, done

        with ThreadPoolExecutor() as pool:
            kept = list(pool.map(one, versions))
        moved = {id: version for id, version, _ in kept if version != versions[id]}
        if moved:
            self._write(moved)
        return [done for _, _, done in kept]

    def _write(self, moved: dict[str, int]) -> None:
        before = self._applied
        line = self._lake.read("applied").where(f"snapshot_id = {before.snapshot_id}")
        watermarks = dict(line.select("watermarks").collect()[0][0] or {})
        write_snapshot(
            self._lake,
            before,
            before.state,
            batch=before.batch,
            decoded_batch=before.decoded_batch,
            versions=moved,
            watermarks=watermarks,
            counts=(),
        )

    def _table(self, sql: str) -> _Done:
        before, size = self._files(sql)
        many = before >= self._many and size < before * _SMALL
        if many:
            self._lake.spark.sql(f"OPTIMIZE {sql}").collect()
        if self._days is not None:
            self._lake.spark.sql(f"VACUUM {sql} RETAIN {self._days * 24} HOURS").collect()
        return many, before, self._files(sql)[0] if many else before

    def _files(self, sql: str) -> tuple[int, int]:
        detail = self._lake.spark.sql(f"DESCRIBE DETAIL {sql}").select("numFiles", "sizeInBytes")
        row = detail.collect()[0]
        return int(row[0] or 0), int(row[1] or 0)


def _expire(lake: LakeSession, applied: Snapshot, days: int) -> int:
    """Delete records that are older, have been considered, and from which nothing goes on."""
    raw = lake.read("raw")
    if "offset" not in raw.columns:
        reason = "only records of topics expire: by its lines in `raw` a folder's files are known"
        raise ConfigError(reason, setting="--expire-days")
    # Reading goes on behind the newest record of a partition, numbering behind the last one.
    ends = raw.groupBy("topic", "partition").agg(F.max_by("seq", "offset").alias("seq"))
    kept = {row["seq"] for row in ends.collect()} | {raw.agg(F.max("seq")).collect()[0][0]}
    listed = ", ".join(str(seq) for seq in sorted(seq for seq in kept if seq is not None)) or "0"
    done = min(applied.batch, applied.decoded_batch)
    old = (
        f"batch <= {done} AND offset IS NOT NULL AND seq NOT IN ({listed})"
        f" AND timestamp < current_timestamp() - INTERVAL {days} DAYS"
    )
    found = raw.where(old).count()
    if found:
        lake.spark.sql(f"DELETE FROM {lake.sql('raw')} WHERE {old}").collect()
    return found
