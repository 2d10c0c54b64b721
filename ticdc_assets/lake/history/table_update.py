"""One table of versions to update: from which snapshot, and through which window."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.keyed import list_operations
from ticdc_assets.lake.apply.multiset import list_changes
from ticdc_assets.lake.apply.typed_rows import spell_key
from ticdc_assets.lake.apply.versions import (
    VersionFrame,
    keep_versions,
    keeps_versions,
    list_versions,
    mark_start,
)
from ticdc_assets.lake.apply.window import PreparedWindow
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import are_equal, get_column, get_from, identify
from ticdc_assets.lake.history.rows import LOAD
from ticdc_assets.lake.history.versions_table import UpdateMark, VersionsTable
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.reader import MANY_ROWS
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.steps import Alter, ApplyRows, TableWork
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, list_delta_columns
from ticdc_assets.rows.merged_steps import merge_steps

_Stored = TypeVar("_Stored", bound=VersionsTable)


@dataclass(frozen=True)
class TableUpdate(ABC, Generic[_Stored]):
    """One table of versions to update."""

    table: Incarnation
    stored: _Stored
    goal: UpdateMark
    base: Snapshot
    # None if nothing happened since the snapshot.
    window: PreparedWindow | None

    @abstractmethod
    def write(self) -> None:
        """Write what the window changes."""

    @property
    def before(self) -> Incarnation | None:
        """The table at the snapshot."""
        return self.base.state.incarnations.get(self.table.id)

    @property
    def schema(self) -> TableSchema:
        """The schema at the snapshot."""
        return self.table.schema if self.before is None else self.before.schema

    @property
    def work(self) -> TableWork:
        planned = {} if self.window is None else self.window.plan.work
        return planned.get(self.table.id) or TableWork(self.table.id, self.schema, False, ())

    @property
    def is_small(self) -> bool:
        """Whether the update takes little work."""
        has_few = self.window is None or self.window.row_count < MANY_ROWS
        return has_few and not self.stored.is_large

    @property
    def goes_on(self) -> bool:
        """Whether what the table has up to the snapshot stays as it is."""
        known = self.stored.mark
        return known is not None and known.ts <= self.base.ts

    @property
    def begins(self) -> bool:
        """Whether the table is written from nothing."""
        return self.stored.version is None or self.before is None

    @property
    def appends(self) -> bool:
        """Whether only new rows come."""
        rows = [step for step in self.work.steps if isinstance(step, ApplyRows)]
        are_new = all(step.inserts_only and step.is_ordered_by_commit_ts for step in rows)
        return are_new and self.window is not None and not self.window.may_lack_changes

    @cached_property
    def is_by_row(self) -> bool:
        """Whether only versions of rows with events begin or end."""
        window, work = self.window, self.work
        steps = merge_steps(work.before, work.steps)
        if window is None or (not work.before.key and len(steps) > 1):
            return False
        schemas = [work.before, *(step.schema for step in steps)]
        if len({_get_key(schema) for schema in schemas}) > 1:
            return False
        before = window.frames.empty(work.before)
        schema = work.before
        for step in steps:
            if isinstance(step, Alter) and not keeps_versions(before, schema, step):
                return False
            if not isinstance(step, Alter | ApplyRows):
                return False
            schema = step.schema
        return True

    @property
    def has_few_rows(self) -> bool:
        """Whether this process can hold what the table has in the end."""
        if self.stored.is_large or not (self.window is None or self.window.has_few_rows):
            return False
        # A load brings rows without events.
        reader, current = self.stored.reader, f"current/{self.table.id}"
        return not self.table.is_loaded or reader.is_small(reader.open(current, self.goal.version))

    def read_loaded(self) -> DataFrame | None:
        """Return the rows with which a load began the table, as versions; None if none did."""
        if self.window is None or not self.table.is_loaded:
            return None
        rows = self.window.frames.read_start(self.table.id)
        since = mark_start(F.col(COMMIT_TS), F.lit(LOAD))
        return None if rows is None else rows.withColumn(COMMIT_TS, since)

    def select_touched(self, window: PreparedWindow, opened: DataFrame) -> DataFrame:
        """Select the versions that were open before a window and may end in it."""
        frames, work = window.frames, self.work
        segments = [
            frames.read_segment(step)
            for step in merge_steps(work.before, work.steps)
            if isinstance(step, ApplyRows)
        ]
        if not segments:
            return opened.where(F.lit(False))
        if not work.before.key:
            # There is one.
            changes = list_changes(segments[0], opened, frames.find_passes(segments[0]))
            names = segments[0].value_names
            every = [list(map(get_from(rows), names)) for rows in (opened, changes)]
            return opened.join(changes, are_equal(*every), "left_semi")
        key = segments[0].key
        names = [*(column.name for column in key), INEXACT]
        touched = combine_pairwise(
            DataFrame.unionByName,
            (list_operations(segment).select(*map(get_column, names)) for segment in segments),
        )
        keys = [identify(key, get_from(rows)) for rows in (opened, touched)]
        return opened.join(touched, are_equal(*keys), "left_semi")

    def list_frames(self, first: DataFrame | None) -> list[VersionFrame]:
        """Take the table through the window; `first` are its open versions."""
        work, window, stored = self.work, self.window, self.stored
        if window is not None:
            planned = window.plan.state.incarnations.get(self.table.id)
            if planned is None or planned.is_stopped:
                reason = "the events do not make this table" if planned is None else planned.reason
                raise TableCannotContinue(f"its {stored.folder} cannot be computed: {reason}")
        if first is not None and not work.steps:
            return [VersionFrame(work.before, work.before, keep_versions(first))]
        if window is not None:
            return list_versions(window.frames, work, first)
        raise TableCannotContinue("nothing is known of the rows of this table")


def _get_key(schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Return the key columns of a table."""
    key = spell_key(schema)
    return tuple((c.name, c.type) for c in list_delta_columns(schema) if c.column in key)
