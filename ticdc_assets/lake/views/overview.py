"""The lake as a person looks at it: its tables, what each is up to, what has come of one."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Bootstrap, RowChange, SchemaChange, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.lake.apply.current_table import row_counts
from ticdc_assets.lake.events.event_rows import make_table_name, read_row_change, read_statements
from ticdc_assets.lake.log.applied import Snapshot, read_last_snapshot
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.plan.state import DdlName, Incarnation, State, ddl_name


@dataclass(frozen=True)
class TableOverview:
    """A table: `ts` is up to when it is applied, `rows` None where it has no Delta table."""

    database: str
    table: str
    status: str
    reason: str | None
    ts: int
    rows: int | None
    schema_version: int | None
    incarnation: str | None
    # The statement that it stopped at, if it is one.
    blocking_ddl: str | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class SchemaVersionRow:
    """A version of a table's schema, and what made it."""

    incarnation: str
    schema: TableSchema
    valid_from: int
    origin: str
    ddl_type: str
    sql: str
    # Whether the table ended with it.
    ends: bool


def read_existing_snapshot(lake: LakeSession) -> Snapshot:
    """The newest line of a lake that must be there."""
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
    """Say that nothing is there."""
    reason = f"holds nothing of changefeed {lake.changefeed!r} yet: run advance first"
    return ConfigError(reason, file=lake.root, setting="--lake")


def list_tables(lake: LakeSession, applied: Snapshot, *, dropped: bool) -> list[TableOverview]:
    """All tables by name; counting rows reads no data, only Delta's log."""
    state = applied.state
    ids = {id for _, id in state.names}
    chosen = [t for t in state.incarnations.values() if dropped or t.id in ids]

    there = {t.id: applied.versions[t.id] for t in chosen if t.id in applied.versions}
    counts = row_counts(lake, there)
    lines = [
        TableOverview(
            *(table.schema.database, table.schema.table, table.status, table.reason),
            _kept_until(table, state),
            counts.get(table.id),
            table.schema.version,
            table.id,
            _blamed(lake, state, table),
        )
        for table in chosen
    ]
    lines += [
        TableOverview(u.database, u.table, "waiting", _UNKNOWN, u.stopped_ts, None, None, None)
        for u in state.unknown_tables
    ]
    return sorted(lines, key=lambda line: (line.database, line.table, line.ts))


_UNKNOWN = "rows have come, and nothing yet that tells their columns"


def _kept_until(table: Incarnation, state: State) -> int:
    if table.is_stopped and table.stopped_ts is not None:
        return table.stopped_ts
    return state.ts if table.dropped_ts is None else table.dropped_ts


def _blamed(lake: LakeSession, state: State, table: Incarnation) -> str | None:
    if table.status != "paused":
        return None
    found = find_blocking_ddl(lake, state, table)
    return found[1][0] if found is not None and found[1][0] in (table.reason or "") else None


def find_table(state: State, name: str) -> Incarnation:
    """The table that a person calls `db.table`."""
    wanted = folded(name)
    there = [state.incarnations[id] for _, id in state.names]
    found = [t for t in there if folded(f"{t.schema.database}.{t.schema.table}") == wanted]
    if len(found) > 1:
        names = " or ".join(f"`{t.schema.database}`.`{t.schema.table}`" for t in found)
        raise ConfigError(f"{name} may be {names}", setting="DB.TABLE")
    if not found:
        raise ConfigError(f"no table {name} in the lake", setting="DB.TABLE")
    return found[0]


def find_blocking_ddl(
    lake: LakeSession, state: State, table: Incarnation
) -> tuple[int, DdlName] | None:
    """The DDL that a table stopped at: the one its reason quotes, else its first one since."""
    since = table.stopped_ts or 0
    told = lake.read("events").where(f"kind = 'ddl' AND commit_ts >= {since}")
    rows = told.orderBy("commit_ts", "seq", "index").select("kind", "statement", "name").collect()
    own = make_table_name(table.schema.database, table.schema.table)
    quoting, others = [], []
    changes = read_statements(row.asDict() for row in rows)
    for row, change in zip(rows, changes, strict=True):
        assert isinstance(change, SchemaChange)
        found = change.commit_ts, ddl_name(change)
        if found in state.skipped_ddls or (
            change.commit_ts == state.ts == since and found[1] in state.applied_ddls
        ):
            continue
        if change.sql and change.sql in (table.reason or ""):
            quoting.append((row["name"] != own, found))
        elif row["name"] == own and change.commit_ts > since:
            others.append(found)
    if quoting:
        return min(quoting)[1]
    return min(others) if others else None


def possible_names(text: str) -> list[str]:
    """What `name` a table may have that a person calls `db.table`; names may have dots."""
    parts = text.split(".")
    splits = range(1, len(parts))
    names = (make_table_name(".".join(parts[:i]), ".".join(parts[i:])) for i in splits)
    return [name for name in names if name is not None]


def read_table_events(
    lake: LakeSession, text: str, limit: int | None = None
) -> Iterator[RowChange | SchemaChange | Bootstrap]:
    """What has come under a table's name, in order of commit ts; with a limit the newest."""
    chosen = lake.read("events").where(
        F.col("name").isin(possible_names(text)) & F.col("kind").isin("row", "ddl", "bootstrap")
    )
    # A bootstrap has no commit ts: it stands first.
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
    """Every version of the tables that had this name at any time, one table after the other."""
    lines = lake.read("schema_history").where("incarnation <> ''")
    called = [
        row["incarnation"]
        for row in lines.select("incarnation", "database", "table").distinct().collect()
        if folded(f"{row['database']}.{row['table']}") == folded(text)
    ]
    if not called:
        raise ConfigError(f"no table {text} in the lake", setting="DB.TABLE")
    rows = lines.where(F.col("incarnation").isin(sorted(set(called)))).collect()
    found = [
        SchemaVersionRow(
            row["incarnation"],
            msgspec.json.decode(row["schema"], type=TableSchema),
            row["valid_from"],
            row["origin"],
            row["ddl_type"],
            row["sql"],
            row["valid_to"] == row["valid_from"],
        )
        for row in rows
    ]
    births: dict[str, int] = {}
    for line in found:
        births[line.incarnation] = min(
            births.get(line.incarnation, line.valid_from), line.valid_from
        )
    return sorted(
        found, key=lambda line: (births[line.incarnation], line.incarnation, line.valid_from)
    )
