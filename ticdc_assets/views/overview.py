"""Views for people: the tables and their status, the events of a table, its schema versions."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.events import Bootstrap, RowChange, SchemaChange, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.written import read_json
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import DdlName, Incarnation, ShownStatus, State, ddl_name
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.event_rows import (
    SCHEMA,
    make_table_name,
    read_row_change,
    read_statements,
)
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.table_names import split_name

# Events are read in blocks of about this size, so that memory does not depend on their number.
_EVENTS_PER_READ = 20_000
_NO_TS = -1
_VERSION_COLUMNS = (
    *("incarnation", "schema", "valid_from", "valid_to", "origin", "ddl_type", "sql"),
)


@dataclass(frozen=True)
class TableOverview:
    """A table, complete up to `ts`; `rows` is None if it has no Delta table."""

    database: str
    table: str
    status: ShownStatus
    reason: str | None
    ts: int
    rows: int | None
    schema_version: int | None
    incarnation: str | None
    # The DDL at which the table was paused, if a DDL is the reason.
    blocking_ddl: str | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class SchemaVersionRow:
    """A version of a table's schema, and what stated it."""

    incarnation: str
    schema: TableSchema
    valid_from: int
    origin: str
    ddl_type: str
    sql: str
    # Whether the table ended with this version.
    ends: bool


def list_tables(reader: LakeReader, applied: Snapshot, *, dropped: bool) -> list[TableOverview]:
    """List all tables by name; the row counts come from the Delta log, not from data."""
    state = applied.state
    ids = {id for _, id in state.names}
    chosen = [t for t in state.incarnations.values() if dropped or t.id in ids]
    counts = {
        table.id: count_rows(reader, f"current/{table.id}", applied.versions[table.id])
        for table in chosen
        if table.id in applied.versions
    }
    lines = [
        TableOverview(
            *(table.schema.database, table.schema.table, table.shown_status, table.shown_reason),
            _complete_ts(table, state),
            counts.get(table.id),
            table.schema.version,
            table.id,
            _quoted_ddl(reader, state, table),
        )
        for table in chosen
    ]
    lines += [
        TableOverview(u.database, u.table, "waiting", _UNKNOWN, u.stopped_ts, None, None, None)
        for u in state.unknown_tables
    ]
    return sorted(lines, key=lambda line: (line.database, line.table, line.ts))


_UNKNOWN = "rows have arrived, but no schema yet"


def _complete_ts(table: Incarnation, state: State) -> int:
    if table.is_stopped and table.complete_ts is not None:
        return table.complete_ts
    return state.ts if table.dropped_ts is None else table.dropped_ts


def _quoted_ddl(reader: LakeReader, state: State, table: Incarnation) -> str | None:
    if table.status != "paused":
        return None
    ddl = find_blocking_ddl(reader, state, table)
    return ddl[1][0] if ddl is not None and ddl[1][0] in (table.reason or "") else None


def find_blocking_ddl(
    reader: LakeReader, state: State, table: Incarnation
) -> tuple[int, DdlName] | None:
    """Find the DDL at which a table stopped: the one in its reason, else its first one since."""
    since = table.stopped_ts or 0
    is_later_ddl = (pc.field("kind") == "ddl") & (pc.field("commit_ts") >= since)
    columns = ["commit_ts", "seq", "index", "kind", "statement", "name"]
    ddls = reader.read(reader.open("events"), columns, is_later_ddl)
    rows = _sort_events(ddls)
    own = make_table_name(table.schema.database, table.schema.table)
    quoted, others = [], []
    changes = read_statements(rows)
    for row, change in zip(rows, changes, strict=True):
        assert isinstance(change, SchemaChange)
        ddl = change.commit_ts, ddl_name(change)
        if ddl in state.skipped_ddls or (
            change.commit_ts == state.ts == since and ddl[1] in state.applied_ddls
        ):
            continue
        if change.sql and change.sql in (table.reason or ""):
            quoted.append((row["name"] != own, ddl))
        elif row["name"] == own and change.commit_ts > since:
            others.append(ddl)
    if quoted:
        return min(quoted)[1]
    return min(others) if others else None


def possible_names(text: str) -> list[str]:
    """Return the values of `name` that `db.table` can mean."""
    names = (make_table_name(*pair) for pair in split_name(text))
    return [name for name in names if name is not None]


def read_table_events(
    reader: LakeReader, text: str, limit: int | None = None
) -> Iterator[RowChange | SchemaChange | Bootstrap]:
    """Read the events under a table's name in order of commit ts; with a limit the newest."""
    events = reader.open("events")
    is_chosen = pc.field("name").isin(possible_names(text)) & pc.field("kind").isin(
        ["row", "ddl", "bootstrap"]
    )
    found = reader.read(events, ["commit_ts"], is_chosen)["commit_ts"].to_pylist()
    # A bootstrap has no commit ts and comes first.
    tsos = sorted(_NO_TS if ts is None else ts for ts in found)
    for block in _split(tsos if limit is None else tsos[-limit:]):
        rows = reader.read(events, SCHEMA.names, is_chosen & _is_between(block[0], block[-1]))
        # With a limit, only some of the oldest commit ts.
        for row in _sort_events(rows)[-len(block) :]:
            if row["kind"] == "row":
                yield read_row_change(row)
            else:
                yield from read_statements([row])


def _split(tsos: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split sorted commit ts into blocks; equal ones stay together."""
    start = 0
    while start < len(tsos):
        last = tsos[min(start + _EVENTS_PER_READ, len(tsos)) - 1]
        end = bisect_right(tsos, last)
        yield tsos[start:end]
        start = end


def _is_between(first: int, last: int) -> pc.Expression:
    ts = pc.field("commit_ts")
    between = (ts >= first) & (ts <= last)
    return between | ts.is_null() if first == _NO_TS else between


def _sort_events(events: pa.Table) -> list[dict[str, Any]]:
    def place(row: dict[str, Any]) -> tuple[int, ...]:
        ts = _NO_TS if row["commit_ts"] is None else row["commit_ts"]
        return ts, row["seq"], row["index"]

    return sorted(events.to_pylist(), key=place)


def read_schema_versions(reader: LakeReader, text: str) -> list[SchemaVersionRow]:
    """Read the schema versions of every table that ever had this name, table by table."""
    history = reader.open("schema_history")
    is_of_table = pc.field("incarnation") != ""
    names = reader.read(history, ["incarnation", "database", "table"], is_of_table).to_pylist()
    ids = {
        row["incarnation"]
        for row in names
        if fold_name(f"{row['database']}.{row['table']}") == fold_name(text)
    }
    rows = reader.read(history, _VERSION_COLUMNS, pc.field("incarnation").isin(sorted(ids)))
    versions = [
        SchemaVersionRow(
            row["incarnation"],
            read_json(row["schema"], TableSchema),
            row["valid_from"],
            row["origin"],
            row["ddl_type"],
            row["sql"],
            row["valid_to"] == row["valid_from"],
        )
        for row in rows.to_pylist()
    ]
    births: dict[str, int] = {}
    for version in sorted(versions, key=lambda version: version.valid_from):
        births.setdefault(version.incarnation, version.valid_from)
    return sorted(versions, key=lambda v: (births[v.incarnation], v.incarnation, v.valid_from))
