"""All stages, once: from what the source holds now to current tables at its newest checkpoint."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ticdc_assets.events import Quarantined
from ticdc_assets.lake.apply.apply import ApplyResult, ReplayRequest, apply
from ticdc_assets.lake.events.decode_folder import decode_folder
from ticdc_assets.lake.events.decode_topic import decode_topic
from ticdc_assets.lake.events.decode_workers import FolderReader
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.lake.log.schema_history import SchemasFor
from ticdc_assets.lake.raw.ingest_folder import SourceFolder, ingest_folder
from ticdc_assets.lake.raw.ingest_records import IngestResult, ingest_records
from ticdc_assets.lake.store.codegen import WORTHWHILE, set_codegen
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.tables import create_tables
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
        replace(decoded[-1], **_sums(decoded, "rows", "ddls", "quarantined", "bytes")),
        replace(
            applied[-1],
            **_sums(applied, "tables", "rows", "ddls", "quarantined", "replayed"),
            problems=[problem for window in applied for problem in window.problems],
        ),
    )


def _sums(parts: Sequence[Any], *names: str) -> dict[str, int]:
    return {name: sum(getattr(part, name) for part in parts) for name in names}


def advance(
    lake: LakeSession,
    source: Source,
    *,
    progress: Progress | None = None,
) -> AdvanceResult:
    """Run every stage once; what is done already is not done again."""
    with set_codegen(lake.spark, False):
        return _advance(lake, source, progress)


def replay_tables(
    lake: LakeSession,
    applied: Snapshot,
    replay: ReplayRequest,
    progress: Progress,
) -> ApplyResult:
    """Replay tables from what is in the lake; nothing new is taken in."""
    return apply(
        lake,
        applied,
        applied.batch,
        decoded=applied.decoded_batch,
        replay=replay,
        progress=lambda count, of: progress("replay", count, of),
    )


def _advance(
    lake: LakeSession,
    source: Source,
    progress: Progress | None,
) -> AdvanceResult:
    create_tables(lake)
    before = read_last_snapshot(lake)
    taken = _ingest(lake, source, progress)
    decoded = _decode(lake, source, before)
    with set_codegen(lake.spark, decoded.rows > WORTHWHILE):
        done = apply(
            lake,
            before,
            decoded.newest,
            decoded=decoded.done_through,
            missing=decoded.waiting,
            progress=None if progress is None else lambda n, of: progress("apply", n, of),
        )
    return AdvanceResult(taken, decoded, done)


def _ingest(
    lake: LakeSession,
    source: Source,
    progress: Progress | None,
) -> IngestResult:
    told = None if progress is None else lambda size, _: progress("ingest", size, None)
    if source.folder is not None:
        return ingest_folder(lake, source.folder, progress=told)
    if source.records is None:
        raise ValueError("a source is a folder or records")
    return ingest_records(lake, source.records(), progress=told)


def _decode(lake: LakeSession, source: Source, before: Snapshot) -> DecodeResult:
    if source.open_folder is None:
        return decode_topic(lake, source.open_payloads, since=before.decoded_batch)
    return decode_folder(
        lake, source.open_folder, SchemasFor(lake, before), since=before.decoded_batch
    )
