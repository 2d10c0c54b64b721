"""The work of a window on tables: from their rows before it, by the plan, to those after it.

`do_work` takes tables that exchange rows with each other together; any other is a group of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import (
    CONTENT_ERRORS,
    ConfigError,
    TableCannotContinue,
    describe_content_error,
)
from ticdc_assets.events import TableSchema
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    EmptyPartitions,
    Exchange,
    HandOver,
    TableStep,
    TableWork,
)
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.alteration import alter_kept, alter_rows
from ticdc_assets.rows.blocks import read_blocks, read_deciding
from ticdc_assets.rows.changes import Changes, Segment, count_here
from ticdc_assets.rows.columns import list_delta_columns
from ticdc_assets.rows.kept import (
    SplitRows,
    add_deleted_by_ddl,
    fit_new_key,
    join_kept,
    keep_deleted,
    keep_deleted_copies,
    split_kept,
)
from ticdc_assets.rows.keyed import (
    KeyedChanges,
    find_key,
    find_lost_key,
    keep_last_per_key,
    list_operations,
    merge_changes,
    reduce_changes,
    require_key,
)
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.rows.multiset import (
    Copies,
    add_overwritten,
    choose_changes,
    list_copies,
    merge_copies,
    sum_copies,
)
from ticdc_assets.rows.partitions import find_inside, has_misplaced_rows
from ticdc_assets.rows.parts import Part, have_one_identity
from ticdc_assets.rows.table_rows import Rows, concat_rows, make_no_rows
from ticdc_assets.stream.problem import OLD_KEY_MISSING, ROWS_IN_WRONG_PARTITIONS

_NOT_ITS_COLUMNS = "its rows have other columns than its events"


@dataclass(frozen=True)
class RowSource:
    """What the work on tables reads.

    `read_rows`: the rows of a table before the window, None if it is new.  `read_events`: the
    events of a segment with their place in the order, in blocks, at least one.  `find_passes`:
    the pass of its sender in which each of some events of a segment came, None if these are in the
    order of their arrival.
    """

    read_rows: Callable[[str], Rows | None]
    read_events: Callable[[ApplyRows], Iterable[pa.Table]]
    find_passes: Callable[[ApplyRows, pa.Table], pa.Array | None]
    redecode: Redecode | None = None
    # TiCDC sends an update of a key as a delete and an insert.
    updates_split: bool = True
    # Of a table whose work is done in parts: the one that this source has.
    part: Part | None = None


@dataclass
class SegmentCounts:
    """What became of the events of a segment: those left over were superseded."""

    step: ApplyRows
    read: int
    applied: int
    quarantined: int
    inexact: int


@dataclass
class TableResult:
    """A table after its work; one that `stopped`, for the reason given, has to stay as it was."""

    # Those that are there upstream.
    rows: Rows
    # Those that were deleted and are kept, if the table has any.
    kept: Rows | None = None
    # The keys that each segment of a table with a key removed.
    gone: list[Rows] = field(default_factory=list)
    segments: list[SegmentCounts] = field(default_factory=list)
    quarantined: list[pa.Table] = field(default_factory=list)
    # EXCHANGE PARTITION may have put rows into a partition where they do not belong.
    has_misplaced_rows: bool = False
    stopped: str | None = None

    @property
    def all_rows(self) -> Rows:
        """The rows that the table has."""
        return join_kept(self.rows, self.kept)


def do_work(work: Mapping[str, TableWork], source: RowSource) -> dict[str, TableResult]:
    """Take tables through all of their steps."""
    group = _Group(work, source)
    for id, each in work.items():
        group.run(id, len(each.steps))
    return {id: table.result for id, table in group.tables.items()}


def build_table(work: Mapping[str, TableWork], id: str, steps: int, source: RowSource) -> Rows:
    """Return the rows of a table after its first steps; raise if it cannot get there."""
    table = _Group(work, source).run(id, steps)
    if table.result.stopped is not None:
        raise TableCannotContinue(table.result.stopped)
    return table.rows


def require_columns(before: TableSchema, step: ApplyRows) -> None:
    """Fail if a table with a schema has other columns than the events of a step."""
    if [c.name for c in list_delta_columns(before)] != [
        c.name for c in list_delta_columns(step.schema)
    ]:
        raise TableCannotContinue(_NOT_ITS_COLUMNS)


def list_segment_copies(
    rows: Rows, changes: Changes, step: ApplyRows, source: RowSource
) -> tuple[Changes, Copies]:
    """List the copies that a segment adds to and takes from a table without a key.

    Return the changes that count, too.
    """
    chosen = choose_changes(changes, source.find_passes(step, changes.events))
    copies = list_copies(chosen, source.part)
    if pc.any(chosen.overwrites).as_py():
        copies = add_overwritten(copies, chosen, rows, step.schema.unique_keys)
    return chosen, copies


class _TableInWork:
    """A table after some of its steps."""

    def __init__(self, work: TableWork, rows: Rows | None) -> None:
        self.schema = work.before
        there, kept = split_kept(make_no_rows(work.before) if rows is None else rows)
        self.result = TableResult(there, kept)
        has_exchange = any(isinstance(step, Exchange | HandOver) for step in work.steps)
        # Exchanges count the steps of the other table.
        self.steps = work.steps if has_exchange else tuple(merge_steps(work.before, work.steps))
        self.done = 0

    @property
    def rows(self) -> Rows:
        return self.result.rows

    def finish(self, step: TableStep, rows: Rows, kept: Rows | None) -> None:
        key = find_key(step.schema)
        has_new_key = bool(step.schema.key) and not have_one_identity((self.schema, step.schema))
        rows = require_key(rows, step.schema) if has_new_key else rows
        if kept is not None:
            kept = alter_kept(kept, self.schema, step)
            if has_new_key or (key and isinstance(step, Exchange)):
                kept = fit_new_key(kept, rows, key)
        self.result.rows, self.result.kept, self.schema = rows, kept or None, step.schema
        self.done += 1


class _Group:
    """Tables in work, which may exchange rows."""

    def __init__(self, work: Mapping[str, TableWork], source: RowSource) -> None:
        self._work = work
        self._source = source
        self.tables: dict[str, _TableInWork] = {}

    def run(self, id: str, steps: int) -> _TableInWork:
        """Take a table through its first steps, unless it has stopped."""
        table = self.tables.get(id)
        if table is None:
            table = self.tables[id] = self._open(id)
        while table.result.stopped is None and table.done < min(steps, len(table.steps)):
            try:
                self._run_step(table, table.steps[table.done])
            except ConfigError:
                # Of what the source reads, not of the table.
                raise
            except CONTENT_ERRORS as error:
                table.result.stopped = describe_content_error(error)
        return table

    def _open(self, id: str) -> _TableInWork:
        """Read the rows of a table; it stops before its steps if they cannot be held."""
        try:
            return _TableInWork(self._work[id], self._source.read_rows(id))
        except ConfigError:
            raise
        except CONTENT_ERRORS as error:
            table = _TableInWork(self._work[id], None)
            table.result.stopped = describe_content_error(error)
            return table

    def _run_step(self, table: _TableInWork, step: TableStep) -> None:
        kept = table.result.kept
        match step:
            case ApplyRows():
                table.finish(step, *self._apply_events(table, step))
            case Alter():
                table.finish(step, alter_rows(table.rows, table.schema, step), kept)
                if step.repartitions:
                    table.result.has_misplaced_rows = False
            case EmptyPartitions():
                _require_placed_rows(table)
                goes = find_inside(table.rows, table.schema, step, step.names)
                stay = table.rows.filter(pc.invert(goes))
                if step.keeps_deleted:
                    kept = add_deleted_by_ddl(kept, table.rows.filter(goes), step.commit_ts)
                table.finish(step, alter_rows(stay, table.schema, step), kept)
            case Exchange():
                self._exchange(table, step)
            case HandOver():
                table.finish(step, table.rows, self._take_over(step) if step.receives else kept)

    # Events

    def _apply_events(self, table: _TableInWork, step: ApplyRows) -> SplitRows:
        require_columns(table.schema, step)
        segment = self._read(step)
        kept, changes = table.result.kept, segment.changes
        if kept is not None:
            kept = kept.rename_like(step.schema)
        before = SplitRows(table.rows.rename_like(step.schema), kept)
        if step.schema.key:
            after, changed = self._apply_by_key(before, changes, step)
            table.result.gone.append(changed.gone)
            applied = changed.applied
        else:
            after, applied = self._apply_copies(before, changes, step)
        _count(table.result, step, segment, applied)
        return after

    def _read(self, step: ApplyRows) -> Segment:
        source, key = self._source, find_key(step.schema)
        blocks = source.read_events(step)
        # Whether a key was lost, all of its changes tell; of inserts, nearly all decide.
        if not key or not source.updates_split or step.inserts_only:
            return read_blocks(blocks, step, source.redecode)
        return read_deciding(blocks, step, source.redecode, key, source.part)

    def _apply_by_key(
        self, before: SplitRows, changes: Changes, step: ApplyRows
    ) -> tuple[SplitRows, KeyedChanges]:
        key, rows, part = find_key(step.schema), before.there, self._source.part
        if not self._source.updates_split and pc.any(changes.overwrites).as_py():
            lost_at = find_lost_key(changes, key, rows, part)
            if lost_at is not None:
                raise TableCannotContinue(f"at commit ts {lost_at}: {OLD_KEY_MISSING}")
        operations = list_operations(changes, key, part)
        changed = reduce_changes(changes, operations)
        kept = before.kept
        if step.is_archived:
            kept = keep_deleted(before, changes, operations, key, keeps=step.keeps_deleted)
        return SplitRows(merge_changes(rows, changed, key), kept), changed

    def _apply_copies(
        self, before: SplitRows, changes: Changes, step: ApplyRows
    ) -> tuple[SplitRows, int]:
        rows, kept = before
        chosen, copies = list_segment_copies(rows, changes, step, self._source)
        if step.keeps_deleted:
            kept = keep_deleted_copies(before, chosen, copies)
        return SplitRows(merge_copies(rows, sum_copies(copies)), kept), count_here(chosen)

    # Partitions

    def _exchange(self, table: _TableInWork, step: Exchange) -> None:
        """Exchange rows with the other table, which has this step too."""
        other = self.run(step.other, step.other_steps)
        if other.result.stopped is not None:
            reason = f"it exchanges rows with a paused table: {other.result.stopped}"
            raise TableCannotContinue(reason)
        twin = other.steps[other.done]
        assert isinstance(twin, Exchange), twin
        whole, part = (table, other) if step.partitioned else (other, table)
        of_whole, of_part = (step, twin) if step.partitioned else (twin, step)
        try:
            _require_placed_rows(whole)
            goes = find_inside(whole.rows, whole.schema, of_whole, (step.partition,))
            come = part.rows.rename_like(whole.schema)
            misplaced = has_misplaced_rows(come, whole.schema, of_whole)
            out = whole.rows.filter(goes).rename_like(part.schema)
            stay = concat_rows([whole.rows.filter(pc.invert(goes)), come])
            if misplaced and whole.schema.key:
                # Another partition may have a row with the key of one that came.
                stay = keep_last_per_key(stay, find_key(whole.schema))
            after = alter_rows(stay, whole.schema, of_whole)
            received = alter_rows(out, part.schema, of_part)
        except CONTENT_ERRORS as error:
            other.result.stopped = describe_content_error(error)
            raise
        whole.finish(of_whole, after, whole.result.kept)
        part.finish(of_part, received, part.result.kept)
        whole.result.has_misplaced_rows = misplaced

    # TRUNCATE

    def _take_over(self, step: HandOver) -> Rows | None:
        """Return the kept rows of the table that TRUNCATE has ended, with the columns of a step."""
        if step.other not in self._work:
            return None
        other = self.run(step.other, step.other_steps)
        if other.result.stopped is not None:
            reason = f"it takes over the kept rows of a paused table: {other.result.stopped}"
            raise TableCannotContinue(reason)
        kept = other.result.kept
        if step.keeps_deleted:
            kept = add_deleted_by_ddl(kept, other.rows, step.commit_ts)
        return None if kept is None else alter_kept(kept, other.schema, step)


def _require_placed_rows(table: _TableInWork) -> None:
    """Fail if values do not tell in which partition a row is."""
    if table.result.has_misplaced_rows and len(table.rows):
        raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)


def _count(result: TableResult, step: ApplyRows, segment: Segment, applied: int) -> None:
    read, quarantined, inexact = segment.counts
    result.segments.append(SegmentCounts(step, read, applied, quarantined, inexact))
    if segment.quarantined.num_rows:
        result.quarantined.append(segment.quarantined)
