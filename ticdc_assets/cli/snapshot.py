"""`snapshot`: write all tables, as they were at one ts, into a folder."""

import argparse
from pathlib import Path

from ticdc_assets.cli import texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import open_names
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.applied_files import find_base
from ticdc_assets.resources.lake import get_lake_root, make_absolute
from ticdc_assets.safe_text import escape_control
from ticdc_assets.store.uris import format_uri
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.export import ExportedTable, Exporter
from ticdc_assets.views.lake_range import require_in_range


def snapshot(options: argparse.Namespace) -> int:
    """Write all tables."""
    if len(options.at or ()) > 1:
        given = ", ".join(map(str, options.at))
        raise ConfigError(f"takes one TSO, not {given}", setting="--at")
    folder = find_target(options)
    names = open_names(options)
    reader, last = names.reader, names.applied
    ts: int = options.at[0] if options.at else last.ts
    require_in_range(reader, ts, last)
    exporter = Exporter(reader.location, folder, options.format)
    snapshots = find_base(reader, last, ts), last.snapshot_id
    progress = Progress()
    # Starting Spark takes seconds.
    tables = exporter.find_written(ts, snapshots)
    if tables is None:
        view = as_of(open_lake(options), ts)
        try:
            tables = exporter.export(view, lambda done, of: progress("snapshot", done, of))
        finally:
            progress.end()
    say(f"{names.reader.location.changefeed} at {ts} ({texts.format_time(ts)}) in {folder}")
    for line in texts.align_columns([*_HEAD, *map(_describe, tables)], frozenset((1,))):
        say(line)
    say(f"  in {progress.seconds:.1f} s")
    for table in tables:
        if table.status != "live":
            warn(f"{table.status}: {table.database}.{table.table}: {table.reason or ''}")
    return 0 if all(table.path is not None for table in tables) else 1


def find_target(options: argparse.Namespace) -> str:
    """Return where a copy is to be; raise a `ConfigError` if that is inside the lake."""
    folder = make_absolute(options.into, setting="--into")
    if _is_inside(folder, get_lake_root(options.lake)):
        reason = "is inside the lake: choose another folder"
        raise ConfigError(reason, file=folder, setting="--into")
    return folder


def _is_inside(folder: str, root: str) -> bool:
    """Whether a folder is the lake's, or below it."""
    if "://" in root or "://" in folder:
        return f"{format_uri(folder).rstrip('/')}/".startswith(f"{format_uri(root).rstrip('/')}/")
    return Path(folder).resolve().is_relative_to(Path(root).resolve())


_HEAD = [["table", "rows", "folder"]]


def _describe(table: ExportedTable) -> list[str]:
    count = "" if table.rows is None else f"{table.rows:,}"
    name = escape_control(f"{table.database}.{table.table}")
    return [name, count, table.path or "not written"]
