"""Do the work of one table on its Delta table.

A table starts from the Delta version that the last snapshot names, so whatever a killed run wrote
is gone.  Then, by what the steps do to rows:

- a new table is written once, as it is at the end of the window;
- a small table that has more than new rows is written again as a whole, in one commit;
- in a large one, rows and column changes that keep every value go step by step: append, merge,
  ALTER TABLE;
- anything else builds the whole table (`frames`) and overwrites it in one commit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import (
    CONTENT_ERRORS,
    ConfigError,
    TableCannotContinue,
    describe_content_error,
)
from ticdc_assets.lake.apply.current_table import CurrentTable, InexactRows
from ticdc_assets.lake.apply.frames import keeps_values_of
from ticdc_assets.lake.apply.keyed import compute_final_rows, find_lost_keys, select_put_rows
from ticdc_assets.lake.apply.multiset import list_replacements, repeat_rows
from ticdc_assets.lake.apply.quarantined_rows import find_stop_reason
from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.lake.apply.window import FilesGone, PreparedWindow, has_files
from ticdc_assets.lake.columns.inexact import list_moved, read_entries
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.log.applied_row import RowCounts, TableCounts
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.plan.steps import Alter, ApplyRows, Exchange, TableStep, TableWork
from ticdc_assets.rows.column_moves import map_columns
from ticdc_assets.rows.columns import COMMIT_TS
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.stream.problem import OLD_KEY_MISSING


def apply_table_work(
    window: PreparedWindow, work: TableWork, version: int | None, *, updates_split: bool
) -> TableOutcome:
    """Take a table through a window; `version` is its Delta version before it, if it has any."""
    table = CurrentTable(window.frames.lake, work.incarnation, writes_few=_writes_few(window, work))
    if version is not None and table.version != version:
        if not has_files(window.frames.lake, window.start, work.incarnation):
            gone = FilesGone(work.incarnation, version)
            return TableOutcome(pause_reason=f"{gone}: load the table again")
        table.restore(version)
    writer = _TableWriter(window, work, table, updates_split=updates_split)
    try:
        written = _write_exactly(writer, table, version)
    except TABLE_ERRORS as error:
        reason = find_pause_reason(error)
        if reason is None:
            raise
        if version is not None:
            table.restore(version)
        return TableOutcome(version, pause_reason=reason)
    counts = [_count_rows(work.incarnation, segment) for segment in written.segments]
    return TableOutcome(
        table.version,
        counts,
        written.segments,
        rows_in_wrong_partitions=written.has_misplaced_rows,
    )


def _writes_few(window: PreparedWindow, work: TableWork) -> bool:
    """Whether a table gets few rows: those of the window, and none of another table."""
    return window.has_few_rows and not any(isinstance(step, Exchange) for step in work.steps)


def _write_exactly(writer: "_TableWriter", table: CurrentTable, version: int | None) -> "_Written":
    """Write a table, again with the map of inexact values if this window has its first ones.

    Only writing shows whether there are any, and hardly any table has them.
    """
    try:
        return writer.create() if version is None else writer.update()
    except InexactRows:
        if version is None:
            return writer.create(with_map=True)
        table.restore(version)
        table.add_map()
        return writer.update()


TABLE_ERRORS: tuple[type[Exception], ...] = (*CONTENT_ERRORS, PySparkException, Py4JJavaError)
# SQLSTATE classes 21 (cardinality violation) and 22 (data exception): a row is at fault.
_ROW_ERROR = re.compile(r"SQLSTATE: 2[12]\w{3}")


def find_pause_reason(error: Exception) -> str | None:
    """Return why a table cannot continue; None for a failure that is not about the table.

    `CONTENT_ERRORS` states the boundary for Python.  Of Spark's errors those of analysis count,
    because Spark analyzes before it reads a row, and those of a row's data; any other fails the
    run.  An error that only looks like the table's pauses nothing either: a pause counts once the
    snapshot that records it is written, by the same session into the same storage.
    """
    if isinstance(error, ConfigError):
        # Of the storage, or of another run.
        return None
    if not isinstance(error, PySparkException | Py4JJavaError):
        return describe_content_error(error)
    text = str(error).strip()
    reason = find_stop_reason(text)
    if reason is None and (isinstance(error, AnalysisException) or _ROW_ERROR.search(text)):
        return f"Spark does not accept it: {text.splitlines()[0]}"
    return reason


@dataclass(frozen=True)
class _Written:
    """What went into a table."""

    segments: list[Segment]
    # Rows of the last EXCHANGE PARTITION may be in a partition where they do not belong.
    has_misplaced_rows: bool = False


class _TableWriter:
    """Writes one table."""

    def __init__(
        self, window: PreparedWindow, work: TableWork, table: CurrentTable, *, updates_split: bool
    ) -> None:
        self._window = window
        self._frames = window.frames
        self._work = work
        self._table = table
        self._updates_split = updates_split
        self._steps = merge_steps(work.before, work.steps)

    def create(self, *, with_map: bool = False) -> "_Written":
        """Create the table as it is at the end of the window."""
        self._check_old_keys()
        built = self._frames.build_table(self._work.incarnation)
        self._table.create(built.rows, self._work.after, with_map=with_map)
        return _Written(built.segments, built.has_misplaced_rows)

    def update(self) -> "_Written":
        """Take the existing table through the window."""
        if all(map(self._appends, self._steps)):
            return self._update_step_by_step()
        if not self._table.adapt_to_size(self._work.before):
            return self._replace()
        if all(self._keeps_values(step) for step in self._steps):
            return self._update_step_by_step()
        return self._replace()

    def _appends(self, step: TableStep) -> bool:
        """Whether a step only adds rows."""
        if not isinstance(step, ApplyRows) or not step.inserts_only:
            return False
        if not step.schema.key:
            return True
        # Where a change is missing, a key may be in the table already.
        return step.is_ordered_by_commit_ts and not self._window.may_lack_changes

    def _keeps_values(self, step: TableStep) -> bool:
        """Whether a step changes rows only by their events."""
        if isinstance(step, ApplyRows):
            return True
        if not isinstance(step, Alter):
            return False
        before = self._frames.build_table(self._work.incarnation, 0).rows
        return keeps_values_of(before, step.steps, step.commit_ts)

    def _update_step_by_step(self) -> _Written:
        segments: list[Segment] = []
        schema = self._work.before
        for step in self._steps:
            if isinstance(step, ApplyRows):
                segments.append(self._write_segment(step, segments))
            elif isinstance(step, Alter):
                self._table.reshape(schema, step.steps, step.schema)
                moves = map_columns(schema, step.steps, step.schema)
                self._table.move_exact_texts(list_moved(schema, moves))
            schema = step.schema
        return _Written(segments)

    def _replace(self) -> "_Written":
        self._check_old_keys()
        built = self._frames.build_table(self._work.incarnation)
        self._table.replace(built.rows, self._work.after)
        return _Written(built.segments, built.has_misplaced_rows)

    # Segments

    def _write_segment(self, step: ApplyRows, earlier: Sequence[Segment]) -> Segment:
        segment = self._frames.read_segment(step)
        if not segment.key:
            self._write_copies(segment)
            return segment
        if not self._updates_split:
            _check_segment(segment, self._read_table())
        final = compute_final_rows(segment)
        # A row that was left out may be one that had the key of an insert.
        if self._appends(step) and not any(s.count_read()["invalid"] for s in earlier):
            # Upstream had none of these keys, so the table has none.
            self._table.append(select_put_rows(final))
        else:
            self._table.merge(final, step.schema, [column.name for column in segment.key])
        return segment

    def _write_copies(self, segment: Segment) -> None:
        """Write a segment of a table without a key, where equal rows are counted."""
        schema = segment.step.schema
        if segment.step.inserts_only:
            # Inserts overwrite nothing, so the existing rows need not be read.
            counts = self._frames.count_copies(segment, self._frames.empty(schema))
            self._table.append(repeat_rows(counts))
            return
        rows = self._read_table()
        # The counts are read several times.
        counts = self._frames.count_copies(segment, rows).localCheckpoint()
        self._table.merge(list_replacements(rows, counts, segment.columns), schema, [])

    def _read_table(self) -> DataFrame:
        return read_entries(self._table.rows(self._table.version))

    def _check_old_keys(self) -> None:
        """Fail on updates whose old keys are not in the stream, before anything is written."""
        if self._updates_split:
            return
        for number, step in enumerate(self._work.steps):
            if not isinstance(step, ApplyRows) or not step.schema.key:
                continue
            segment = self._frames.read_segment(step)
            if segment.overwrites:
                before = self._frames.build_table(self._work.incarnation, number).rows
                _check_segment(segment, before)


def _check_segment(segment: Segment, rows: DataFrame) -> None:
    """Fail if a segment updates a row that is not among the table's rows before it."""
    if not segment.overwrites:
        return
    first = find_lost_keys(segment, rows).agg(F.min(COMMIT_TS)).collect()[0][0]
    if first is not None:
        raise TableCannotContinue(f"at commit ts {first}: {OLD_KEY_MISSING}")


def _count_rows(incarnation: str, segment: Segment) -> TableCounts:
    """Count what became of a segment's events, from the metrics Spark observed."""
    is_counted = not segment.given_away and read_metrics(segment.outcome)
    if not is_counted and segment.result is not None:
        # Nothing that was written needed the result, or Spark Connect lost what a checkpoint
        # counted; this counts it.
        segment.result.agg(F.count(F.lit(1))).collect()
    schema, metrics = segment.step.schema, segment.count_read()
    read = metrics["read"] or 0
    quarantined = (metrics["invalid"] or 0) + (metrics["key_only"] or 0)
    # No row got as far as this if Spark left it out.
    applied = read_metrics(segment.outcome).get("applied", 0)
    rows = RowCounts(
        read=read,
        applied=applied,
        superseded=read - quarantined - applied,
        quarantined=quarantined,
        inexact=metrics["inexact"] or 0,
    )
    return TableCounts(incarnation, make_table_name(schema.database, schema.table) or "", rows)
