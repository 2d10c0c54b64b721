"""Views for people: the tables and their status, the events of a table, its schema versions."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Bootstrap, RowChange, SchemaChange, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.apply.current_table import count_rows
from ticdc_assets.lake.events.event_rows import make_table_name, read_row_change, read_statements
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.plan.state import DdlName, Incarnation, State, ddl_name


@dataclass(frozen=True)
class TableOverview:
    """A table, complete up to `ts`; `rows` is None if it has no Delta table."""

    database: str
    table: str
    status: str
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


def read_existing_snapshot(lake: LakeSession) -> Snapshot:
    """Read the last snapshot; raise a `ConfigError` if there is none."""
    try:
        applied = read_last_snapshot(lake)
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if not condition.startswith(("DELTA_", "PATH_NOT_FOUND")):
            raise
        raise missing_lake_error(lake.location) from None
    if not applied.snapshot_id:
        raise missing_lake_error(lake.location)
    return applied


def missing_lake_error(lake: Lake) -> ConfigError:
    """Make the error for a lake without snapshots."""
    reason = f"holds nothing of changefeed {lake.changefeed!r} yet: run advance first"
    return ConfigError(reason, file=lake.root, setting="--lake")


def list_tables(lake: LakeSession, applied: Snapshot, *, dropped: bool) -> list[TableOverview]:
    """List all tables by name; the row counts come from the Delta log, not from data."""
    state = applied.state
    ids = {id for _, id in state.names}
    chosen = [t for t in state.incarnations.values() if dropped or t.id in ids]

    versions = {t.id: applied.versions[t.id] for t in chosen if t.id in applied.versions}
    counts = count_rows(lake, versions)
    lines = [
        TableOverview(
            *(table.schema.database, table.schema.table, table.shown_status, table.shown_reason),
            _complete_ts(table, state),
            counts.get(table.id),
            table.schema.version,
            table.id,
            _quoted_ddl(lake, state, table),
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
    if table.is_stopped and table.stopped_ts is not None:
        return table.stopped_ts
    return state.ts if table.dropped_ts is None else table.dropped_ts


def _quoted_ddl(lake: LakeSession, state: State, table: Incarnation) -> str | None:
    if table.status != "paused":
        return None
    ddl = find_blocking_ddl(lake, state, table)
    return ddl[1][0] if ddl is not None and ddl[1][0] in (table.reason or "") else None


def find_table(state: State, name: str) -> Incarnation:
    """Find a table by `db.table`; raise a `ConfigError` unless exactly one matches."""
    wanted = fold_name(name)
    tables = [state.incarnations[id] for _, id in state.names]
    matches = [t for t in tables if fold_name(f"{t.schema.database}.{t.schema.table}") == wanted]
    if len(matches) > 1:
        names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in matches)
        raise ConfigError(f"{name} may be {names}", setting="DB.TABLE")
    if not matches:
        raise ConfigError(f"no table {name} in the lake", setting="DB.TABLE")
    return matches[0]


def find_blocking_ddl(
    lake: LakeSession, state: State, table: Incarnation
) -> tuple[int, DdlName] | None:
    """Find the DDL at which a table stopped: the one in its reason, else its first one since."""
    since = table.stopped_ts or 0
    ddls = lake.read("events").where(f"kind = 'ddl' AND commit_ts >= {since}")
    rows = ddls.orderBy("commit_ts", "seq", "index").select("kind", "statement", "name").collect()
    own = make_table_name(table.schema.database, table.schema.table)
    quoted, others = [], []
    changes = read_statements(row.asDict() for row in rows)
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
    """Return the values of `name` that `db.table` can mean: names may contain dots."""
    parts = text.split(".")
    splits = range(1, len(parts))
    names = (make_table_name(".".join(parts[:i]), ".".join(parts[i:])) for i in splits)
    return [name for name in names if name is not None]


def read_table_events(
    lake: LakeSession, text: str, limit: int | None = None
) -> Iterator[RowChange | SchemaChange | Bootstrap]:
    """Read the events under a table's name in order of commit ts; with a limit the newest."""
    chosen = lake.read("events").where(
        F.col("name").isin(possible_names(text)) & F.col("kind").isin("row", "ddl", "bootstrap")
    )
    # A bootstrap has no commit ts and comes first.
    order = [F.col("commit_ts"), F.col("seq"), F.col("index")]
    if limit is not None:
        chosen = chosen.orderBy(*(column.desc_nulls_last() for column in order)).limit(limit)
    chosen = chosen.repartition(1).sortWithinPartitions(*(c.asc_nulls_first() for c in order))
    for row in chosen.toLocalIterator():
        if row["kind"] == "row":
            yield read_row_change(row.asDict())
        else:
            yield from read_statements([row.asDict()])


def read_schema_versions(lake: LakeSession, text: str) -> list[SchemaVersionRow]:
    """Read the schema versions of every table that ever had this name, table by table."""
    history = lake.read("schema_history").where("incarnation <> ''")
    names = history.select("incarnation", "database", "table").distinct().collect()
    ids = {
        row["incarnation"]
        for row in names
        if fold_name(f"{row['database']}.{row['table']}") == fold_name(text)
    }
    if not ids:
        raise ConfigError(f"no table {text} in the lake", setting="DB.TABLE")
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
        for row in history.where(F.col("incarnation").isin(sorted(ids))).collect()
    ]
    births: dict[str, int] = {}
    for version in sorted(versions, key=lambda version: version.valid_from):
        births.setdefault(version.incarnation, version.valid_from)
    return sorted(versions, key=lambda v: (births[v.incarnation], v.incarnation, v.valid_from))
