"""`advance`, `resume`, `rebuild`, `maintain`: what changes a lake."""

import argparse
import sys
from pathlib import Path

from resources.lake import get_lake_root
from resources.reading import open_source
from resources.spark import get_session
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli import texts
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import find_changefeed, format_command
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import AdvanceResult, replay_tables
from ticdc_assets.lake.advance import advance as advance_lake
from ticdc_assets.lake.apply.apply import ReplayRequest
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.lake.maintain import maintain as maintain_lake
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.lock import locked
from ticdc_assets.lake.views.overview import (
    find_blocking_ddl,
    find_table,
    missing_lake_error,
    read_existing_snapshot,
)
from ticdc_assets.stream.limits import describe_limits
from ticdc_assets.stream.problem import Problem


def open_lake(options: argparse.Namespace, *, must_exist: bool = True) -> LakeSession:
    """Open the lake that a command works on."""
    feed = find_changefeed(options)
    location = Lake(get_lake_root(options.lake), feed.id)
    # Checked here because starting Spark takes seconds.
    is_local = "://" not in location.root
    if must_exist and is_local and not Path(location.path("applied")).is_dir():
        raise missing_lake_error(location)
    return LakeSession(get_session(location.root), location, feed)


def advance(options: argparse.Namespace) -> int:
    """Bring the lake to the newest checkpoint."""
    source = open_source(find_changefeed(options))
    lake = open_lake(options, must_exist=False)
    progress = Progress()
    with locked(lake.location):
        try:
            done = advance_lake(lake, source, progress=progress)
        finally:
            progress.end()
    for line in summary(lake.feed, done):
        print(line)
    print(f"  in {progress.seconds:.1f} s")
    for note in describe_limits(lake.feed):
        print(f"note: {note}", file=sys.stderr)
    state = read_last_snapshot(lake).state
    stopped = [t for t in state.incarnations.values() if t.status == "paused"]
    code = _said(done.applied.problems, done.decoded.quarantined)
    if stopped:
        how = format_command(options, "tables")
        print(f"{texts.count(len(stopped), 'paused table')}: see {how}", file=sys.stderr)
    return 1 if stopped else code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def summary(feed: Changefeed, done: AdvanceResult) -> list[str]:
    """What a run did, stage by stage."""
    took, read, made = done.ingested, done.decoded, done.applied
    things = texts.count(took.items, "file" if feed.transport == "storage" else "record")
    ts = made.resolved_ts
    at = f"{ts} ({texts.moment(ts)}), {texts.lag(ts)} behind"
    events = [
        texts.count(read.rows, "row change"),
        texts.count(read.ddls, "DDL or schema", "DDLs and schemas"),
        f"{read.quarantined:,} quarantined",
    ]
    if read.waiting:
        events.append(f"{texts.count(len(read.waiting), 'file')} waiting")
    tables = [
        f"{texts.count(made.tables, 'table')} changed",
        texts.count(made.rows, "row change"),
        f"{made.quarantined:,} quarantined",
    ]
    if made.replayed:
        tables.append(f"{made.replayed:,} replayed")
    return [
        f"{feed.id}: applied up to {at}" if ts else f"{feed.id}: nothing is resolved yet",
        f"  raw     {things}, {texts.size(took.bytes)}",
        f"  events  {', '.join(events)}",
        f"  tables  {', '.join(tables)}",
    ]


def _said(problems: list[Problem], quarantined: int = 0) -> int:
    """Say every problem; the exit code."""
    for problem in problems:
        print(problem.describe(), file=sys.stderr)
    return 1 if quarantined or any(problem.data_may_differ for problem in problems) else 0


def resume(options: argparse.Namespace) -> int:
    """Let a paused table go on."""
    lake = open_lake(options)
    with locked(lake.location, waiting=_say):
        applied = read_existing_snapshot(lake)
        table = find_table(applied.state, options.table)
        if not table.is_stopped:
            raise ConfigError(f"{options.table} is {table.status}", setting="DB.TABLE")
        replay = ReplayRequest(
            frozenset((table.id,)), 0 if options.rebuild else table.stopped_snapshot_id or 0
        )
        if options.skip_ddl:
            found = find_blocking_ddl(lake, applied.state, table)
            if found is None:
                reason = f"{options.table} did not stop at a statement: {table.reason}"
                raise ConfigError(reason, setting="--skip-ddl")
            print(f"skipped at commit ts {found[0]}: {texts.one_line(found[1][0])}")
            replay = ReplayRequest(replay.incarnations, replay.snapshot_id, skip=(found,))
        return _replayed(lake, applied, replay, options)


def rebuild(options: argparse.Namespace) -> int:
    """Make a table anew."""
    lake = open_lake(options)
    with locked(lake.location, waiting=_say):
        applied = read_existing_snapshot(lake)
        table = find_table(applied.state, options.table)
        return _replayed(lake, applied, ReplayRequest(frozenset((table.id,)), 0), options)


def _replayed(
    lake: LakeSession, applied: Snapshot, replay: ReplayRequest, options: argparse.Namespace
) -> int:
    """Replay what is in the lake already; nothing new is taken in."""
    progress = Progress()
    try:
        done = replay_tables(lake, applied, replay, progress)
    finally:
        progress.end()
    code = _said(done.problems)
    table = find_table(read_existing_snapshot(lake).state, options.table)
    what = f"{texts.count(done.replayed, 'table')}, {texts.count(done.rows, 'row change')}"
    print(f"{options.table}: {table.status} at {done.resolved_ts}, replayed {what}")
    if table.is_stopped:
        print(f"{table.status}: {options.table}: {table.reason}", file=sys.stderr)
        return 1
    return code


def maintain(options: argparse.Namespace) -> int:
    """Look after the lake's files."""
    lake = open_lake(options)
    with locked(lake.location, waiting=_say):
        done = maintain_lake(
            lake,
            read_existing_snapshot(lake),
            retain_days=options.retain_days,
            expire_days=options.expire_days,
        )
    joined = texts.count(done.compacted, "table")
    print(f"files: {done.files_before:,} before, {done.files_after:,} now, in {joined}")
    if options.retain_days is not None:
        print(f"vacuumed: pictures older than {options.retain_days} days may not be readable now")
    if options.expire_days is not None:
        print(f"expired: {texts.count(done.expired, 'record')} of raw")
    return 0
