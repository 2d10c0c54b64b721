"""`why`: how one row came to be."""

import argparse
import json
from collections.abc import Iterator, Sequence

from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.cli import texts
from ticdc_assets.cli.output import warn, write_data
from ticdc_assets.cli.source import note_fold, open_names
from ticdc_assets.errors import ConfigError, InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.safe_text import escape_control, quote_given
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.views.loaded_rows import LoadedRows, find_loaded_rows
from ticdc_assets.views.overview import SchemaVersionRow
from ticdc_assets.views.row_history import Printed, RowEvent, RowHistories

# Of a table, in an error.
_MOST_COLUMNS = 20
_GONE = "maintenance has removed the files with its rows"


def why(options: argparse.Namespace) -> int:
    """Print every event of a row, and the loads that began its table."""
    names = open_names(options)
    reader = names.reader
    histories = RowHistories.open(names, options.table)
    wanted = parse_key(options.key, histories)
    for version in histories.find_unsearched(wanted):
        name = f"{version.schema.database}.{version.schema.table}"
        when = f"{version.valid_from} ({texts.format_time(version.valid_from)})"
        missing = ", ".join(column for column in wanted if version.schema.column(column) is None)
        warn(f"not searched: {name} from {when} on, which has no column {missing}")
    note_fold(reader)
    found = histories.find(wanted)
    loads = find_loaded_rows(reader, histories.versions, wanted)
    if not found and all(load.rows == [] for load in loads):
        named = ", ".join(f"{name}={value}" for name, value in wanted.items())
        reason = f"no event of a row with {named} in {options.table}"
        if "=" in options.key[0] and list(wanted.values()) == options.key:
            reason += f", and {_explain_column(options.key[0], histories)}"
        raise ConfigError(reason, setting="KEY")
    if options.format == "json":
        events = [(event.change.commit_ts, _format_json(event)) for event in found]
        loaded = [(each.load.ts, line) for each in loads for line in _format_json_load(each)]
        write_data(line for _, line in sorted([*events, *loaded], key=_get_ts))
    else:
        lines = _format_text(found, loads, histories.versions)
        write_data(escape_control(line).encode() + b"\n" for line in lines)
    return 0


def parse_key(words: Sequence[str], histories: RowHistories) -> dict[str, str]:
    """Read `COLUMN=VALUE` words, or the value of a key with one column."""
    key = histories.schema.key
    wanted: dict[str, str] = {}
    for word in words:
        name = _find_column(word, _list_columns(histories))
        if name is not None:
            wanted[name] = word[len(name) + 1 :]
        elif len(key) == len(words) == 1 and _may_be_value(word, histories.schema):
            return {key[0]: word}
        elif "=" in word:
            raise ConfigError(_explain_column(word, histories), setting="KEY")
        else:
            columns = ", ".join(f"{column}=VALUE" for column in key) or "COLUMN=VALUE"
            raise ConfigError(f"must be {columns}, not {quote_given(word)}", setting="KEY")
    return wanted


def _list_columns(histories: RowHistories) -> list[str]:
    """Return the columns that the table has, and those that it had."""
    schemas = [version.schema for version in reversed(histories.versions)]
    return list(dict.fromkeys(column.name for schema in schemas for column in schema.columns))


def _find_column(word: str, names: Sequence[str]) -> str | None:
    """Return the column that a word names; names may contain `=`."""
    matching = [name for name in names if fold_name(word).startswith(f"{fold_name(name)}=")]
    return max(matching, key=len, default=None)


def _may_be_value(word: str, schema: TableSchema) -> bool:
    """Return whether a word may be a value of the key: only texts contain `=`."""
    column = schema.column(schema.key[0])
    if "=" not in word or column is None:
        return True
    try:
        return describe(column.type).kind in ("text", "enum", "set")
    except InvalidValue:
        return True


def _explain_column(word: str, histories: RowHistories) -> str:
    name, columns = word.partition("=")[0], _list_columns(histories)
    known = ", ".join(columns[:_MOST_COLUMNS]) + (", …" if len(columns) > _MOST_COLUMNS else "")
    hint = nearest(name, columns) or f"; it has {known}"
    return f"{histories.name} has no column {quote_given(name)}{hint}"


def _format_json(event: RowEvent) -> bytes:
    change = event.change
    fields = {
        "commit_ts": change.commit_ts,
        "time": texts.format_time(change.commit_ts),
        "op": change.op,
        "before": event.before,
        "after": event.after,
        "schema_version": change.schema_version,
        "position": str(change.position),
        "checksum": None if event.checksum == "absent" else event.checksum,
        "status": event.status or None,
    }
    stated = {name: value for name, value in fields.items() if value is not None}
    # JSON escapes stand for bytes that are not UTF-8.
    return json.dumps(stated).encode() + b"\n"


def _format_json_load(loaded: LoadedRows) -> Iterator[bytes]:
    load = loaded.load
    stated = {
        "commit_ts": load.ts,
        "time": texts.format_time(load.ts),
        "op": "load",
        "origin": load.origin,
    }
    if loaded.rows is None:
        yield json.dumps(stated | {"status": _GONE}).encode() + b"\n"
    for row in loaded.rows or ():
        yield json.dumps(stated | {"after": row}).encode() + b"\n"


def _format_text(
    found: Sequence[RowEvent], loads: Sequence[LoadedRows], versions: Sequence[SchemaVersionRow]
) -> Iterator[str]:
    """Yield the events and the loads, with the DDLs of the table between and after them."""
    # Of one ts, the events come first, and a load has what the DDLs did.
    lines = [(event.change.commit_ts, _format_event(event)) for event in found]
    start = min([ts for ts, _ in lines] + [each.load.ts for each in loads if each.rows != []])
    lines += [
        (version.valid_from, _format_ddl(version))
        for version in versions
        if version.sql and version.valid_from >= start
    ]
    lines += [(each.load.ts, _format_load(each)) for each in loads if each.load.ts >= start]
    for _, of_one in sorted(lines, key=_get_ts):
        yield from of_one


def _get_ts(line: tuple[int, object]) -> int:
    return line[0]


def _format_load(loaded: LoadedRows) -> Iterator[str]:
    load = loaded.load
    note = f"  {_GONE}" if loaded.rows is None else "" if loaded.rows else "  without this row"
    yield f"{texts.format_ts(load.ts)}  load    from {load.origin}{note}"
    for row in loaded.rows or ():
        for line in _format_values(None, row):
            yield f"    {line}"


def _format_ddl(ddl: SchemaVersionRow) -> Iterator[str]:
    yield f"{texts.format_ts(ddl.valid_from)}  ddl     {ddl.sql}"


def _format_event(event: RowEvent) -> Iterator[str]:
    change = event.change
    version = "" if change.schema_version is None else f"  schema version {change.schema_version}"
    notes = "" if event.checksum == "absent" else f"  checksum {event.checksum}"
    notes += f"  {event.status}" if event.status else ""
    yield f"{texts.format_ts(change.commit_ts)}  {change.op:<6}{version}  {change.position}{notes}"
    for line in _format_values(event.before, event.after):
        yield f"    {line}"


def _format_values(before: Printed | None, after: Printed | None) -> Iterator[str]:
    """Yield a line per column: of an update, those that changed."""
    if before is None or after is None:
        for name, value in (after or before or {}).items():
            yield f"{name}: {texts.format_value(value)}"
        return
    for name, value in after.items():
        if name in before and before[name] != value:
            yield texts.format_change(name, before[name], value)
