"""`tables`, `show`, `events`, `schema`: commands that only read a lake."""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.cli import records, texts
from ticdc_assets.cli.output import print_records, say, warn, write_data
from ticdc_assets.cli.proofs import read_table_proofs
from ticdc_assets.cli.quarantine import warn_of_quarantine
from ticdc_assets.cli.schema_text import format_schema_history, make_schemas
from ticdc_assets.cli.source import find_changefeed, format_command, open_names
from ticdc_assets.cli.table_files import write_tables
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.waits import describe_waits
from ticdc_assets.safe_text import escape_control, quote_given
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.views import overview
from ticdc_assets.views.asof import AsOfView, as_of
from ticdc_assets.views.lake_range import require_in_range
from ticdc_assets.views.names import LakeNames

_NUMBERS = frozenset((1, 4))
_WILDCARD = re.compile(r"[][*?!/\\`\"]")
# Rows are aligned in blocks of this size.
_ROWS_PER_BLOCK = 1000
_MAX_CELL_WIDTH = 60


def tables(options: argparse.Namespace) -> int:
    """List the tables."""
    names = open_names(options)
    reader, applied = names.reader, names.applied
    listed = overview.list_tables(reader, applied, dropped=options.all)
    lines = select_tables(names, listed, options.patterns)
    for wait in describe_waits(find_changefeed(options), applied.state):
        warn(wait)
    proofs = read_table_proofs(reader.location, find_changefeed(options))
    found = [make_table(reader.location, applied, line, proofs) for line in lines]
    print_records(options, found, format_paths if options.paths else format_tables)
    if options.paths or options.format == "json":
        return 0
    for line in found:
        if line.reason is not None:
            say(f"{line.status}: {line.name}: {line.reason}")
        if line.status == "paused":
            command = format_command(options, "resume", table=line.name)
            say(f"  to resume it, once repaired:  {command}")
            if line.blocking_ddl is not None:
                command = format_command(options, "resume", "--skip-ddl", table=line.name)
                say(f"  to resume it without the DDL: {command}")
    warn_of_quarantine(options, reader)
    return 0


def select_tables(
    names: LakeNames, lines: list[overview.TableOverview], patterns: Sequence[str]
) -> list[overview.TableOverview]:
    """Return the tables that patterns select, by default all."""
    if not patterns:
        return lines
    lines = [line for line in lines if match_table(patterns, line.database, line.table)]
    if not lines and len(patterns) == 1 and not _WILDCARD.search(patterns[0]):
        raise names.explain(patterns[0], names.applied.ts, "PATTERN")
    if not lines:
        given = ", ".join(map(quote_given, patterns))
        raise ConfigError(f"no table of the lake matches {given}", setting="PATTERN")
    return lines


def make_table(
    location: Lake,
    applied: Snapshot,
    line: overview.TableOverview,
    proofs: Mapping[str, records.Proof],
) -> records.Table:
    """Make the record of a table in the last snapshot."""
    version = applied.versions.get(line.incarnation or "")
    # A table that stopped in its first window was never applied.
    age = round(texts.measure_age(line.ts), 1) if line.ts else None
    return records.Table(
        changefeed=location.changefeed,
        database=line.database,
        table=line.table,
        status=line.status,
        reason=line.reason,
        blocking_ddl=line.blocking_ddl,
        rows=line.rows,
        resolved_ts=line.ts or None,
        resolved_at=records.find_time(line.ts),
        age_seconds=age,
        schema_version=line.schema_version,
        incarnation=line.incarnation,
        address=None if version is None else location.address(line.database, line.table),
        path=None if version is None else location.current_path(line.incarnation or ""),
        delta_version=version,
        proof=proofs.get(line.incarnation or ""),
    )


def format_tables(lines: Iterable[records.Table]) -> list[str]:
    """Format the list of tables in aligned columns."""
    lines = list(lines)
    # Without a database, no table has a proof.
    has_proofs = any(line.proof is not None for line in lines)
    head = ["table", "rows", "applied up to", "age", "schema version", "status"]
    rows = [head + ["proof"] * has_proofs]
    for line in lines:
        count = "" if line.rows is None else f"{line.rows:,}"
        version = "" if line.schema_version is None else str(line.schema_version)
        ts, age = line.resolved_ts, line.age_seconds or 0.0
        when = [texts.format_time(ts), format_seconds(age)] if ts else ["nothing", ""]
        proof = ["" if line.proof is None else escape_control(line.proof.text)] * has_proofs
        rows.append([escape_control(line.name), count, *when, version, line.status, *proof])
    return texts.align_columns(rows, _NUMBERS)


def format_paths(lines: Iterable[records.Table]) -> list[str]:
    """Format where tables are by name, and as the last snapshot has them."""
    rows = [["table", "address", "Delta version", "path"]]
    for line in lines:
        if line.path is not None and line.address is not None:
            row = (line.name, line.address, str(line.delta_version), line.path)
            rows.append([escape_control(cell) for cell in row])
    return texts.align_columns(rows, frozenset((2,)))


def show(options: argparse.Namespace) -> int:
    """Print or write the rows of tables."""
    if options.table is not None and len(options.at or ()) > 1:
        raise ConfigError("takes one TSO with a table; use --out for several", setting="--at")
    views = _Views(options)
    for ts in options.at or ():
        require_in_range(views.names.reader, ts, views.names.applied)
    if options.table is not None:
        views.names.require_known(options.table)
    code = 0
    # In order, so that each view can start from the one before.
    for ts in sorted(set(options.at or ())) or [None]:
        shown = views.open(ts)
        if options.out is not None:
            code |= _write(views, shown, options.out / str(shown.ts))
        else:
            code |= _print(views, shown, options)
    return code


class _Views:
    """Reads tables at any ts: in this process, or with Spark where that takes too long."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.names = open_names(options)
        location = self.names.reader.location
        self._lake = LakeSession(self._start_spark, location, find_changefeed(options))
        self._last: AsOfView | None = None
        self._reported: set[str] = set()

    def open(self, ts: int | None) -> AsOfView:
        self._last = as_of(self._lake, ts, self._last)
        return self._last

    def report_status(self, table: Incarnation) -> None:
        """Say once that a table is not live, and why; the rows of a partial one are shown."""
        if table.shown_status != "live":
            name = f"{table.schema.database}.{table.schema.table}"
            line = f"{table.shown_status}: {name}: {table.shown_reason or ''}"
            if line not in self._reported:
                warn(line)
            self._reported.add(line)

    def lines(
        self, shown: AsOfView, table: Incarnation, *, by_key: bool = False
    ) -> Iterator[bytes]:
        """Yield the rows of a table as JSON lines, in byte order or in that of the key."""
        reason = shown.why_spark(table)
        if reason is not None and not self._lake.has_spark:
            warn(f"note: this takes Spark: {table.schema.table} has {reason}")
        return shown.lines(table, by_key=by_key)

    def _start_spark(self) -> Any:
        # Its module imports Spark, which takes seconds.
        from ticdc_assets.cli.lake import open_lake

        return open_lake(self._options).spark


def _print(views: _Views, shown: AsOfView, options: argparse.Namespace) -> int:
    table = views.names.choose(shown, options.table)
    views.report_status(table)
    if table.is_stopped:
        return 1
    by_key = options.format != "json"
    lines = islice(views.lines(shown, table, by_key=by_key), options.limit)
    if options.format == "json":
        write_data(lines)
    else:
        columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
        format_rows = _format_csv if options.format == "csv" else _format_aligned
        formatted = format_rows(columns, (json.loads(line) for line in lines))
        write_data(text.encode(errors="backslashreplace") + b"\n" for text in formatted)
    return 0


def _format_aligned(names: list[str], rows: Iterator[dict[str, str | None]]) -> Iterator[str]:
    def cells(row: dict[str, str | None]) -> list[str]:
        return [_format_cell(row[name]) for name in names]

    while block := list(islice(rows, _ROWS_PER_BLOCK)):
        yield from texts.align_columns([list(map(escape_control, names)), *map(cells, block)])


def _format_cell(text: str | None) -> str:
    if text is None:
        return "NULL"
    text = escape_control(text)
    return text if len(text) <= _MAX_CELL_WIDTH else text[: _MAX_CELL_WIDTH - 1] + "…"


def _format_csv(names: list[str], rows: Iterator[dict[str, str | None]]) -> Iterator[str]:
    yield ",".join(map(_format_csv_field, names))
    for row in rows:
        yield ",".join(_format_csv_field(row[name]) for name in names)


def _format_csv_field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(character in text for character in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write(views: _Views, shown: AsOfView, folder: Path) -> int:
    """Write every table that is not stopped; report all that are not live; return the exit code."""
    for table in shown.tables():
        views.report_status(table)
    written = [table for table in shown.tables() if not table.is_stopped]
    shown.prepare(written)
    unwritten = write_tables(
        folder, ((table.schema, views.lines(shown, table)) for table in written)
    )
    for line in unwritten:
        warn(line)
    return 1 if unwritten or len(written) < len(shown.tables()) else 0


def schema(options: argparse.Namespace) -> int:
    """Print the schema history of a table."""
    names = open_names(options)
    names.require_known(options.table)
    versions = overview.read_schema_versions(names.reader, options.table)
    found = list(make_schemas(names.reader.location.changefeed, versions))
    print_records(options, found, format_schema_history)
    return 0
