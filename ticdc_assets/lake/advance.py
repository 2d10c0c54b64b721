"""All stages, once: from what the source holds now to current tables at its newest checkpoint."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Rejected
from ticdc_assets.lake.store import contracts as tables
from ticdc_assets.lake.log.applied import Applied, last_applied
from ticdc_assets.lake.apply.apply import AppliedWindow, Replay, apply
from ticdc_assets.lake.store.codegen import WORTHWHILE, compiling
from ticdc_assets.lake.events.decode import Decoded, decode
from ticdc_assets.lake.events.decode_workers import Reader
from ticdc_assets.lake.log.schema_history import SchemasFor
from ticdc_assets.lake.raw.ingest_records import Ingested, ingest_records
from ticdc_assets.lake.raw.ingest_folder import Folder, ingest_folder
from ticdc_assets.lake.store.contracts import Lake
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.payload import PayloadStore

# Told as the work goes on: the stage, how much is done, of how much (None: nobody knows).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a changefeed's output is read by; functions are called in the workers, and pickle."""

    records: Callable[[], Iterable[Message | Rejected]] | None = None
    folder: Folder | None = None
    open_folder: Callable[[], Reader] | None = None
    open_payloads: Callable[[], PayloadStore] | None = None


@dataclass(frozen=True)
class Advanced:
    """What one run did, stage by stage."""

    ingested: Ingested
    decoded: Decoded
    applied: AppliedWindow


def together(runs: Sequence[Advanced]) -> Advanced:
    """What runs did one after the other, as if it were one; there is at least one.

    Tables are counted as often as they changed.
    """
    ingested, decoded, applied = ([getattr(run, f.name) for run in runs] for f in fields(Advanced))
    return Advanced(
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
) -> Advanced:
    """Run every stage once; what is done already is not done again."""
    with compiling(spark, False):
        return _advance(spark, lake, feed, source, progress)


def replay_tables(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    applied: Applied,
    replay: Replay,
    progress: Progress,
) -> AppliedWindow:
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
) -> Advanced:
    tables.create(spark, lake, of_records=feed.transport != "storage")
    before = last_applied(spark, lake)
    taken = _ingest(spark, lake, feed, source, progress)
    decoded = _decode(spark, lake, feed, source, before)
    with compiling(spark, decoded.rows > WORTHWHILE):
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
    return Advanced(taken, decoded, done)


def _ingest(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    source: Source,
    progress: Progress | None,
) -> Ingested:
    told = None if progress is None else lambda size, _: progress("ingest", size, None)
    if source.folder is not None:
        return ingest_folder(spark, lake, feed, source.folder, progress=told)
    if source.records is None:
        raise ValueError("a source is a folder or records")
    return ingest_records(spark, lake, source.records(), progress=told)


def _decode(
    spark: SparkSession, lake: Lake, feed: Changefeed, source: Source, before: Applied
) -> Decoded:
    return decode(
        spark,
        lake,
        feed,
        since=before.decoded,
        open_folder=source.open_folder,
        open_payloads=source.open_payloads,
        schemas_for=SchemasFor(spark, lake, feed, before),
    )
