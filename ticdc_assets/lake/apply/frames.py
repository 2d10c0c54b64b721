"""Tables at any step of a window, as data frames; nothing is written.

`table_work` writes a table from here if DDLs change its rows; `views.asof` shows a table at a ts
between two snapshots from here.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import TableCannotContinue, TicdcError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.keyed import compute_final_rows, select_put_rows
from ticdc_assets.lake.apply.multiset import (
    count_changes,
    number_sender_passes,
    recount_rows,
    repeat_rows,
)
from ticdc_assets.lake.apply.pending_frames import PendingFrames
from ticdc_assets.lake.apply.segment import Segment, read_segment
from ticdc_assets.lake.apply.stopped_jobs import stop_job
from ticdc_assets.lake.columns.conversion import check_conversion, convert_rows, locate_partitions
from ticdc_assets.lake.columns.escaped_text import has_undecodable_text
from ticdc_assets.lake.columns.inexact import ENTRIES, list_moved, move_entries
from ticdc_assets.lake.columns.reading import name_values, parse_images, type_columns
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_identifier, quote_literal
from ticdc_assets.plan.steps import (
    Alter,
    ApplyRows,
    EmptyPartitions,
    Exchange,
    TableStep,
    TableWork,
)
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.column_moves import keeps_values, map_columns
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, fold_case, list_delta_columns
from ticdc_assets.rows.merged_steps import merge_steps
from ticdc_assets.schema import effect as effects
from ticdc_assets.schema.partition.locate import NO_PARTITION
from ticdc_assets.stream.problem import ROWS_IN_WRONG_PARTITIONS

# Spark plans nested segments ever more slowly, so some are computed first.
_MAX_NESTED_SEGMENTS = 4


@dataclass(frozen=True)
class TableFrame:
    """A table's rows after some of its steps, and the segments that went into them."""

    rows: DataFrame
    segments: list[Segment] = field(default_factory=list)
    # The rows that the last exchange put into a partition where they may not belong.
    misplaced_rows: DataFrame | None = None

    @property
    def has_misplaced_rows(self) -> bool:
        """Whether partition DDL cannot know the rows of a partition; runs a job."""
        return self.misplaced_rows is not None and not self.misplaced_rows.isEmpty()


@dataclass
class Frames:
    """The tables of a window: the work of each, and the rows it starts with.

    All rows have their entries (`columns.inexact`), whether their table has the map or not.
    """

    lake: LakeSession
    batch: int
    pending_rows: PendingFrames
    work: Mapping[str, TableWork]
    # Reads a table as it was before the window; None if it is new.
    read_start: Callable[[str], DataFrame | None]
    redecode: Redecode | None = None

    def build_table(self, incarnation: str, steps: int | None = None) -> TableFrame:
        """Return a table after its first steps; after all of them if no number is given."""
        work = self.work.get(incarnation)
        rows = self.read_start(incarnation)
        if work is None:
            if rows is None:
                raise TableCannotContinue(f"there are no rows of {incarnation}")
            return TableFrame(rows)
        builder = _TableBuilder(self, rows, work.before)
        for step in merge_steps(work.before, work.steps[:steps]):
            builder.add(step)
        return builder.result()

    def read_segment(self, step: ApplyRows) -> Segment:
        """Read the events of a segment."""
        return read_segment(self.pending_rows, step, self.redecode)

    def count_copies(self, segment: Segment, rows: DataFrame) -> DataFrame:
        """Return the copies that a segment adds to or takes from a table without a key."""
        return count_changes(segment, rows, self.find_passes(segment))

    def find_passes(self, segment: Segment) -> DataFrame | None:
        """Number the passes of the senders of a segment, if its order is not that of arrival."""
        if segment.is_ordered_by_arrival:
            return None
        schema = segment.step.schema
        name = make_table_name(schema.database, schema.table)
        # Only rows applied already may show that a sender went back, so their batches count too.
        first = self.pending_rows.of_table(schema).agg(F.min("batch").alias("first_batch"))
        events = self.lake.read("events").where(
            # As of pending rows: those with a commit ts belong here whenever they arrived.
            f"kind = 'row' AND (ordering = 'commit_ts' OR batch <= {self.batch})"
            f" AND name = {quote_literal(name or '')}"
        )
        sent = events.join(F.broadcast(first), F.expr("batch >= first_batch"))
        return number_sender_passes(sent)

    def empty(self, schema: TableSchema) -> DataFrame:
        """Return no rows, with the columns of a schema."""
        types = [(c.name, c.type) for c in list_delta_columns(schema)]
        columns = [
            f"CAST(NULL AS {type}) AS {quote_identifier(name)}"
            for name, type in (*types, (COMMIT_TS, "bigint"), (INEXACT, ENTRIES))
        ]
        return self.lake.spark.sql(f"SELECT {', '.join(columns)} WHERE false")


class _TableBuilder:
    """Builds one table step by step; its rows are None as long as it is new and empty."""

    def __init__(self, frames: Frames, rows: DataFrame | None, schema: TableSchema) -> None:
        self._frames = frames
        self._rows = rows
        self._schema = schema
        self._segments: list[Segment] = []
        self._misplaced_rows: DataFrame | None = None
        self._depth = 0

    def result(self) -> TableFrame:
        rows = self._frames.empty(self._schema) if self._rows is None else self._rows
        return TableFrame(rows, self._segments, self._misplaced_rows)

    def add(self, step: TableStep) -> None:
        match step:
            case ApplyRows():
                self._rows = self._with_events(step)
            case Alter():
                if self._rows is not None:
                    self._rows = alter_rows(self._rows, self._schema, step)
                if step.repartitions:
                    self._misplaced_rows = None
            case EmptyPartitions():
                _require_placed_rows(self.result())
                if self._rows is not None:
                    kept = select_outside(self._rows, self._schema, step, step.names)
                    self._rows = alter_rows(kept, self._schema, step)
            case Exchange():
                self._rows = alter_rows(self._exchange(step), self._schema, step)
        self._schema = step.schema

    def _with_events(self, step: ApplyRows) -> DataFrame:
        rows, frames = self._rows, self._frames
        self._depth += 1
        if rows is not None and self._depth % _MAX_NESTED_SEGMENTS == 0:
            rows = rows.localCheckpoint()
        segment = frames.read_segment(step)
        if rows is not None:
            _require_columns(self._schema, segment)
        self._segments.append(segment)
        if segment.key:
            return select_put_rows(compute_final_rows(segment, rows))
        before = frames.empty(step.schema) if rows is None else rows
        counts = frames.count_copies(segment, before)
        return repeat_rows(counts) if rows is None else recount_rows(rows, counts, segment.columns)

    def _exchange(self, step: Exchange) -> DataFrame:
        this, other = self.result(), self._frames.build_table(step.other, step.other_steps)
        _require_placed_rows(this if step.partitioned else other)
        names = (step.partition,)
        if step.partitioned:
            received = name_columns_like(other.rows, this.rows)
            self._misplaced_rows = _find_misplaced(received, self._schema, step)
            return select_outside(this.rows, self._schema, step, names).unionByName(received)
        self._segments = [dataclasses.replace(s, given_away=True) for s in self._segments]
        sent = select_inside(other.rows, step.schema_before, step, names)
        return name_columns_like(sent, this.rows)


def _require_columns(schema: TableSchema, segment: Segment) -> None:
    """Fail if a table's rows do not have the columns of a segment, which would become NULL."""
    if [c.name for c in list_delta_columns(schema)] != [c.name for c in segment.columns]:
        raise TableCannotContinue("its rows have other columns than its events")


def _require_placed_rows(table: TableFrame) -> None:
    """Fail if values do not tell in which partition a row is."""
    if table.has_misplaced_rows:
        raise TableCannotContinue(ROWS_IN_WRONG_PARTITIONS)


def keeps_values_of(rows: DataFrame, steps: Sequence[effects.ColumnChange], ts: int) -> bool:
    """Whether column changes leave the values of every existing row as they are."""
    try:
        return keeps_values(steps, ts)
    except TicdcError:
        # A change that no row can go through is possible in a table without rows.
        if rows.isEmpty():
            return True
        raise


def alter_rows(
    rows: DataFrame, before: TableSchema, step: Alter | EmptyPartitions | Exchange
) -> DataFrame:
    """Take rows to the columns of a step's schema."""
    steps = step.steps if isinstance(step, Alter) else ()
    if keeps_values_of(rows, steps, step.commit_ts):
        moves = map_columns(before, steps, step.schema)
        sources = {new: old for old, new in moves.items()}
        columns = (
            _take_column(sources.get(c.name), c.type).alias(c.name)
            for c in list_delta_columns(step.schema)
        )
        return move_entries(rows, list_moved(before, moves)).select(*columns, COMMIT_TS, INEXACT)
    check_conversion(before, steps, step.commit_ts)
    images = rows.select(write_images(before).alias("image"), COMMIT_TS)
    changed = convert_rows(images, "image", before, steps, step.commit_ts)
    converted = _fail_on_problems(changed, "image")
    escaped = F.col("⌗escaped")
    parsed = converted.withColumn("⌗escaped", has_undecodable_text(F.col("image"))).select(
        parse_images(step.schema, F.col("image"), escaped).alias("⌗image"), escaped, COMMIT_TS
    )
    typed = type_columns(step.schema, F.col("⌗image"), escaped, member_names=True)
    return parsed.select(*name_values(typed), COMMIT_TS)


def _take_column(name: str | None, type: str) -> Column:
    return (F.lit(None) if name is None else F.col(quote_identifier(name))).cast(type)


def select_inside(
    rows: DataFrame,
    schema: TableSchema,
    step: EmptyPartitions | Exchange,
    names: Sequence[str],
) -> DataFrame:
    """Return the rows of a partitioned table that belong in some partitions."""
    return _locate(rows, schema, step).where(F.col("partition").isin(*names)).select("`⌗row`.*")


def select_outside(
    rows: DataFrame,
    schema: TableSchema,
    step: EmptyPartitions | Exchange,
    names: Sequence[str],
) -> DataFrame:
    """Return the rows of a partitioned table that belong in none of some partitions."""
    return _locate(rows, schema, step).where(~F.col("partition").isin(*names)).select("`⌗row`.*")


def _find_misplaced(received: DataFrame, schema: TableSchema, step: Exchange) -> DataFrame:
    """Return the rows that an exchange put into a partition where they may not belong."""
    images = _select_images(received, schema)
    try:
        located = locate_partitions(images, "image", schema, step.partitioning, step.context)
    except TicdcError:
        return received
    is_right = F.col("partition").eqNullSafe(F.lit(step.partition))
    return located.where(~is_right).select("`⌗row`.*")


def _locate(rows: DataFrame, schema: TableSchema, step: EmptyPartitions | Exchange) -> DataFrame:
    """Return the rows of a partitioned table and their partitions; fail if one is uncertain."""
    images = _select_images(rows, schema)
    try:
        located = locate_partitions(images, "image", schema, step.partitioning, step.context)
    except TicdcError:
        # Without rows, nothing is uncertain.
        if not rows.isEmpty():
            raise
        return images.withColumn("partition", F.lit(None).cast("string"))
    nowhere = F.when(F.col("partition").isNull(), F.lit(NO_PARTITION))
    located = located.withColumn("problem", F.coalesce("problem", nowhere))
    return _fail_on_problems(located, "partition")


def _select_images(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Return rows and their images; a row is one struct, as user columns may have any name."""
    row = F.struct(*(F.col(quote_identifier(name)) for name in rows.columns)).alias("⌗row")
    return rows.select(row, write_images(schema).alias("image"))


def name_columns_like(rows: DataFrame, other: DataFrame) -> DataFrame:
    """Return rows with column names in the case that another table uses."""
    own_names = {fold_case(name): name for name in rows.columns}
    moves = {own_names[fold_case(name)]: name for name in other.columns}
    is_moved = any(old != new for old, new in moves.items())
    named = move_entries(rows, moves if is_moved else None)
    return named.select(*(F.col(quote_identifier(name)).alias(name) for name in other.columns))


def _fail_on_problems(rows: DataFrame, used: str) -> DataFrame:
    """Fail the job at the first row that has a problem; Spark must need the column `used`."""
    has_problem = F.col("problem").isNotNull()
    value = F.when(has_problem, stop_job(F.col("problem"))).otherwise(F.col(used))
    return rows.withColumn(used, value).drop("problem")
