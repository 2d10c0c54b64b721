"""`advance`, `resume`, `rebuild`, `maintain`: the commands that change a lake."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli import records, texts
from ticdc_assets.cli.output import note, print_records, say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.quarantine import warn_of_quarantine
from ticdc_assets.cli.source import find_changefeed, format_command, open_names, open_reader
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.lake.advance import (
    AdvanceResult,
    add_problems,
    decode_again,
    replay_tables,
    sum_results,
)
from ticdc_assets.lake.advance import advance as advance_lake
from ticdc_assets.lake.maintain import check_days
from ticdc_assets.lake.maintain import maintain as maintain_lake
from ticdc_assets.lake.upgrade import upgrade
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.erasures import list_unfinished, read_erasures
from ticdc_assets.log.folds import read_fold
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.plan.state import DdlName, Incarnation
from ticdc_assets.plan.waits import describe_waits
from ticdc_assets.resources.catalogs import update_catalogs
from ticdc_assets.resources.reading import open_lake as open_lake_session
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.problem import HELD_BACK, Problem
from ticdc_assets.views.names import LakeNames
from ticdc_assets.views.overview import find_blocking_ddl
from ticdc_assets.views.stream_limits import describe_lake_limits


def open_lake(options: argparse.Namespace) -> LakeSession:
    """Open the lake that a command works on."""
    return open_lake_session(find_changefeed(options), options.lake)


def advance(options: argparse.Namespace) -> int:
    """Bring the lake to the newest checkpoint."""
    source = open_source(find_changefeed(options), accept_gaps=options.accept_gap)
    lake = open_lake(options)
    progress = Progress()
    windows: list[AdvanceResult] = []
    with locked(lake.location, "advance"):
        try:
            while not windows or windows[-1].ingested.has_more:
                windows.append(advance_lake(lake, source, progress=progress))
                _note_window(windows[-1])
        finally:
            progress.end()
        changed = update_catalogs(lake.location, lake.feed)
    done = add_problems(sum_results(windows), changed)
    print_records(options, [_make_advance(lake.feed, done, progress.seconds)], format_advance)
    _print_notes(lake)
    state = read_last_snapshot(lake).state
    for wait in describe_waits(lake.feed, state):
        warn(wait)
    incarnations = state.incarnations.values()
    statuses = Counter(table.shown_status for table in incarnations)
    quarantined = done.decoded.quarantined + done.applied.quarantined
    code = _report(done.applied.problems, quarantined)
    for status in ("paused", "partial"):
        if statuses[status]:
            count = texts.format_count(statuses[status], f"{status} table")
            warn(f"{count}: see {format_command(options, 'tables')}")
    warn_of_quarantine(options, LakeReader(lake.location))
    return 1 if statuses["paused"] else code


def _note_window(done: AdvanceResult) -> None:
    ingested, decoded, applied = done.ingested, done.decoded, done.applied
    note(
        f"applied up to {applied.resolved_ts}",
        resolved_ts=applied.resolved_ts,
        input=ingested.items,
        input_bytes=ingested.bytes,
        row_changes=decoded.rows,
        rows_applied=applied.rows,
        tables_changed=applied.tables,
        quarantined=decoded.quarantined + applied.quarantined,
    )


def _print_notes(lake: LakeSession) -> None:
    for erasure in list_unfinished(read_erasures(LakeReader(lake.location))):
        table = f"{erasure.database}.{erasure.table}"
        warn(f"erasure {erasure.id} of a row of {table} did not end: run the same command again")
    for limit in describe_lake_limits(lake.feed, lake.location):
        warn(f"note: {limit}", "info")


def _make_advance(feed: Changefeed, done: AdvanceResult, seconds: float) -> records.Advance:
    ingested, decoded, applied = done.ingested, done.decoded, done.applied
    ts = applied.resolved_ts
    return records.Advance(
        changefeed=feed.id,
        resolved_ts=ts or None,
        resolved_at=records.find_time(ts),
        lag_seconds=round(texts.measure_age(ts), 1) if ts else None,
        what="files" if feed.transport == "storage" else "records",
        input=ingested.items,
        input_bytes=ingested.bytes,
        row_changes=decoded.rows,
        ddls=decoded.ddls,
        input_quarantined=decoded.quarantined,
        files_waiting=len(decoded.waiting),
        tables_changed=applied.tables,
        tables_replayed=applied.replayed,
        rows_applied=applied.rows,
        rows_quarantined=applied.quarantined,
        seconds=round(seconds, 1),
        problems=list(map(_make_problem, applied.problems)),
    )


def _make_problem(problem: Problem) -> records.Problem:
    return records.Problem(
        kind=problem.kind,
        database=problem.database or None,
        table=problem.table or None,
        commit_ts=problem.commit_ts,
        commit_at=records.find_time(problem.commit_ts),
        position=None if problem.position is None else str(problem.position),
        reason=problem.reason,
    )


def format_advance(found: Sequence[records.Advance]) -> Iterator[str]:
    """Summarize runs, one line per stage."""
    for done in found:
        events = [
            texts.format_count(done.row_changes, "row change"),
            texts.format_count(done.ddls, "DDL or schema", "DDLs and schemas"),
            f"{done.input_quarantined:,} quarantined",
        ]
        if done.files_waiting:
            events.append(f"{texts.format_count(done.files_waiting, 'file')} waiting")
        tables = [
            f"{texts.format_count(done.tables_changed, 'table')} changed",
            texts.format_count(done.rows_applied, "row change"),
            f"{done.rows_quarantined:,} quarantined",
        ]
        if done.tables_replayed:
            tables.append(f"{done.tables_replayed:,} replayed")
        progress = "nothing is resolved yet"
        if ts := done.resolved_ts:
            behind = format_seconds(done.lag_seconds or 0.0)
            progress = f"applied up to {ts} ({texts.format_time(ts)}), {behind} behind"
        inputs = texts.format_count(done.input, done.what.removesuffix("s"))
        yield f"{done.changefeed}: {progress}"
        yield f"  raw     {inputs}, {texts.format_size(done.input_bytes)}"
        yield f"  events  {', '.join(events)}"
        yield f"  tables  {', '.join(tables)}"
        yield f"  in {done.seconds:.1f} s"


def _warn_of(problem: Problem) -> None:
    about = {"kind": problem.kind, "database": problem.database, "table": problem.table}
    warn(problem.describe(), "warning", **{name: text for name, text in about.items() if text})


def _report(problems: list[Problem], quarantined: int) -> int:
    """Print every problem and return the exit code."""
    for problem in problems:
        _warn_of(problem)
    return 1 if quarantined or any(problem.data_may_differ for problem in problems) else 0


def resume(options: argparse.Namespace) -> int:
    """Resume a paused table."""
    # Starting Spark takes seconds, and meanwhile another run may resume the table.
    _find_stopped(open_names(options), options)
    lake = open_lake(options)
    with locked(lake.location, "resume", waiting=warn):
        upgrade(lake)
        names = open_names(options)
        table, ddl = _find_stopped(names, options)
        replay = ReplayRequest(
            frozenset((table.id,)), 0 if options.rebuild else table.stopped_snapshot_id or 0
        )
        if ddl is not None:
            say(f"skipped at commit ts {ddl[0]}: {ddl[1][0]}")
            replay = ReplayRequest(replay.incarnations, replay.snapshot_id, skip=(ddl,))
        return _replay(options, lake, names.applied, replay, [table])


def _find_stopped(
    names: LakeNames, options: argparse.Namespace
) -> tuple[Incarnation, tuple[int, DdlName] | None]:
    """Find the table to resume, and the DDL to skip; raise a `ConfigError` if it is not stopped."""
    table = names.find(options.table)
    if not table.is_stopped:
        reason = f"{options.table} is {table.shown_status}, not paused: there is nothing to resume"
        raise ConfigError(reason, setting="DB.TABLE")
    if not options.skip_ddl:
        return table, None
    ddl = find_blocking_ddl(names.reader, names.applied.state, table)
    if ddl is None:
        reason = f"no DDL stopped {options.table}; the reason is: {table.reason}"
        raise ConfigError(reason, setting="--skip-ddl")
    return table, ddl


def rebuild(options: argparse.Namespace) -> int:
    """Rebuild tables from their first events."""
    if options.all and options.tables:
        given = ", ".join(options.tables)
        reason = f"cannot be combined with names of tables ({given}): omit it, or them"
        raise ConfigError(reason, setting="--all")
    if not options.all and not options.tables:
        raise ConfigError("name tables, or --all for every table", setting="DB.TABLE")
    # Starting Spark takes seconds, and meanwhile another run may drop a table.
    _find_tables(open_names(options), options.tables)
    source = open_source(find_changefeed(options)) if options.from_raw else None
    lake = open_lake(options)
    with locked(lake.location, "rebuild", waiting=warn):
        upgrade(lake)
        names = open_names(options)
        applied = names.applied
        tables = _find_tables(names, options.tables)
        ids = frozenset(table.id for table in tables)
        fold = read_fold(LakeReader(lake.location))
        if fold.snapshot_id:
            say(f"tables begin with their rows at {fold.describe()}: earlier events are gone")
        if source is not None:
            wanted = None if options.all else ids
            ids, gone = decode_again(lake, source, applied, wanted)
            if gone:
                files = texts.format_count(gone, "file")
                warn(f"not decoded again: {files} that the source no longer has")
        again = source is not None
        return _replay(options, lake, applied, ReplayRequest(ids, 0), tables, decoded_again=again)


def _find_tables(names: LakeNames, given: Sequence[str]) -> list[Incarnation]:
    """Find the tables of these names, or all."""
    if given:
        return list({table.id: table for table in map(names.find, given)}.values())
    state = names.applied.state
    return [state.incarnations[id] for _, id in state.names]


# Parameters: the command, the lake and what it knows, and which tables.
def _replay(
    options: argparse.Namespace,
    lake: LakeSession,
    applied: Snapshot,
    request: ReplayRequest,
    tables: Sequence[Incarnation],
    *,
    decoded_again: bool = False,
) -> int:
    """Replay tables from the events in the lake, without ingesting new input."""
    progress = Progress()
    try:
        done = replay_tables(lake, applied, request, progress, decoded_again=decoded_again)
    finally:
        progress.end()
    _print_notes(lake)
    problems = [*done.problems, *update_catalogs(lake.location, lake.feed)]
    code = _report(problems, done.quarantined)
    replayed = texts.format_count(done.replayed, "table")
    say(f"replayed {replayed}, {texts.format_count(done.rows, 'row change')}")
    reader = LakeReader(lake.location)
    state = read_existing_snapshot(reader).state
    now = {_name(table): table for table in (state.incarnations[id] for _, id in state.names)}
    for before in sorted(tables, key=_name):
        name = _name(before)
        table = now.get(name, before)
        say(f"{name}: {table.shown_status} at {done.resolved_ts}")
        if table.is_stopped:
            warn(f"{table.status}: {name}: {table.reason}")
            code = 1
    warn_of_quarantine(options, reader)
    return code


def _name(table: Incarnation) -> str:
    return f"{table.schema.database}.{table.schema.table}"


def maintain(options: argparse.Namespace) -> int:
    """Compact the lake's files and remove old data."""
    check_days(options.retain_days, options.expire_days)
    read_existing_snapshot(open_reader(options))
    lake = open_lake(options)
    with locked(lake.location, "maintain", waiting=warn):
        upgrade(lake)
        done = maintain_lake(
            lake,
            read_existing_snapshot(LakeReader(lake.location)),
            retain_days=options.retain_days,
            expire_days=options.expire_days,
        )
        # An Iceberg catalog names files, which the next maintenance may remove.
        for problem in update_catalogs(lake.location, lake.feed):
            _warn_of(problem)
        done.require_whole()
    if done.fold.held is not None:
        _warn_of(Problem("fold", HELD_BACK.format(done.fold.held)))
    newest = done.fold.fold
    record = records.Maintain(
        changefeed=lake.feed.id,
        tables_compacted=done.compacted,
        files_before=done.files_before,
        files_after=done.files_after,
        files_removed=done.removed_files,
        bytes_removed=done.removed_bytes,
        retain_days=options.retain_days,
        expire_days=options.expire_days,
        records_expired=done.expired,
        keep_events_days=lake.feed.keep_events_days,
        row_events_folded=done.fold.folded,
        fold_ts=None if newest is None else newest.ts,
        fold_at=None if newest is None else records.find_time(newest.ts),
    )
    print_records(options, [record], format_maintain)
    return 0


def format_maintain(found: Sequence[records.Maintain]) -> Iterator[str]:
    """Say what was compacted, and what was removed."""
    for done in found:
        compacted = texts.format_count(done.tables_compacted, "table")
        yield f"files: {done.files_before:,} before, {done.files_after:,} after, in {compacted}"
        removed = texts.format_count(done.files_removed, "old file")
        size = texts.format_size(done.bytes_removed)
        yield f"removed: {removed} of {size}, which nothing of {done.retain_days} days needs"
        if done.expire_days is not None:
            yield f"expired: {texts.format_count(done.records_expired, 'record')} of raw"
        if done.fold_ts is not None:
            folded = texts.format_count(done.row_events_folded, "row event")
            yield f"folded: {folded}; the fold is at {describe_ts(done.fold_ts)}"
