"""Carries out what the plan says of one table, on its Delta table.

A table starts from the version that the last line of `applied` tells, whatever a run that was
killed has done to it since.  What only adds rows is appended; what changes rows by their events is
merged; DDL that only changes columns touches no row; everything else is worked out as a whole and
written at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import TicdcError, UnsupportedDdl
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.apply.frames import Frames, changes_no_row
from ticdc_assets.lake.apply.keyed import final_rows, lost_keys, put_rows
from ticdc_assets.lake.apply.merged_steps import merge_steps
from ticdc_assets.lake.apply.multiset import repeated, replaced
from ticdc_assets.lake.apply.quarantined_rows import stop_reason
from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.log.applied_row import RowCounts, TableCounts
from ticdc_assets.plan.steps import Alter, ApplyRows, Exchange, TableWork
from ticdc_assets.stream.problem import OLD_KEY_MISSING


@dataclass
class TableOutcome:
    """What became of a table in a window; with a `refused` reason, nothing."""

    version: int | None = None
    counts: list[TableCounts] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    rows_in_wrong_partitions: bool = False
    refused: str | None = None


def apply_table_work(
    frames: Frames, work: TableWork, version: int | None, *, updates_split: bool
) -> TableOutcome:
    """Take a table through a window; `version` is the one it starts from, if it is there."""
    table = CurrentTable(frames.lake, work.incarnation)
    if version is not None:
        table.restore(version)
    outcome = TableOutcome()
    try:
        _Carrier(frames, work, table, outcome, updates_split, version is None).run()
    except (TicdcError, PySparkException) as error:
        reason = _reason(error)
        if reason is None:
            raise
        if version is not None:
            table.restore(version)
        return TableOutcome(version, refused=reason)
    outcome.version = table.version
    outcome.counts = _counted(work.incarnation, outcome.segments)
    return outcome


def _reason(error: Exception) -> str | None:
    """Why a table cannot go on; None for a failure of any other kind."""
    if isinstance(error, TicdcError):
        return str(error)
    reason = stop_reason(str(error))
    if reason is None and isinstance(error, AnalysisException):
        # Nothing was read yet, so it is about what this table is like; the others can go on.
        return f"Spark does not take it: {str(error).strip().splitlines()[0]}"
    return reason


class _Carrier:
    def __init__(
        self,
        frames: Frames,
        work: TableWork,
        table: CurrentTable,
        outcome: TableOutcome,
        updates_split: bool,
        is_new: bool,
    ) -> None:
        self._frames = frames
        self._work = work
        self._table = table
        self._outcome = outcome
        self._updates_split = updates_split
        self._is_new = is_new

    def run(self) -> None:
        work, table = self._work, self._table
        steps = merge_steps(work.before, work.steps)
        if self._is_new:
            # Nothing is there yet, so the table is made as it is in the end.
            self._check_keys()
            rows = self._frames.table(work.incarnation, len(work.steps), self._outcome.segments)
            table.create(work.after)
            if steps:
                table.append(rows)
        elif self._goes_step_by_step(steps):
            schema = work.before
            for step in steps:
                if isinstance(step, ApplyRows):
                    self._bring_in(step)
                elif isinstance(step, Alter):
                    table.reshape(schema, step.steps, step.schema)
                schema = step.schema
        else:
            self._check_keys()
            rows = self._frames.table(work.incarnation, len(work.steps), self._outcome.segments)
            all_steps = [s for step in work.steps if isinstance(step, Alter) for s in step.steps]
            table.reshape(work.before, all_steps, work.after)
            table.overwrite(rows, work.after)
        if any(isinstance(step, Exchange) for step in steps):
            self._outcome.rows_in_wrong_partitions = self._frames.has_rows_in_wrong_partitions(
                work.incarnation
            )

    def _goes_step_by_step(self, steps: Sequence[Any]) -> bool:
        """Whether no step changes rows otherwise than by their events."""
        for step in steps:
            if isinstance(step, ApplyRows):
                continue
            if not isinstance(step, Alter) or not changes_no_row(
                self._before(), step.steps, step.commit_ts
            ):
                return False
        return True

    def _before(self) -> DataFrame:
        return self._frames.table(self._work.incarnation, 0, [])

    def _bring_in(self, step: ApplyRows) -> None:
        segment = self._frames.segment(step, self._outcome.segments)
        if not segment.key:
            self._recount(segment)
            return
        if not self._updates_split:
            self._refuse_lost_keys(segment, self._now())
        final = final_rows(segment)
        if step.inserts_only and segment.is_ordered_by_commit_ts:
            # Upstream none of these keys was there, so none is here.
            self._table.append(put_rows(final))
        else:
            self._table.merge(final, step.schema, segment.key)

    def _recount(self, segment: Segment) -> None:
        only_inserts = segment.step.inserts_only
        # Inserts overwrite nothing, so the rows there are need not be looked up for them.
        rows = self._frames.empty(segment.step.schema) if only_inserts else self._now()
        counts = self._frames.counted(segment, rows)
        if only_inserts:
            self._table.append(repeated(counts))
            return
        # It is looked at several times.
        counts = counts.localCheckpoint()
        lines = replaced(rows, counts, segment.columns)
        self._table.merge(lines, segment.step.schema, [])

    def _now(self) -> DataFrame:
        return self._table.rows(self._table.version)

    def _check_keys(self) -> None:
        """Look for updates whose old keys are lost, before anything is written."""
        if self._updates_split:
            return
        for number, step in enumerate(self._work.steps):
            if isinstance(step, ApplyRows) and step.schema.key:
                rows = self._frames.table(self._work.incarnation, number, [])
                self._refuse_lost_keys(self._frames.segment(step, []), rows)

    def _refuse_lost_keys(self, segment: Segment, rows: DataFrame) -> None:
        if segment.overwrites:
            lost = lost_keys(segment, rows).agg(F.min("⌗commit_ts")).collect()[0][0]
            if lost is not None:
                raise UnsupportedDdl(f"at commit ts {lost}: {OLD_KEY_MISSING}", "")


def _counted(incarnation: str, segments: Sequence[Segment]) -> list[TableCounts]:
    counts = []
    for segment in segments:
        schema = segment.step.schema
        unheard = segment.given_away or not segment.outcome.get
        if unheard and segment.result is not None:
            # Nothing that was written needed it, or a client of Spark Connect was not told what a
            # checkpoint counted; it is counted all the same.
            segment.result.agg(F.count(F.lit(1))).collect()
        got = segment.metrics.get
        refused = (got["bad"] or 0) + (got["key_only"] or 0)
        applied = segment.outcome.get["applied"]
        counts.append(
            TableCounts(
                incarnation,
                make_table_name(schema.database, schema.table) or "",
                RowCounts(
                    read=got["read"],
                    applied=applied,
                    superseded=got["read"] - refused - applied,
                    quarantined=refused,
                    inexact=got["inexact"] or 0,
                ),
            )
        )
    return counts
