"""What the lake's log says of a range of snapshots, read without Spark."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.log.applied_files import read_snapshot
from ticdc_assets.log.applied_row import APPLIED_COLUMNS, AppliedRow, decode_applied_row
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader

_VERSION_COLUMNS = (
    *("incarnation", "database", "table", "valid_from", "valid_to", "schema_version"),
    *("origin", "sql", "key"),
)


@dataclass(frozen=True)
class SnapshotRange:
    """The snapshots after `since`, up to and including `through`: what one or more runs applied.

    A range since snapshot 0 covers everything and makes a full check.
    """

    since: int
    through: int

    @property
    def is_full(self) -> bool:
        return self.since == 0

    @property
    def is_empty(self) -> bool:
        return self.through <= self.since


@dataclass(eq=False)
class RangeLog:
    """A range of snapshots: the lake before and after it, and the schemas of its tables.

    `only` restricts it to some tables.
    """

    lake: LakeSession
    range: SnapshotRange
    only: Collection[str] | None = None

    @property
    def feed(self) -> Changefeed:
        return self.lake.feed

    def read_rows(
        self, table: str, columns: Sequence[str], where: pc.Expression
    ) -> list[dict[str, Any]]:
        """Read rows of one of the lake's own tables that are few into this process."""
        reader = LakeReader(self.lake.location)
        rows: list[dict[str, Any]] = reader.read(reader.open(table), columns, where).to_pylist()
        return rows

    # The snapshots

    @cached_property
    def before(self) -> Snapshot:
        """The snapshot before the range."""
        return read_snapshot(LakeReader(self.lake.location), self.range.since)

    @cached_property
    def after(self) -> Snapshot:
        """The last snapshot of the range."""
        return read_snapshot(LakeReader(self.lake.location), self.range.through)

    @cached_property
    def snapshots(self) -> list[AppliedRow]:
        """The snapshots of the range and the one before it, in order."""
        since, through = self.range.since, self.range.through
        number = pc.field("snapshot_id")
        rows = self.read_rows("applied", APPLIED_COLUMNS, (number >= since) & (number <= through))
        return sorted(map(decode_applied_row, rows), key=lambda row: row.snapshot_id)

    @property
    def new_snapshots(self) -> list[AppliedRow]:
        return [row for row in self.snapshots if row.snapshot_id > self.range.since]

    @cached_property
    def replayed_tables(self) -> set[str]:
        """Tables that the range replayed: their counts cover earlier windows too."""
        rows = [row for row in self.new_snapshots if row.replayed_from is not None]
        counted = {count.incarnation for row in rows for count in row.counts}
        return counted | {incarnation for row in rows for incarnation in row.versions}

    @property
    def has_replays(self) -> bool:
        return any(row.replayed_from is not None for row in self.new_snapshots)

    @property
    def in_new_batches(self) -> str:
        """An SQL condition: ingested by the range."""
        return f"batch > {self.before.batch} AND batch <= {self.after.batch}"

    @property
    def description(self) -> str:
        """The range as a person reads it."""
        before, after = self.before, self.after
        if self.range.is_full:
            return f"everything up to commit ts {after.ts}, batch {after.batch}"
        return (
            f"commit ts {before.ts} to {after.ts}, batches {before.batch + 1} to {after.batch}"
            f" (snapshots {self.range.since + 1} to {self.range.through})"
        )

    # Schemas

    @cached_property
    def schema_versions(self) -> list[dict[str, Any]]:
        """Every schema version of every table, without the schema itself."""
        return self.read_rows("schema_history", _VERSION_COLUMNS, pc.field("incarnation") != "")

    @cached_property
    def schema_versions_by_table(self) -> dict[str, list[dict[str, Any]]]:
        versions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self.schema_versions:
            versions[row["incarnation"]].append(row)
        return dict(versions)

    def _names_of(self, incarnation: str) -> set[str | None]:
        versions = self.schema_versions_by_table.get(incarnation, ())
        return {make_table_name(row["database"], row["table"]) for row in versions}

    @cached_property
    def newest_schemas(self) -> dict[str, str]:
        """The newest schema of every table that the range changed, as JSON."""
        newest = {
            table.id: max(map(_order_versions, versions))
            for table in self.tables
            if self.has_changed(table) and (versions := self.schema_versions_by_table.get(table.id))
        }
        begins = {valid_from for valid_from, _ in newest.values()}
        rows = self.read_rows(
            "schema_history",
            ("incarnation", "valid_from", "valid_to", "schema"),
            pc.field("incarnation").isin(list(newest)) & pc.field("valid_from").isin(list(begins)),
        )
        return {
            row["incarnation"]: row["schema"]
            for row in rows
            if newest[row["incarnation"]] == _order_versions(row)
        }

    # Tables

    @cached_property
    def tables(self) -> list[Incarnation]:
        """The tables that exist after the range."""
        state = self.after.state
        ids = [id for _, id in state.names if self.only is None or id in self.only]
        return [state.incarnations[id] for id in ids]

    def has_changed(self, table: Incarnation) -> bool:
        """Return whether the range changed a table's rows, schema or status."""
        if self.range.is_full or table.id in self.replayed_tables:
            return True
        if self.before.state.incarnations.get(table.id) != table:
            return True
        return self.before.versions.get(table.id) != self.after.versions.get(table.id)


def _order_versions(version: Mapping[str, Any]) -> tuple[int, bool]:
    """Return what orders the schema versions of a table: one that ended at once precedes."""
    return version["valid_from"], version["valid_to"] is None
