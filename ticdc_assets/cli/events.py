"""`events`: the events of a table, by commit ts."""

import argparse
from itertools import chain

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import write_data
from ticdc_assets.cli.source import note_fold, open_names
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Bootstrap, RowChange, SchemaChange
from ticdc_assets.safe_text import escape_control
from ticdc_assets.stream.event_lines import format_event
from ticdc_assets.views import overview
from ticdc_assets.views.row_history import EventPrinter


def events(options: argparse.Namespace) -> int:
    """Print the events of a table."""
    names = open_names(options)
    note_fold(names.reader)
    table_events = overview.read_table_events(names.reader, options.table, options.limit)
    first = next(table_events, None)
    if first is None:
        names.require_known(options.table)
        reason = f"the lake has no events of {options.table}, only what was loaded or folded"
        raise ConfigError(reason, setting="DB.TABLE")
    found = chain([first], table_events)
    if options.format == "json":
        write_data(map(format_event, found))
    else:
        versions = overview.read_schema_versions(names.reader, options.table)
        printer = EventPrinter(versions)
        write_data(_format_event(event, printer) for event in found)
    return 0


def _format_event(event: RowChange | SchemaChange | Bootstrap, printer: EventPrinter) -> bytes:
    when = "" if isinstance(event, Bootstrap) else texts.format_ts(event.commit_ts)
    match event:
        case Bootstrap():
            columns = ", ".join(column.name for column in event.schema.columns)
            version = event.schema.version
            text = f"schema{'' if version is None else f' version {version}'}: {columns}"
        case SchemaChange():
            text = f"{when}  ddl     {event.sql}"
        case RowChange():
            text = f"{when}  {event.op:<6}  {_format_change(event, printer)}"
    return escape_control(text).encode() + b"\n"


def _format_change(event: RowChange, printer: EventPrinter) -> str:
    """Format a row; for an update, its key columns and the columns that changed."""
    before, after = printer.images(event)
    if before is None or after is None:
        row = after or before or {}
        return ", ".join(f"{name}={texts.format_value(value)}" for name, value in row.items())
    parts = []
    for name, value in after.items():
        if name in before and before[name] != value:
            parts.append(texts.format_change(name, before[name], value))
        elif name not in before or name in (event.key_columns or list(after)[:1]):
            parts.append(f"{name}={texts.format_value(value)}")
    return ", ".join(parts)
