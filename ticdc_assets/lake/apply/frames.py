"""A table at any step of a window, as a DataFrame that nothing is written for.

This is how a window is carried out that changes rows otherwise than by their events, and how a
table is shown at a ts between two applied ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import TicdcError, UnsupportedDdl
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.current_table import changes_shape_only, column_moves
from ticdc_assets.lake.apply.keyed import final_rows, put_rows, upserted
from ticdc_assets.lake.apply.merged_steps import merge_steps
from ticdc_assets.lake.apply.multiset import changed_counts, recounted, repeated, sender_passes
from ticdc_assets.lake.apply.pending_rows import Window
from ticdc_assets.lake.apply.quarantined_rows import stop_job
from ticdc_assets.lake.apply.segment import Redecode, Segment, read_segment
from ticdc_assets.lake.columns.conversion import check_conversion, convert_rows, locate_partitions
from ticdc_assets.lake.columns.reading import parse_images, type_columns
from ticdc_assets.lake.columns.types import list_delta_columns
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_identifier, quote_literal
from ticdc_assets.plan.steps import Alter, ApplyRows, EmptyPartitions, Exchange, TableWork
from ticdc_assets.schema import effect as effects
from ticdc_assets.stream.problem import ROWS_IN_WRONG_PARTITIONS

# So many segments are worked out at once.
_DEEP = 3


@dataclass
class Frames:
    """The tables of a window: what they have to go through, and where they start from."""

    lake: LakeSession
    span: Window
    due: DataFrame
    work: Mapping[str, TableWork]
    # The rows of a table before the window; its columns are those of its schema then.
    start: Callable[[str], DataFrame | None]
    redecode: Redecode | None = None

    def table(self, incarnation: str, steps: int, segments: list[Segment]) -> DataFrame:
        """A table after so many steps; the segments that it is made of are added to `segments`."""
        work = self.work.get(incarnation)
        rows = self.start(incarnation)
        if work is None:
            if rows is None:
                raise UnsupportedDdl(f"there are no rows of {incarnation}", "")
            return rows
        schema, rows_in_wrong_partitions = work.before, False
        depth = 0
        for step in merge_steps(work.before, work.steps[:steps]):
            match step:
                case ApplyRows():
                    depth += 1
                    if rows is not None and depth % _DEEP == 0:
                        # Spark takes ever longer to plan what is built on what is built.
                        rows = rows.localCheckpoint()
                    rows = self._with_events(rows, step, segments)
                case Alter():
                    if rows is not None:
                        rows = self._altered(rows, schema, step)
                    rows_in_wrong_partitions = rows_in_wrong_partitions and not step.repartitions
                case EmptyPartitions():
                    if rows_in_wrong_partitions:
                        raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, step.sql)
                    if rows is not None:
                        outside = self._in_partitions(rows, schema, step, step.names, negate=True)
                        rows = self._altered(outside, schema, step)
                case Exchange():
                    if rows_in_wrong_partitions and step.partitioned:
                        raise UnsupportedDdl(ROWS_IN_WRONG_PARTITIONS, step.sql)
                    if rows is None:
                        rows = self.empty(schema)
                    rows = self._exchanged(rows, schema, step, segments)
                    rows = self._altered(rows, schema, step)
                    # Whether they did stray is found out when the window is done.
                    rows_in_wrong_partitions = False
            schema = step.schema
        return self.empty(schema) if rows is None else rows

    def empty(self, schema: TableSchema) -> DataFrame:
        types = [(c.name, c.type) for c in list_delta_columns(schema)]
        columns = [
            f"CAST(NULL AS {type}) AS {quote_identifier(name)}"
            for name, type in (*types, (COMMIT_TS, "bigint"))
        ]
        return self.lake.spark.sql(f"SELECT {', '.join(columns)} WHERE false")

    def segment(self, step: ApplyRows, segments: list[Segment]) -> Segment:
        segment = read_segment(self.due, step, self.redecode)
        segments.append(segment)
        return segment

    def counted(self, segment: Segment, rows: DataFrame) -> DataFrame:
        """What a segment changes in a table without a key, which has these rows."""
        if not segment.is_ordered_by_commit_ts:
            return changed_counts(segment, rows, None)
        schema = segment.step.schema
        name = make_table_name(schema.database, schema.table)
        # A sender's going back may show only in rows that are not due any more.
        first = self.due.where(F.col("name") == F.lit(name)).agg(
            F.min("batch").alias("first_batch")
        )
        events = self.lake.read("events").where(
            f"kind = 'row' AND batch <= {self.span.batch} AND name = {quote_literal(name or '')}"
        )
        since = events.join(F.broadcast(first), F.expr("batch >= first_batch"))
        return changed_counts(segment, rows, sender_passes(since))

    def _with_events(
        self, rows: DataFrame | None, step: ApplyRows, segments: list[Segment]
    ) -> DataFrame:
        """A table's rows after a segment; where nothing was there, what the segment brings."""
        segment = self.segment(step, segments)
        if segment.key:
            final = final_rows(segment)
            return put_rows(final) if rows is None else upserted(rows, final, segment.key)
        before = self.empty(step.schema) if rows is None else rows
        counts = self.counted(segment, before)
        return repeated(counts) if rows is None else recounted(rows, counts, segment.columns)

    def _altered(
        self, rows: DataFrame, before: TableSchema, step: Alter | EmptyPartitions | Exchange
    ) -> DataFrame:
        steps = step.steps if isinstance(step, Alter) else ()
        if changes_no_row(rows, steps, step.commit_ts):
            moves = {new: old for old, new in column_moves(before, steps, step.schema).items()}
            return rows.select(
                *(
                    _taken(moves.get(c.name), c.type).alias(c.name)
                    for c in list_delta_columns(step.schema)
                ),
                COMMIT_TS,
            )
        check_conversion(before, steps, step.commit_ts)
        images = rows.select(write_images(before).alias("image"), COMMIT_TS)
        after = convert_rows(images, "image", before, steps, step.commit_ts)
        return self._read_back(_refusing(after), step.schema)

    def _read_back(self, rows: DataFrame, schema: TableSchema) -> DataFrame:
        """Type images that were worked on."""
        struct = rows.select(parse_images(schema, F.col("image")).alias("⌗image"), COMMIT_TS)
        columns = type_columns(schema, F.col("⌗image"), member_names=True)
        return struct.select(*(c.value.alias(c.name) for c in columns), COMMIT_TS)

    def _in_partitions(
        self,
        rows: DataFrame,
        schema: TableSchema,
        step: EmptyPartitions | Exchange,
        names: tuple[str, ...],
        *,
        negate: bool,
    ) -> DataFrame:
        """The rows that lie in these partitions, or in any other."""
        # Columns of the user's may have any name.
        whole = F.struct(*(F.col(quote_identifier(name)) for name in rows.columns)).alias("⌗row")
        with_image = rows.select(whole, write_images(schema).alias("image"))
        placed = _refusing(locate_partitions(with_image, "image", schema, step.partitioning))
        chosen = F.coalesce(F.col("partition").isin(*names), F.lit(False))
        return placed.where(~chosen if negate else chosen).select("`⌗row`.*")

    def _exchanged(
        self, rows: DataFrame, schema: TableSchema, step: Exchange, segments: list[Segment]
    ) -> DataFrame:
        other = self.table(step.other, step.other_steps, [])
        names = (step.partition,)
        if step.partitioned:
            stay = self._in_partitions(rows, schema, step, names, negate=True)
            return stay.unionByName(_spelt(other, stay))
        for segment in segments:
            segment.given_away = True
        return _spelt(
            self._in_partitions(other, step.schema_before, step, names, negate=False), rows
        )

    def has_rows_in_wrong_partitions(self, incarnation: str) -> bool:
        """Whether an exchange of the window brought in rows that belong in other partitions."""
        work = self.work[incarnation]
        rows_in_wrong_partitions = False
        schema = work.before
        for step in work.steps:
            if isinstance(step, Exchange) and step.partitioned:
                came = _spelt(self.table(step.other, step.other_steps, []), self.empty(schema))
                names = (step.partition,)
                outside = self._in_partitions(came, schema, step, names, negate=True)
                rows_in_wrong_partitions = not outside.isEmpty()
            elif isinstance(step, Alter) and step.repartitions:
                rows_in_wrong_partitions = False
            schema = step.schema
        return rows_in_wrong_partitions


def changes_no_row(rows: DataFrame, steps: Sequence[effects.ColumnChange], ts: int) -> bool:
    """Whether steps leave every row there is as it is but for its columns."""
    try:
        return changes_shape_only(steps, ts)
    except TicdcError:
        # What cannot be done to a row can be done to none.
        if rows.isEmpty():
            return True
        raise


def _taken(name: str | None, type: str) -> Column:
    return (F.lit(None) if name is None else F.col(quote_identifier(name))).cast(type)


def _spelt(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Rows with column names as another table spells them."""
    return rows.select(*(F.col(quote_identifier(name)).alias(name) for name in like.columns))


def _refusing(rows: DataFrame) -> DataFrame:
    """Rows of which none could not be worked on; one that could not fails the job."""
    bad = F.col("problem").isNotNull()
    sure = F.when(bad, stop_job(F.col("problem"))).otherwise(F.col("image"))
    return rows.withColumn("image", sure).drop("problem")
