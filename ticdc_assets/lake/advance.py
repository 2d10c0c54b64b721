"""All stages, once: from what the source holds now to current tables at its newest checkpoint."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Quarantined
from ticdc_assets.lake.apply.apply import ApplyResult, ReplayRequest, apply
from ticdc_assets.lake.events.decode import DecodeResult, decode
from ticdc_assets.lake.events.decode_workers import FolderReader
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.lake.log.schema_history import SchemasFor
from ticdc_assets.lake.raw.ingest_folder import SourceFolder, ingest_folder
from ticdc_assets.lake.raw.ingest_records import IngestResult, ingest_records
from ticdc_assets.lake.store import contracts
from ticdc_assets.lake.store.codegen import WORTHWHILE, set_codegen
from ticdc_assets.lake.store.contracts import Lake
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.payload import PayloadStore

# Told as the work goes on: the stage, how much is done, of how much (None: nobody knows).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a changefeed's output is read by; functions are called in the workers, and pickle."""

    records: Callable[[], Iterable[Message | Quarantined]] | None = None
    folder: SourceFolder | None = None
    open_folder: Callable[[], FolderReader] | None = None
    open_payloads: Callable[[], PayloadStore] | None = None


@dataclass(frozen=True)
class AdvanceResult:
    """What one run did, stage by stage."""

    ingested: IngestResult
    decoded: DecodeResult
    applied: ApplyResult


def sum_results(runs: Sequence[AdvanceResult]) -> AdvanceResult:
    """What runs did one after the other, as if it were one; there is at least one.

    Tables are counted as often as they changed.
    """
    ingested, decoded, applied = (
        [getattr(run, f.name) for run in runs] for f in fields(AdvanceResult)
    )
    return AdvanceResult(
        replace(ingested[-1], **_sums(ingested, "batches", "items", "bytes")),
        replace(decoded[-1], **_sums(decoded, "rows", "ddls", "rejected", "bytes")),
        replace(
            applied[-1],
            **_sums(applied, "tables", "rows", "ddls", "quarantined", "replayed"),
            problems=[problem for window in applied for problem in window.problems],
        ),
    )


def _sums(parts: Sequence[Any], *names: str) -> dict[str, int]:
    return {name: sum(getattr(part, name) for part in parts) for name in names}


def advance(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    source: Source,
    *,
    progress: Progress | None = None,
) -> AdvanceResult:
    """Run every stage once; what is done already is not done again."""
    with set_codegen(spark, False):
        return _advance(spark, lake, feed, source, progress)


def replay_tables(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    applied: Snapshot,
    replay: ReplayRequest,
    progress: Progress,
) -> ApplyResult:
    """Replay tables from what is in the lake; nothing new is taken in."""
    return apply(
        spark,
        lake,
        feed,
        applied,
        applied.batch,
        decoded=applied.decoded,
        replay=replay,
        progress=lambda count, of: progress("replay", count, of),
    )


def _advance(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    source: Source,
    progress: Progress | None,
) -> AdvanceResult:
    contracts.create(spark, lake, of_records=feed.transport != "storage")
    before = read_last_snapshot(spark, lake)
    taken = _ingest(spark, lake, feed, source, progress)
    decoded = _decode(spark, lake, feed, source, before)
    with set_codegen(spark, decoded.rows > WORTHWHILE):
        done = apply(
            spark,
            lake,
            feed,
            before,
            decoded.newest,
            decoded=decoded.done_through,
            missing=decoded.waiting,
            progress=None if progress is None else lambda n, of: progress("apply", n, of),
        )
    return AdvanceResult(taken, decoded, done)


def _ingest(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    source: Source,
    progress: Progress | None,
) -> IngestResult:
    told = None if progress is None else lambda size, _: progress("ingest", size, None)
    if source.folder is not None:
        return ingest_folder(spark, lake, feed, source.folder, progress=told)
    if source.records is None:
        raise ValueError("a source is a folder or records")
    return ingest_records(spark, lake, source.records(), progress=told)


def _decode(
    spark: SparkSession, lake: Lake, feed: Changefeed, source: Source, before: Snapshot
) -> DecodeResult:
    return decode(
        spark,
        lake,
        feed,
        since=before.decoded,
        open_folder=source.open_folder,
        open_payloads=source.open_payloads,
        schemas_for=SchemasFor(spark, lake, feed, before),
    )
