"""The lake as its own small tables tell it: which tables there are, and what a run has changed.

Only values live here; who has read them, with Spark or without, is another's business.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.lake.log.applied_row import AppliedRow, RowCounts

# Incarnation, since when, and by which statement: what tells schema versions apart.
VersionName = tuple[str, int, str]


@dataclass(frozen=True)
class LakeTable:
    """A line of `tables`, and the newest schema of that table."""

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
    """A line of `schema_history`: what a table became, when, and by which statement."""

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
    """What is known of one changefeed's part of a lake, at some moment."""

    tables: Mapping[str, LakeTable] = field(default_factory=dict)
    last: AppliedRow | None = None
    # The Delta version of every table at `last`.
    versions: Mapping[str, int] = field(default_factory=dict)
    steps: Sequence[SchemaVersionEntry] = ()
    # The Delta versions of the tables that all this was read from.
    read_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def ts(self) -> int:
        return 0 if self.last is None else self.last.ts

    @property
    def snapshot_id(self) -> int:
        return 0 if self.last is None else self.last.snapshot_id

    def named(self) -> dict[tuple[str, str], LakeTable]:
        """The tables that are not dropped, by the name they have now.

        Of one name there is one table; were there two, the younger has it.
        """
        there = [t for t in self.tables.values() if t.status != "dropped" and t.table]
        there.sort(key=lambda table: (table.created_ts, table.incarnation))
        names = {(folded(t.database), folded(t.table)): t for t in there}
        return {(t.database, t.table): t for t in sorted(names.values(), key=lambda t: t.name)}


@dataclass(frozen=True)
class TableChange:
    """What a run has done to one table."""

    table: LakeTable
    # None where it had not been there, or under its name.
    before: LakeTable | None
    counts: RowCounts
    version: int | None
    steps: Sequence[SchemaVersionEntry]

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
    """The tables that are not as they were, by incarnation; `rows` were written in between."""
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
            table, before.tables.get(id), counts[id], after.versions.get(id), tuple(steps[id])
        )
        for id, table in after.tables.items()
        if before.tables.get(id) != table
        or before.versions.get(id) != after.versions.get(id)
        or counts[id].read
        or steps[id]
    }
