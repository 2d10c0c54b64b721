"""`load`: start tables from an export of Dumpling's, or from the database upstream."""

import argparse
from contextlib import AbstractContextManager, nullcontext

from resources.load_source import open_database, open_export
from resources.upstream import find_upstream
from ticdc_assets.cli import texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import find_changefeed, format_command
from ticdc_assets.cli.upstream_options import read_limits
from ticdc_assets.dumpling.dialect import Dialect, find_zone, make_dialect
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.lake.load.load import LoadProgress, TableResult, load_tables, require_loadable
from ticdc_assets.lake.load.source import LoadSource
from ticdc_assets.safe_text import escape_control

_SIGNS = {r"\r\n": "\r\n", r"\n": "\n", r"\t": "\t"}
# Before, the speed of a load says little of how long the rest takes.
_LEAST_SECONDS, _LEAST_SHARE = 5, 0.05
_HEAD = ["table", "rows", "quarantined", "result"]


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

        say(f"{lake.feed.id}: {source.origin} at {texts.format_ts(ts)}")
        try:
            results = load_tables(lake, source, options.table, show)
        finally:
            progress.end()
    lines = [_HEAD, *map(_describe, results)]
    for line in texts.align_columns(lines, frozenset((1, 2))):
        say(line)
    say(f"  in {progress.seconds:.1f} s")
    _warn(source, results)
    if any(result.outcome == "loaded" for result in results):
        say(f"  the next run takes them up: {format_command(options, 'advance')}")
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


def _describe(result: TableResult) -> list[str]:
    name = escape_control(result.name)
    if result.outcome != "loaded":
        return [name, "", "", result.outcome]
    return [name, f"{result.rows:,}", f"{result.quarantined:,}", result.outcome]


def _warn(source: LoadSource, results: list[TableResult]) -> None:
    for note in source.notes:
        warn(note)
    for name, reason in source.skipped:
        warn(f"skipped: {name}: {reason}")
    for result in results:
        if result.reason is not None:
            warn(f"{result.outcome}: {result.name}: {result.reason}")
        if result.quarantined:
            rows = texts.format_count(result.quarantined, "row")
            warn(f"quarantined: {result.name}: {rows}, see `quarantine` where stage = 'load'")
