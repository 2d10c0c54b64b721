"""Read a segment: the pending rows of one table between two DDLs, typed and checked.

`keyed` and `multiset` say what a segment makes of the table's rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.events.written import write_json
from ticdc_assets.lake.apply.pending_frames import PendingFrames
from ticdc_assets.lake.apply.typed_rows import (
    INVALID,
    KEY_ONLY,
    GroupReader,
    has_certain_columns,
    spell_key,
)
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import count_entries
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.plan.steps import ApplyRows, TypedRowGroup
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.columns import INEXACT, DeltaColumn, list_delta_columns


@dataclass
class Segment:
    """A segment's events, one typed row each (`typed_rows` lists the columns)."""

    step: ApplyRows
    typed: DataFrame
    # Counts of the events read, and of those that decide what the table's rows are.
    metrics: Observation
    counts: list[Column]
    outcome: Observation = field(default_factory=Observation)
    # What `keyed` or `multiset` made of it, and whether that goes into no table, because an
    # EXCHANGE gave the rows to another one.
    result: DataFrame | None = None
    given_away: bool = False
    _read: Mapping[str, int | None] | None = None

    def count_read(self) -> Mapping[str, int | None]:
        """Return the counts of `read_segment`: Spark observed them unless no row went on."""
        if self._read is None:
            observed = read_metrics(self.metrics)
            self._read = observed or self.typed.agg(*self.counts).collect()[0].asDict()
        return self._read

    @property
    def key(self) -> list[DeltaColumn]:
        return self._find_columns(spell_key(self.step.schema))

    @property
    def unique_keys(self) -> list[list[DeltaColumn]]:
        return [self._find_columns(key) for key in self.step.schema.unique_keys]

    def _find_columns(self, names: Iterable[str]) -> list[DeltaColumn]:
        columns = {column.column: column for column in self.columns}
        return [columns[name] for name in names]

    @property
    def overwrites(self) -> bool:
        """Whether the stream lacks the old rows of updates."""
        return any(typed.group.overwrites for typed in self.step.row_groups)

    @property
    def columns(self) -> list[DeltaColumn]:
        return list_delta_columns(self.step.schema)

    @property
    def value_names(self) -> list[str]:
        """Return the names of the columns that hold a row's values, the last one its entries."""
        return [*(column.name for column in self.columns), INEXACT]

    @property
    def is_ordered_by_commit_ts(self) -> bool:
        return self.step.is_ordered_by_commit_ts

    @property
    def is_ordered_by_arrival(self) -> bool:
        return not any(typed.group.ordered_by_commit_ts for typed in self.step.row_groups)


def read_segment(pending: PendingFrames, step: ApplyRows, redecode: Redecode | None) -> Segment:
    """Select the rows of a segment and type them."""
    schema = step.schema
    rows = pending.of_table(schema, step.low, step.high)
    may_escape = pending.may_have_undecodable_text(schema)
    readings = _group_by_reading(step.row_groups)
    parts = [
        GroupReader(schema, groups, redecode, may_escape=may_escape).read(
            rows if len(readings) == 1 else rows.where(_is_in(groups))
        )
        for groups in readings
    ]
    metrics = Observation()
    counts = [
        F.count(F.lit(1)).alias("read"),
        F.count_if(INVALID).alias("invalid"),
        F.count_if(F.col(KEY_ONLY) & ~F.col(INVALID)).alias("key_only"),
        F.sum(F.when(F.col(INVALID), 0).otherwise(count_entries())).alias("inexact"),
    ]
    typed = combine_pairwise(DataFrame.unionByName, parts).observe(metrics, *counts)
    return Segment(step, typed, metrics, counts)


def _group_by_reading(row_groups: Sequence[TypedRowGroup]) -> list[list[TypedRowGroup]]:
    """Put groups together that are read in the same way, whatever columns their rows state."""
    readings: dict[object, list[TypedRowGroup]] = {}
    for typed in row_groups:
        reading = (
            *(typed.group.schema_version, typed.group.member_names, typed.redecode, typed.fault),
            *(has_certain_columns(typed), write_json(typed.schema)),
        )
        readings.setdefault(reading, []).append(typed)
    return list(readings.values())


def _is_in(groups: Sequence[TypedRowGroup]) -> Column:
    """Whether a pending row is in one of the groups."""
    return combine_pairwise(
        or_,
        (
            F.col("schema_version").eqNullSafe(F.lit(typed.group.schema_version))
            & F.col("observed").eqNullSafe(F.lit(typed.group.observed))
            & F.col("columns").eqNullSafe(F.lit(typed.group.columns))
            & (F.col("member_names") == typed.group.member_names)
            for typed in groups
        ),
    )
