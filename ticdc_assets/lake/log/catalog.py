"""The lake as its own small tables tell it: which tables there are, and what a run has changed.

Only values live here; who has read them, with Spark or without, is another's business.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import folded

# Incarnation, since when, and by which statement: what tells schema versions apart.
VersionName = tuple[str, int, str]


@dataclass(frozen=True)
class LakeTable:
    """A line of `tables`, and the newest schema of that table."""

    incarnation: str
    database: str
    table: str
    state: str
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
class RowCounts:
    """What became of the row events that were due for a table."""

    read: int = 0
    applied: int = 0
    superseded: int = 0
    quarantined: int = 0
    inexact: int = 0

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            self.read + other.read,
            self.applied + other.applied,
            self.superseded + other.superseded,
            self.quarantined + other.quarantined,
            self.inexact + other.inexact,
        )


@dataclass(frozen=True)
class AppliedRow:
    """A line of `applied`; `versions` are those that the line itself names."""

    seq: int
    at: datetime
    ts: int
    batch: int
    watermarks: Mapping[str, int]
    versions: Mapping[str, int]
    counts: Sequence[tuple[str, RowCounts]]
    replays: int | None
    state_seq: int


@dataclass(frozen=True)
class LakeCatalog:
    """What is known of one changefeed's part of a lake, at some moment."""

    tables: Mapping[str, LakeTable] = field(default_factory=dict)
    line: AppliedRow | None = None
    # Of every table that has a Delta table, as of `line`.
    versions: Mapping[str, int] = field(default_factory=dict)
    steps: Sequence[SchemaVersionEntry] = ()
    # The Delta versions of the tables that all this was read from.
    read_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def ts(self) -> int:
        return 0 if self.line is None else self.line.ts

    @property
    def seq(self) -> int:
        return 0 if self.line is None else self.line.seq

    def named(self) -> dict[tuple[str, str], LakeTable]:
        """The tables that are not dropped, by the name they have now.

        Of one name there is one table; were there two, the younger has it.
        """
        there = [t for t in self.tables.values() if t.state != "dropped" and t.table]
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
        return self.table.state == "dropped"

    @property
    def renamed(self) -> bool:
        return self.before is not None and self.before.name != self.table.name


def table_changes(
    before: LakeCatalog, after: LakeCatalog, lines: Iterable[AppliedRow]
) -> dict[str, TableChange]:
    """The tables that are not as they were, by incarnation; `lines` were written in between."""
    counts: dict[str, RowCounts] = defaultdict(RowCounts)
    for line in lines:
        for incarnation, counted in line.counts:
            counts[incarnation] += counted
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
