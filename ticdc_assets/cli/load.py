"""`load`: start tables from an export of Dumpling's, or from the database upstream."""

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from msgspec.structs import replace

from ticdc_assets.cli import records, texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import print_records, say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import find_changefeed, format_command
from ticdc_assets.cli.upstream_options import read_limits
from ticdc_assets.dumpling.dialect import Dialect, find_zone, make_dialect
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.load.load import LoadProgress, TableResult, load_tables, require_loadable
from ticdc_assets.load.source import LoadSource
from ticdc_assets.resources.load_source import open_database, open_export
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import escape_control

_SIGNS = {r"\r\n": "\r\n", r"\n": "\n", r"\t": "\t"}
# Before, the speed of a load says little of how long the rest takes.
_LEAST_SECONDS, _LEAST_SHARE = 5, 0.05


def load(options: argparse.Namespace) -> int:
    """Load tables."""
    # Checked here because reading upstream and starting Spark take seconds.
    require_loadable(find_changefeed(options))
    with _open_source(options) as source:
        source.choose_tables(options.table)
        ts = source.read_ts()
        lake = open_lake(options)
        progress = Progress()

        def show(done: LoadProgress) -> None:
            progress.show(format_progress(done, progress.seconds))

        if options.format != "json":
            say(f"{lake.feed.id}: {source.origin} at {texts.format_ts(ts)}")
        try:
            results = load_tables(lake, source, options.table, show)
        finally:
            progress.end()
    found = [_make_record(lake.feed.id, source.origin, ts, result) for result in results]
    for name, reason in source.skipped:
        skipped = TableResult(name, "left out", reason=reason)
        record = _make_record(lake.feed.id, source.origin, ts, skipped)
        found.append(replace(record, result="skipped"))
    print_records(options, found, format_load)
    is_text = options.format != "json"
    if is_text:
        say(f"  in {progress.seconds:.1f} s")
    _warn(source.notes, found)
    if is_text and any(result.outcome == "loaded" for result in results):
        say(f"  the next run takes them up: {format_command(options, 'advance')}")
    return _choose_code(results)


def _choose_code(results: Sequence[TableResult]) -> int:
    return 1 if any(r.outcome == "failed" or r.quarantined for r in results) else 0


def _open_source(options: argparse.Namespace) -> AbstractContextManager[LoadSource]:
    """Open the export, or the database; raise a `ConfigError` for options of the other."""
    dialect = _make_dialect(options)
    limits = read_limits(options)
    if options.from_upstream:
        if options.dir is not None:
            raise ConfigError("cannot be combined with --from-upstream: omit one", setting="DIR")
        if dialect != Dialect():
            reason = "cannot be combined with options that an export was written with"
            raise ConfigError(reason, setting="--from-upstream")
        feed = find_changefeed(options)
        return open_database(find_upstream(feed, **limits), feed, options.at, options.table)
    if options.dir is None:
        raise ConfigError("is missing: name an export, or give --from-upstream", setting="DIR")
    if limits or options.at is not None:
        reason = "is needed for --at, --max-connections and --rows-per-second"
        raise ConfigError(reason, setting="--from-upstream")
    return nullcontext(open_export(options.dir, dialect))


def _make_dialect(options: argparse.Namespace) -> Dialect:
    zone = options.time_zone
    if zone is not None:
        try:
            zone = find_zone(zone)
        except MalformedMessage as error:
            raise ConfigError(error.reason, setting="--time-zone") from None
    terminator = options.csv_line_terminator
    return make_dialect(
        escape_backslash=options.escape_backslash == "true",
        separator=_SIGNS.get(options.csv_separator, options.csv_separator),
        quote=options.csv_delimiter,
        null=options.csv_null_value,
        terminator=_SIGNS.get(terminator, terminator),
        has_header=not options.no_header,
        output_dialect=options.csv_output_dialect,
        time_zone=zone,
    )


def format_progress(done: LoadProgress, seconds: float) -> str:
    """Format how much of a load is done, and how long the rest takes at this speed."""
    parts = [
        f"load: {done.tables:,} of {texts.format_count(done.all_tables, 'table')}",
        texts.format_count(done.rows, "row"),
    ]
    if done.all_bytes:
        # A server without statistics estimates the size of its tables as 0.
        parts.append(f"{texts.format_size(done.bytes)} of {texts.format_size(done.all_bytes)}")
    parts.append(f"{seconds:.0f} s")
    is_known = seconds >= _LEAST_SECONDS and done.bytes >= done.all_bytes * _LEAST_SHARE
    if is_known and 0 < done.bytes < done.all_bytes:
        left = seconds * (done.all_bytes - done.bytes) / done.bytes
        parts.append(f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left")
    return ", ".join(parts)


def _make_record(changefeed: str, origin: str, ts: int, result: TableResult) -> records.Load:
    return records.Load(
        changefeed=changefeed,
        table=result.name,
        result=result.outcome,
        reason=result.reason,
        rows=result.rows,
        quarantined=result.quarantined,
        load_ts=ts,
        load_at=records.find_time(ts),
        origin=origin,
    )


def format_load(found: Sequence[records.Load]) -> list[str]:
    """Format the tables in aligned columns."""
    rows = [["table", "rows", "quarantined", "result"]]
    for table in found:
        if table.result != "skipped":
            is_loaded = table.result == "loaded"
            counts = [f"{n:,}" if is_loaded else "" for n in (table.rows, table.quarantined)]
            rows.append([escape_control(table.table), *counts, table.result])
    return texts.align_columns(rows, frozenset((1, 2)))


def _warn(notes: Sequence[str], found: Sequence[records.Load]) -> None:
    for note in notes:
        warn(note)
    # What is skipped is no table.
    for record in sorted(found, key=lambda record: record.result != "skipped"):
        if record.reason is not None:
            warn(f"{record.result}: {record.table}: {record.reason}")
        if record.quarantined:
            rows = texts.format_count(record.quarantined, "row")
            warn(f"quarantined: {record.table}: {rows}, see `quarantine` where stage = 'load'")
