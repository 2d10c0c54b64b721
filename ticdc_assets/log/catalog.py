"""The catalog of a lake as values: its tables, and what a run changed.

Nothing here reads the lake: `ticdc_assets.resources.catalog` does, without Spark.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.log.applied_row import AppliedRow, RowCounts

# What identifies a schema version: incarnation, valid_from and SQL.
VersionName = tuple[str, int, str]


@dataclass(frozen=True)
class LakeTable:
    """A row of `tables`, with the newest schema of the table."""

    incarnation: str
    database: str
    table: str
    status: str
    reason: str | None
    stopped_ts: int | None
    created_ts: int
    dropped_ts: int | None
    schema: TableSchema | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class SchemaVersionEntry:
    """A row of `schema_history`: since when a version is valid, and by which DDL."""

    incarnation: str
    database: str
    table: str
    valid_from: int
    ddl_type: str
    sql: str

    @property
    def name(self) -> VersionName:
        return self.incarnation, self.valid_from, self.sql


@dataclass(frozen=True)
class LakeCatalog:
    """The catalog of one changefeed at the time of reading."""

    tables: Mapping[str, LakeTable] = field(default_factory=dict)
    last: AppliedRow | None = None
    # The Delta version of every table at `last`.
    versions: Mapping[str, int] = field(default_factory=dict)
    steps: Sequence[SchemaVersionEntry] = ()
    # The Delta versions of the lake's own tables that this was read from.
    read_at: Mapping[str, int] = field(default_factory=dict)
    # The id that Delta gave `applied`: a lake that was deleted and built again has another one.
    lake_id: str = ""

    @property
    def ts(self) -> int:
        return 0 if self.last is None else self.last.ts

    @property
    def snapshot_id(self) -> int:
        return 0 if self.last is None else self.last.snapshot_id

    def named(self) -> dict[tuple[str, str], LakeTable]:
        """Return the tables that are not dropped by their present names.

        Should two tables have one name, the younger one gets it.
        """
        tables = [t for t in self.tables.values() if t.status != "dropped" and t.table]
        tables.sort(key=lambda table: (table.created_ts, table.incarnation))
        names = {(fold_name(t.database), fold_name(t.table)): t for t in tables}
        return {(t.database, t.table): t for t in sorted(names.values(), key=lambda t: t.name)}


@dataclass(frozen=True)
class TableChange:
    """What a run changed in one table."""

    table: LakeTable
    # None for a table that is new.
    before: LakeTable | None
    counts: RowCounts
    version: int | None
    steps: Sequence[SchemaVersionEntry]
    # The snapshot that gave it the rows and columns that it has; None if that was none of those
    # reported: a status may be all that changed, or how rows are distributed over files.
    content_from: AppliedRow | None = None

    @property
    def appeared(self) -> bool:
        return self.before is None

    @property
    def dropped(self) -> bool:
        return self.table.status == "dropped"

    @property
    def renamed(self) -> bool:
        return self.before is not None and self.before.name != self.table.name


def table_changes(
    before: LakeCatalog, after: LakeCatalog, rows: Iterable[AppliedRow]
) -> dict[str, TableChange]:
    """Return the changed tables by incarnation; `rows` of `applied` lie between the catalogs."""
    rows = list(rows)
    contents = _find_contents(before, rows)
    counts: dict[str, RowCounts] = defaultdict(RowCounts)
    for row in rows:
        for count in row.counts:
            counts[count.incarnation] += count.rows
    known = {step.name for step in before.steps}
    steps: dict[str, list[SchemaVersionEntry]] = defaultdict(list)
    for step in sorted(after.steps, key=lambda step: step.valid_from):
        if step.name not in known:
            steps[step.incarnation].append(step)
    return {
        id: TableChange(
            *(table, before.tables.get(id), counts[id], after.versions.get(id)),
            *(tuple(steps[id]), contents.get(id)),
        )
        for id, table in after.tables.items()
        if before.tables.get(id) != table
        or before.versions.get(id) != after.versions.get(id)
        or counts[id].read
        or steps[id]
    }


def _find_contents(before: LakeCatalog, rows: Iterable[AppliedRow]) -> dict[str, AppliedRow]:
    """Return the last snapshot that wrote rows or columns of each table, by incarnation.

    A window does at a later ts, a replay from an earlier snapshot; maintenance writes files anew.
    """
    versions, ts = dict(before.versions), before.ts
    found: dict[str, AppliedRow] = {}
    for row in rows:
        if row.ts > ts or row.replayed_from is not None:
            written = (id for id, version in row.versions.items() if versions.get(id) != version)
            found |= dict.fromkeys(written, row)
        versions |= row.versions
        ts = row.ts
    return found
