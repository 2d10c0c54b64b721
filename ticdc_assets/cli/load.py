"""`load`: start tables from an export of Dumpling's."""

import argparse

from resources.export import open_export
from ticdc_assets.cli import texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import format_command
from ticdc_assets.dumpling.dialect import Dialect, find_zone, make_dialect
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.lake.load.load_export import (
    LoadProgress,
    TableResult,
    choose_tables,
    load_export,
    read_tso,
)
from ticdc_assets.safe_text import escape_control

_SIGNS = {r"\r\n": "\r\n", r"\n": "\n", r"\t": "\t"}
_HEAD = ["table", "rows", "quarantined", "result"]


def load(options: argparse.Namespace) -> int:
    """Load tables."""
    dialect = _make_dialect(options)
    source = open_export(options.dir)
    # Checked here because starting Spark takes seconds.
    choose_tables(source.export, options.table)
    ts = read_tso(source)
    lake = open_lake(options, must_exist=False)
    progress = Progress()

    def show(done: LoadProgress) -> None:
        progress.show(format_progress(done, progress.seconds))

    try:
        results = load_export(lake, source, dialect, options.table, show)
    finally:
        progress.end()
    say(f"{lake.feed.id}: {source.origin} at {texts.format_ts(ts)}")
    lines = [_HEAD, *map(_describe, results)]
    for line in texts.align_columns(lines, frozenset((1, 2))):
        say(line)
    say(f"  in {progress.seconds:.1f} s")
    _warn(source.export.skipped, results)
    if any(result.outcome == "loaded" for result in results):
        say(f"  the next run takes them up: {format_command(options, 'advance')}")
    return 1 if any(r.outcome == "failed" or r.quarantined for r in results) else 0


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
        f"{texts.format_size(done.bytes)} of {texts.format_size(done.all_bytes)}",
        f"{seconds:.0f} s",
    ]
    if 0 < done.bytes < done.all_bytes:
        left = seconds * (done.all_bytes - done.bytes) / done.bytes
        parts.append(f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left")
    return ", ".join(parts)


def _describe(result: TableResult) -> list[str]:
    name = escape_control(result.name)
    if result.outcome != "loaded":
        return [name, "", "", result.outcome]
    return [name, f"{result.rows:,}", f"{result.quarantined:,}", result.outcome]


def _warn(skipped: tuple[tuple[str, str], ...], results: list[TableResult]) -> None:
    for name, reason in skipped:
        warn(f"skipped: {name}: {reason}")
    for result in results:
        if result.reason is not None:
            warn(f"{result.outcome}: {result.name}: {result.reason}")
        if result.quarantined:
            rows = texts.format_count(result.quarantined, "row")
            warn(f"quarantined: {result.name}: {rows}, see `quarantine` where stage = 'load'")
