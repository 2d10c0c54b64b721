"""Decode: from `raw` to `events`, and what was refused to the quarantine.

What has been decoded is known from `events` alone: a `batch` row for every batch, a `file` row for
every data file, written in the same commit as their events.  A data file that cannot be read yet
(its schema is not known, its storage does not answer) waits, and holds up nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import functions as F

from ticdc_assets.lake.events.decode_folder import decode_folder
from ticdc_assets.lake.events.decode_workers import OF_RECORDS, FolderReader, decode_records
from ticdc_assets.lake.events.event_commits import DecodeResult, EventCommits
from ticdc_assets.lake.events.quarantine import keep_quarantine
from ticdc_assets.lake.events.schema_files import SchemasFor
from ticdc_assets.lake.store.contracts import EVENTS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.protocols.payload import PayloadStore

__all__ = ["DecodeResult", "decode"]

BYTES_PER_COMMIT = 8 << 30
# With less than this, one task is quicker than several.
_SMALL_RECORDS = 20_000


def decode(
    lake: LakeSession,
    *,
    since: int = 0,
    open_folder: Callable[[], FolderReader] | None = None,
    open_payloads: Callable[[], PayloadStore] | None = None,
    schemas_for: SchemasFor | None = None,
    bytes_per_commit: int = BYTES_PER_COMMIT,
) -> DecodeResult:
    """Decode what is in `raw` after the batch `since`, up to which all is known to be done.

    `open_folder` and `open_payloads` are called in the workers, so they must pickle.  `schemas_for`
    is given the table versions of CSV files, and the statements that are not in `events` yet.
    """
    if lake.feed.transport != "storage":
        return _decode_topic(lake, since, open_payloads, bytes_per_commit)
    if open_folder is None:
        raise ValueError("a folder is decoded with open_folder")
    return decode_folder(lake, since, open_folder, schemas_for, bytes_per_commit)


def _decode_topic(
    lake: LakeSession,
    since: int,
    open_payloads: Callable[[], PayloadStore] | None,
    bytes_per_commit: int,
) -> DecodeResult:
    commits = EventCommits(lake, since)
    done = f"batch > {since} AND kind IN ('batch', 'quarantined')"
    seen = lake.read("events").where(done).select("kind", "batch").distinct().collect()
    known = [row["batch"] for row in seen if row["kind"] == "batch"]
    refused = len(known) < len(seen)
    raw = lake.read("raw").where(f"batch > {since}")
    pending = raw.where(f"batch NOT IN ({_listed(known)})") if known else raw
    batches = (
        pending.groupBy("batch")
        .agg(
            F.max("seq").alias("seq"),
            F.count("*").alias("records"),
            F.sum(F.octet_length("value")).alias("size"),
        )
        .orderBy("batch")
        .collect()
    )
    through = max([since, *known])
    taken = 0
    run = decode_records(lake.feed, open_payloads)
    for step in _steps(batches, bytes_per_commit):
        records = raw.where(f"batch IN ({_listed([row['batch'] for row in step])})")
        data = records.selectExpr(*OF_RECORDS).mapInArrow(run, EVENTS)
        small = sum(row["records"] for row in step) < _SMALL_RECORDS
        marks = [(row["batch"], row["seq"]) for row in step]
        if not commits.commit(data, [], marks, small=small):
            # Another run is at it: what it has done is for the next one to see.
            through = since
            break
        taken += sum(row["size"] or 0 for row in step)
        through = max(through, marks[-1][0])
    counts = commits.counts()
    if refused or counts.quarantined:
        keep_quarantine(lake, since, {}, of_records=True)
    return DecodeResult(counts.rows, counts.ddls, counts.quarantined, (), taken, through, through)


def _steps(batches: Sequence[Any], most: int) -> Iterator[list[Any]]:
    """Batches for one commit each: as many as are of bounded size together."""
    step: list[Any] = []
    size = 0
    for row in batches:
        if step and size + (row["size"] or 0) > most:
            yield step
            step, size = [], 0
        step.append(row)
        size += row["size"] or 0
    if step:
        yield step


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
