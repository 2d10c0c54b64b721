"""Run all stages once: bring the lake from its last snapshot to the source's checkpoint."""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

from ticdc_assets.events import Quarantined
from ticdc_assets.lake.apply.apply import ApplyResult, DecodedBatches, apply
from ticdc_assets.lake.events.decode_again import DecodeAgain
from ticdc_assets.lake.events.decode_folder import decode_folder
from ticdc_assets.lake.events.decode_topic import TopicDecode
from ticdc_assets.lake.events.decode_workers import FolderReader
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.history.update import update_histories
from ticdc_assets.lake.iceberg.published import publish_iceberg
from ticdc_assets.lake.publish import publish
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.lake.raw.ingest_folder import SourceFolder, ingest_folder
from ticdc_assets.lake.raw.ingest_records import IngestResult, ingest_records
from ticdc_assets.lake.rule_checks import require_key, require_same_rules, require_same_rules_below
from ticdc_assets.lake.upgrade import upgrade
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import read_first_snapshot
from ticdc_assets.log.names import read_names
from ticdc_assets.log.schema_history import SchemasFor
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.last_run import StageClock
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.store.work_size import sized_for
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.problem import Problem
from ticdc_assets.upstream.snapshot import OpenUpstream

# A run describes so many of the reasons for which it quarantined something, and counts the others.
_SHOWN_FAULTS = 10

# Called with the stage, how much of it is done, and how much there is (None: unknown).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class RecordSource:
    """A topic, read record by record; what opens runs in the workers and must pickle.

    `records` is given the offsets that were read before, and may leave them out.
    """

    records: Callable[[ReadOffsets], Iterable[Message | Quarantined]]
    open_payloads: Callable[[], PayloadStore] | None = None
    # Where rows are fetched of which the stream holds only the key, and definitions of tables.
    open_upstream: OpenUpstream | None = None


@dataclass(frozen=True)
class FolderSource:
    """A storage sink's folder; `open_folder` runs in the workers and must pickle."""

    folder: SourceFolder
    open_folder: Callable[[], FolderReader]
    # Where definitions of tables are fetched.
    open_upstream: OpenUpstream | None = None


Source = RecordSource | FolderSource


@dataclass(frozen=True)
class AdvanceResult:
    """What one run did, stage by stage."""

    ingested: IngestResult
    decoded: DecodeResult
    applied: ApplyResult

    @property
    def is_idle(self) -> bool:
        """Whether nothing came but watermarks, and nothing was left to be applied."""
        decoded, applied = self.decoded, self.applied
        came = decoded.rows or decoded.ddls or decoded.quarantined
        return not (came or applied.rows or applied.quarantined or applied.replayed)


def sum_results(results: Sequence[AdvanceResult]) -> AdvanceResult:
    """Add up the results of consecutive runs, of which there is at least one.

    A table counts as often as it changed.
    """
    ingested, decoded, applied = (
        [getattr(result, field.name) for result in results] for field in fields(AdvanceResult)
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


def add_problems(result: AdvanceResult, problems: Sequence[Problem]) -> AdvanceResult:
    """Add problems that are found after a run's stages."""
    applied = replace(result.applied, problems=[*result.applied.problems, *problems])
    return replace(result, applied=applied)


def _sums(results: Sequence[Any], *names: str) -> dict[str, int]:
    return {name: sum(getattr(result, name) for result in results) for name in names}


def advance(
    lake: LakeSession, source: Source, *, progress: Progress | None = None
) -> AdvanceResult:
    """Run every stage once, from where the lake's last commits ended."""
    clock = StageClock(lake.location)
    with sized_for(lake, small=True):
        if not upgrade(lake):
            create_tables(lake)
        require_key(lake.feed, lake.location)
        before = read_last_snapshot(lake)
        require_same_rules(lake.feed, lake.location, before)
        ingested, decoded = _ingest_and_decode(lake, source, before, progress, clock)
        with sized_for(lake, small=decoded.rows < MANY_ROWS):
            applied = apply(
                lake,
                before,
                DecodedBatches(decoded.newest, decoded.done_through, decoded.waiting),
                open_upstream=source.open_upstream,
                progress=None if progress is None else lambda n, of: progress("apply", n, of),
            )
            clock.end("apply", applied.rows)
            applied = _update_histories(lake, applied, progress)
            clock.end("history")
        applied = _publish(lake, applied, before)
        clock.end("publish")
    if decoded.quarantined or applied.quarantined:
        faults = _describe_faults(LakeReader(lake.location), before)
        applied = replace(applied, problems=[*faults, *applied.problems])
    return AdvanceResult(ingested, decoded, applied)


def _describe_faults(reader: LakeReader, before: Snapshot) -> list[Problem]:
    """Describe why input and rows since a snapshot are quarantined."""
    faults = list_faults(reader, before)
    problems = [fault.as_problem() for fault in faults[:_SHOWN_FAULTS]]
    if rest := faults[_SHOWN_FAULTS:]:
        count = sum(fault.count for fault in rest)
        problems.append(Problem("quarantined", f"{count:,} more, for {len(rest):,} other reasons"))
    return problems


def decode_again(
    lake: LakeSession, source: Source, applied: Snapshot, wanted: Collection[str] | None
) -> tuple[frozenset[str], int]:
    """Decode the input of some incarnations again, or all input.

    Return the incarnations that have to be replayed now, and how many files were gone.
    """
    require_key(lake.feed, lake.location)
    reader = LakeReader(lake.location)
    known = applied.state.incarnations
    live = {id for id, table in known.items() if table.status != "dropped"}
    require_same_rules_below(
        lake.feed, read_first_snapshot(reader), live if wanted is None else live & {*wanted}
    )
    by_incarnation = read_names(reader)
    names = None if wanted is None else set().union(*(by_incarnation.get(id, ()) for id in wanted))
    with sized_for(lake, small=reader.is_small(reader.open("events"))):
        again = DecodeAgain(lake, names)
        if isinstance(source, RecordSource):
            done = again.decode_records(source.open_payloads, source.open_upstream)
        else:
            present = {path for path, *_ in source.folder.entries()}
            done = again.decode_files(present, source.open_folder, SchemasFor(lake, applied))
    # Several had one name, one after the other.
    changed = {
        id for id in known if done.names is None or by_incarnation.get(id, set()) & done.names
    }
    return frozenset(changed), done.gone


def replay_tables(
    lake: LakeSession,
    applied: Snapshot,
    replay: ReplayRequest,
    progress: Progress,
    *,
    decoded_again: bool = False,
) -> ApplyResult:
    """Replay tables from the events in the lake, without ingesting anything.

    `decoded_again`: all events of these tables follow the rules of now.
    """
    if not decoded_again:
        require_same_rules(lake.feed, lake.location, applied, replay.incarnations)
    fold = read_first_snapshot(LakeReader(lake.location))
    require_same_rules_below(lake.feed, fold, replay.incarnations)
    clock = StageClock(lake.location)
    done = apply(
        lake,
        applied,
        DecodedBatches(applied.batch, applied.decoded_batch, applied.state.undecoded_files),
        replay=replay,
        progress=lambda count, of: progress("replay", count, of),
    )
    clock.end("replay", done.rows)
    done = _update_histories(lake, done, progress)
    clock.end("history")
    done = _publish(lake, done, applied)
    clock.end("publish")
    return done


def _publish(lake: LakeSession, applied: ApplyResult, before: Snapshot) -> ApplyResult:
    publish(lake, applied.snapshot, before)
    check_lock(lake.location)
    problems = publish_iceberg(lake, applied.snapshot, before)
    return replace(applied, problems=[*applied.problems, *problems])


def _update_histories(
    lake: LakeSession, applied: ApplyResult, progress: Progress | None
) -> ApplyResult:
    report = None if progress is None else lambda count, of: progress("history", count, of)
    problems = update_histories(lake, applied.snapshot, report)
    return replace(applied, problems=[*applied.problems, *problems])


def _ingest_and_decode(
    lake: LakeSession,
    source: Source,
    before: Snapshot,
    progress: Progress | None,
    clock: StageClock,
) -> tuple[IngestResult, DecodeResult]:
    def report(size: int, _: int) -> None:
        if progress is not None:
            progress("ingest", size, None)

    since = before.decoded_batch
    if isinstance(source, FolderSource):
        ingested = ingest_folder(lake, source.folder, progress=report)
        clock.end("ingest", ingested.items, ingested.bytes, ingested.listed)
        find_schemas = SchemasFor(lake, before)
        decoded = decode_folder(lake, source.open_folder, find_schemas, since=since)
        clock.end("decode", decoded.rows, decoded.bytes)
        return ingested, decoded
    decode = TopicDecode(lake, source.open_payloads, source.open_upstream, since=since)
    with ThreadPoolExecutor(1) as thread:
        running: Future[None] | None = None

        def decode_along(size: int, items: int) -> None:
            """Decode what `raw` has by now while more is read."""
            nonlocal running
            report(size, items)
            if running is not None and running.done():
                running.result()
                running = None
            if running is None and items > MANY_ROWS:
                running = thread.submit(decode.decode_many)

        ingested = ingest_records(lake, source.records, progress=decode_along)
        # What was decoded along with it took no more time.
        clock.end("ingest", ingested.items, ingested.bytes)
        if running is not None:
            running.result()
    decoded = decode.finish()
    clock.end("decode", decoded.rows, decoded.bytes)
    return ingested, decoded
