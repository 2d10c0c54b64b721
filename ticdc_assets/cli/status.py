"""`status`: how far every changefeed has got, and what needs a person."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli import records, texts
from ticdc_assets.cli.output import print_records, warn
from ticdc_assets.cli.patience import PATIENCE, end_command
from ticdc_assets.cli.proofs import format_summaries, list_needs, make_summary, read_summaries
from ticdc_assets.cli.source import find_changefeeds, format_command
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.lake.kept_days import RETAIN_DAYS
from ticdc_assets.resources.catalogs import read_catalog_problems
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.max_lag import read_max_lag
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.resources.source_state import read_lake_states, read_source_states
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import LastRun
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.proofs import ProofSummary
from ticdc_assets.views.status import LakeState, SourceState, judge
from ticdc_assets.views.stored_sizes import measure_stored

_HEAD = (
    *("changefeed", "state", "lag", "checkpoint lag", "lake lag", "newest input", "tables"),
    *("paused", "waiting", "partial", "quarantined", "last run"),
)
_NUMBERS = frozenset(range(2, 11))
_SIZES = ("layer", "files", "newest versions", "stored", "maintain frees")
_SIZE_NUMBERS = frozenset(range(2, 6))
_BAD_RESULTS = ("failed", "interrupted", "killed")


def status(options: argparse.Namespace) -> int:
    """Print a line per changefeed."""
    feeds = find_changefeeds(options)
    max_lag = read_max_lag() if options.max_lag is None else options.max_lag
    caller = PatientCaller(PATIENCE)
    found = [
        each.record for each in read_status(feeds, get_lake_root(options.lake), caller, max_lag)
    ]
    found.sort(key=_rank)
    if options.sizes:
        root = get_lake_root(options.lake)
        found = [replace(record, sizes=_measure(Lake(root, record.changefeed))) for record in found]
    print_records(options, found, format_status)
    for record in found:
        for line in _list_needs(options, record):
            warn(line)
    is_wanted = options.max_lag is not None
    return end_command(caller, 1 if is_wanted and any(record.is_late for record in found) else 0)


@dataclass(frozen=True)
class ReadStatus:
    """A changefeed's status, and what it was made of."""

    record: records.Status
    source: SourceState
    lake: LakeState
    # None without a database upstream, and where they cannot be read.
    proofs: ProofSummary | None = None


def read_status(
    feeds: Iterable[Changefeed], root: str, caller: PatientCaller, max_lag: float
) -> list[ReadStatus]:
    """Read the status of several changefeeds at a time; no error is raised."""
    feeds = list(feeds)
    lakes = read_lake_states(feeds, root, caller)
    sources = read_source_states(feeds, root, lakes, caller, max_lag)
    catalogs = read_catalog_problems(feeds, root, caller)
    proofs = read_summaries(feeds, root, caller)
    found = []
    for feed in feeds:
        source, lake = sources[feed.id], lakes[feed.id]
        record = _make_record(feed.id, source, lake, max_lag)
        proven = proofs.get(feed.id)
        problems = catalogs.get(feed.id, [])
        record = replace(record, catalog_problems=problems, proofs=make_summary(proven))
        found.append(ReadStatus(record, source, lake, proven))
    return found


def _make_record(id: str, source: SourceState, lake: LakeState, max_lag: float) -> records.Status:
    lag = judge(source, lake, max_lag)
    return records.Status(
        changefeed=id,
        state=lag.state,
        reason=lag.reason,
        is_late=lag.is_late,
        lag_seconds=_round(lag.seconds),
        checkpoint_lag_seconds=_round(lag.checkpoint_seconds),
        lake_lag_seconds=_round(lag.lake_seconds),
        max_lag_seconds=max_lag,
        checkpoint_ts=source.checkpoint_ts,
        checkpoint_at=records.find_time(source.checkpoint_ts),
        resolved_ts=lake.resolved_ts or None,
        resolved_at=records.find_time(lake.resolved_ts),
        newest_input_at=source.newest_at,
        records_behind=source.records_behind,
        applied_at=lake.applied_at,
        tables=lake.tables,
        paused=lake.paused,
        waiting=lake.waiting,
        partial=lake.partial,
        quarantined=lake.quarantined,
        catalog_problems=[],
        proofs=None,
        last_run=None if lake.last_run is None else _make_run(lake.last_run),
        sizes=[],
    )


def _measure(location: Lake) -> list[records.LayerSize]:
    """Measure the layers of a lake; none where it cannot be read, which its state says."""
    try:
        found = measure_stored(LakeReader(location), RETAIN_DAYS)
    except ConfigError as error:
        warn(f"sizes: {location.changefeed}: {error}")
        return []
    return [records.LayerSize(layer=layer, **size._asdict()) for layer, size in found.items()]


def _make_run(run: LastRun) -> records.Run:
    return records.Run(
        command=run.command,
        result=run.result,
        started_at=run.started_at,
        ended_at=run.ended_at,
        reason=run.reason,
        run_id=run.run_id,
        version=run.version,
    )


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _rank(record: records.Status) -> tuple[object, ...]:
    """Order what needs a person first."""
    has_failed = record.last_run is not None and record.last_run.result in _BAD_RESULTS
    is_well = record.state == "up to date"
    return not record.is_late, is_well, not record.paused, not has_failed, record.changefeed


def format_status(found: Sequence[records.Status]) -> list[str]:
    """Format the changefeeds in aligned columns."""
    now = datetime.now(UTC)
    rows = [list(_HEAD)]
    for record in found:
        lags = (record.lag_seconds, record.checkpoint_lag_seconds, record.lake_lag_seconds)
        counts = (record.tables, record.paused, record.waiting, record.partial, record.quarantined)
        rows.append(
            [
                *(record.changefeed, record.state),
                *("" if lag is None else format_seconds(lag) for lag in lags),
                _format_age(record.newest_input_at, now),
                *(f"{count:,}" for count in counts),
                _format_run(record.last_run, now),
            ]
        )
    lines = texts.align_columns(rows, _NUMBERS)
    if proofs := format_summaries(found):
        lines = [*lines, "", *proofs]
    sizes = [["changefeed", *_SIZES]]
    for record in found:
        sizes += [[record.changefeed, *_format_size(size)] for size in record.sizes]
    return [*lines, "", *texts.align_columns(sizes, _SIZE_NUMBERS)] if len(sizes) > 1 else lines


def _format_size(size: records.LayerSize) -> list[str]:
    counts = (size.bytes, size.stored_bytes, size.removable_bytes)
    return [size.layer, f"{size.files:,}", *map(texts.format_size, counts)]


def _format_age(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    return f"{format_seconds(max((now - moment).total_seconds(), 0.0))} ago"


def _format_run(run: records.Run | None, now: datetime) -> str:
    if run is None:
        return ""
    began = "began " if run.ended_at is None else ""
    return f"{run.command} {run.result}, {began}{_format_age(run.ended_at or run.started_at, now)}"


def _list_needs(options: argparse.Namespace, record: records.Status) -> Iterator[str]:
    """Say what needs a person, and what to do."""
    id, run = record.changefeed, record.last_run
    if record.state != "up to date":
        yield f"{record.state}: {id}: {record.reason}"
    if run is not None and run.result in _BAD_RESULTS:
        yield f"last run: {id}: {run.command} {run.result}" + (
            f": {run.reason}" if run.reason else ""
        )
    if record.paused:
        tables = texts.format_count(record.paused, "paused table")
        yield f"paused: {id}: {tables}: see {_format_command(options, 'tables', id)}"
    if record.quarantined:
        inputs = texts.format_count(record.quarantined, "input or row", "inputs and rows")
        command = _format_command(options, "quarantine", id)
        yield f"quarantined: {id}: {inputs}, which tables may lack: see {command}"
    yield from list_needs(record, _format_command(options, "tables", id))
    for problem in record.catalog_problems:
        # It begins with what it is about.
        yield problem.replace(": ", f": {id}: ", 1)


def _format_command(options: argparse.Namespace, command: str, id: str) -> str:
    chosen = {} if options.sink_uri is not None else {"changefeed": id}
    return format_command(argparse.Namespace(**{**vars(options), **chosen}), command)
