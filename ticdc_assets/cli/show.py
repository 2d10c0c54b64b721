"""`tables`, `show`, `events`, `schema`, `ledger`: what looks into a lake, and changes nothing."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from ticdc_assets.cli import texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.schema_text import schema_lines
from ticdc_assets.cli.source import format_command
from ticdc_assets.cli.table_files import write_tables
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Bootstrap, RowChange, SchemaChange, TableSchema
from ticdc_assets.lake.views import overview
from ticdc_assets.lake.views.asof import AsOfView, as_of
from ticdc_assets.lake.views.ledger import Ledger, build_ledger
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.stream.event_lines import format_event

_NUMBERS = frozenset((1, 4))
# Column widths are those of the first rows.
_LOOKED_AT = 1000
_WIDEST = 60


def tables(options: argparse.Namespace) -> int:
    """List the tables."""
    lake = open_lake(options)
    lines = overview.list_tables(lake, overview.read_existing_snapshot(lake), dropped=options.all)
    print("\n".join(table_lines(lines)))
    for line in lines:
        if line.reason is not None:
            print(f"{line.status}: {line.name}: {texts.one_line(line.reason)}")
        if line.status == "paused":
            more = ["--skip-ddl"] if line.blocking_ddl is not None else []
            print(f"  to go on, when mended:   {format_command(options, 'resume', line.name)}")
            if more:
                command = format_command(options, "resume", line.name, *more)
                print(f"  without the statement:   {command}")
    return 0


def table_lines(lines: Iterable[overview.TableOverview]) -> list[str]:
    """The list of tables, aligned."""
    rows = [["table", "rows", "applied up to", "lag", "version", "state"]]
    for line in lines:
        count = "" if line.rows is None else f"{line.rows:,}"
        version = "" if line.schema_version is None else str(line.schema_version)
        # A table that stopped in the first window never was right.
        when = [texts.moment(line.ts), texts.lag(line.ts)] if line.ts else ["nothing", ""]
        rows.append([texts.one_line(line.name), count, *when, version, line.status])
    return texts.aligned(rows, _NUMBERS)


def show(options: argparse.Namespace) -> int:
    """Print or write rows."""
    if options.table is not None and len(options.at or ()) > 1:
        raise ConfigError("takes one TSO with a table; use --out for several", setting="--at")
    lake = open_lake(options)
    overview.read_existing_snapshot(lake)
    code = 0
    for ts in options.at or [None]:
        shown = as_of(lake, ts)
        if options.out is not None:
            code |= _write(shown, options.out / str(shown.ts))
        else:
            code |= _print(shown, options)
    return code


def _print(shown: AsOfView, options: argparse.Namespace) -> int:
    found = shown.find(options.table)
    if not found:
        raise ConfigError(f"no table {options.table} at {shown.ts}", setting="DB.TABLE")
    if len(found) > 1:
        names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in found)
        raise ConfigError(f"{options.table} may be {names}: use --out", setting="DB.TABLE")
    table = found[0]
    if table.is_stopped:
        return _stopped(table)
    lines = islice(shown.lines(table), options.limit)
    if options.format == "jsonl":
        sys.stdout.buffer.writelines(lines)
    else:
        columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
        write = _csv if options.format == "csv" else _aligned
        for text in write(columns, (json.loads(line) for line in lines)):
            sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _stopped(table: Incarnation) -> int:
    name = f"{table.schema.database}.{table.schema.table}"
    print(f"{table.status}: {name}: {texts.one_line(table.reason or '')}", file=sys.stderr)
    return 1


def _aligned(names: list[str], rows: Iterator[dict[str, str | None]]) -> Iterator[str]:
    def cells(row: dict[str, str | None]) -> list[str]:
        return [_cell(row[name]) for name in names]

    while first := list(islice(rows, _LOOKED_AT)):
        yield from texts.aligned([names, *map(cells, first)])


def _cell(text: str | None) -> str:
    if text is None:
        return "NULL"
    text = texts.one_line(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _csv(names: list[str], rows: Iterator[dict[str, str | None]]) -> Iterator[str]:
    yield ",".join(map(_csv_field, names))
    for row in rows:
        yield ",".join(_csv_field(row[name]) for name in names)


def _csv_field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(character in text for character in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write(shown: AsOfView, folder: Path) -> int:
    """Write every table that is not stopped; report the others and return the exit code."""
    stopped = 0

    def tables() -> Iterator[tuple[TableSchema, Iterable[bytes]]]:
        nonlocal stopped
        for table in shown.tables():
            if table.is_stopped:
                stopped |= _stopped(table)
            else:
                yield table.schema, shown.lines(table)

    unwritten = write_tables(folder, tables())
    for line in unwritten:
        print(line, file=sys.stderr)
    return 1 if unwritten else stopped


def events(options: argparse.Namespace) -> int:
    """Print what has come of a table."""
    lake = open_lake(options)
    overview.read_existing_snapshot(lake)
    found = overview.read_table_events(lake, options.table, options.limit)
    out = sys.stdout.buffer
    none = True
    for event in found:
        none = False
        text = format_event(event) if options.format == "jsonl" else _event_text(event)
        out.write(text)
    out.flush()
    if none:
        raise ConfigError(f"nothing has come of {options.table}", setting="DB.TABLE")
    return 0


def _event_text(event: RowChange | SchemaChange | Bootstrap) -> bytes:
    match event:
        case Bootstrap():
            columns = ", ".join(column.name for column in event.schema.columns)
            text = f"schema     version {event.schema.version}: {columns}"
        case SchemaChange():
            text = f"{_when(event.commit_ts)}  ddl     {event.sql}"
        case RowChange():
            text = f"{_when(event.commit_ts)}  {event.op:<6}  {_change(event)}"
    return texts.one_line(text).encode(errors="backslashreplace") + b"\n"


def _when(ts: int) -> str:
    return f"{ts}  {texts.moment(ts)}"


def _change(event: RowChange) -> str:
    """The row; of an update the key's columns, where they are known, and what is new."""
    before, after = (json.loads(image) if image else None for image in (event.before, event.after))
    if before is None or after is None:
        row = after or before or {}
        return ", ".join(f"{name}={_value(value)}" for name, value in row.items())
    parts = []
    for name, value in after.items():
        if name in before and before[name] != value:
            parts.append(f"{name}: {_value(before[name])} → {_value(value)}")
        elif name not in before or name in (event.key_columns or list(after)[:1]):
            parts.append(f"{name}={_value(value)}")
    return ", ".join(parts)


def _value(value: str | None) -> str:
    return "NULL" if value is None else value


def schema(options: argparse.Namespace) -> int:
    """Print a table's schema history."""
    lake = open_lake(options)
    overview.read_existing_snapshot(lake)
    for line in schema_lines(overview.read_schema_versions(lake, options.table)):
        print(texts.one_line(line))
    return 0


def ledger(options: argparse.Namespace) -> int:
    """Print the ledger."""
    lake = open_lake(options)
    done = build_ledger(lake, overview.read_existing_snapshot(lake))
    for line in ledger_lines(lake.feed.id, done):
        print(line)
    return 0 if done.adds_up else 1


def ledger_lines(id: str, done: Ledger) -> list[str]:
    """The ledger as a person reads it."""
    source = done.source
    lines = [
        f"{id}: {source.input:,} {source.what} = {source.decoded:,} decoded"
        f" + {source.waiting:,} waiting; {source.quarantined:,} inputs quarantined"
    ]
    head = ["row events of", "input =", "applied +", "superseded +", "quarantined +"]
    rows = [[*head, "waiting +", "repeated", ""]]
    for table in done.tables:
        numbers = (table.input, table.applied, table.superseded, table.quarantined)
        verdict = "" if table.adds_up else f"missing: {table.missing:,}"
        counts = [f"{n:,}" for n in (*numbers, table.waiting, table.repeated)]
        rows.append([texts.one_line(table.name), *counts, verdict])
    lines += texts.aligned(rows, frozenset(range(1, 7)))
    lines += [f"does not add up: {fault}" for fault in source.faults]
    missing = [table for table in done.tables if not table.adds_up]
    if missing:
        lines.append(f"does not add up: {texts.count(len(missing), 'table')}")
    return lines if lines and not done.adds_up else [*lines, "it adds up"]
