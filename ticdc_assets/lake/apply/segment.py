"""The events of one segment, typed: the new row and the old one, and whether they are any good.

A segment is a table between two DDLs; all of it is native Spark, but for rows that were decoded by
flags which their schema contradicts.  What it makes of the rows is for `keyed` and `multiset`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import add, or_
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.errors import DecodeError
from ticdc_assets.events import FilePosition, Op, RowChange, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.lake.apply.pending_rows import between
from ticdc_assets.lake.columns.expressions import any_of, combine_pairwise
from ticdc_assets.lake.columns.reading import (
    has_undecodable_text,
    has_unknown_columns,
    is_broken,
    is_malformed,
    name_fields,
    parse_images,
    type_columns,
)
from ticdc_assets.lake.columns.types import (
    DeltaColumn,
    choose_delta_names,
    list_delta_columns,
    list_stored_columns,
)
from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.plan.steps import ApplyRows, TypedRowGroup

# Rereads a row that was decoded by flags which its table's schema contradicts.
Redecode = Callable[[RowChange, TableSchema], RowChange]

# What is kept of an event beside its values: its place in the order, and where it came from.
ORIGIN = (
    "batch",
    "seq",
    "index",
    "database",
    "table",
    "commit_ts",
    "source",
    "partition",
    "number",
)
_ORDER = ("order_ts", "after_ddls", "ordered_by_commit_ts")
BAD, _INEXACT, KEY_ONLY = "⌗bad", "⌗inexact", "⌗key_only"


@dataclass
class Segment:
    """A table's events in a segment.

    `typed` has all events: their origin, the new row's values by Delta name, the old key's (of a
    table without a key: the old row's) under `⌗old`, and whether they are bad.
    """

    step: ApplyRows
    typed: DataFrame
    # Counts of what was read, and of the events that tell what the rows are in the end.
    metrics: Observation
    outcome: Observation = field(default_factory=Observation)
    # What it comes to, once that was asked for; and whether that goes into no table, as the rows of
    # a table do that all go to another one.
    result: DataFrame | None = None
    given_away: bool = False

    @property
    def key(self) -> list[str]:
        names = choose_delta_names(self.step.schema)
        return [names[spelt] for spelt in _spelt_key(self.step.schema)]

    @property
    def unique_keys(self) -> list[list[str]]:
        names = choose_delta_names(self.step.schema)
        return [[names[spelt] for spelt in key] for key in self.step.schema.unique_keys]

    @property
    def overwrites(self) -> bool:
        """Whether the old rows of updates are not in the stream."""
        return any(reading.group.overwrites for reading in self.step.row_groups)

    @property
    def columns(self) -> list[DeltaColumn]:
        return list_delta_columns(self.step.schema)

    @property
    def is_ordered_by_commit_ts(self) -> bool:
        return all(reading.group.ordered_by_commit_ts for reading in self.step.row_groups)


def _spelt_key(schema: TableSchema) -> list[str]:
    columns = (schema.column(name) for name in schema.key)
    return [column.name for column in columns if column is not None]


def read_segment(due: DataFrame, step: ApplyRows, redecode: Redecode | None) -> Segment:
    """Type the due rows of a segment."""
    schema = step.schema
    name = make_table_name(schema.database, schema.table)
    rows = due.where((F.col("name") == name) & between(step.low, step.high))
    groups = _groups(step.row_groups)
    parts = [
        _typed(rows if len(groups) == 1 else rows.where(_like(group)), schema, group, redecode)
        for group in groups
    ]
    everything = combine_pairwise(DataFrame.unionByName, parts)
    metrics = Observation()
    observed = everything.observe(
        metrics,
        F.count(F.lit(1)).alias("read"),
        F.count_if(BAD).alias("bad"),
        F.count_if(F.col(KEY_ONLY) & ~F.col(BAD)).alias("key_only"),
        F.sum(F.when(F.col(BAD), 0).otherwise(F.col(_INEXACT))).alias("inexact"),
    )
    return Segment(step, observed, metrics)


def _groups(row_groups: Sequence[TypedRowGroup]) -> list[list[TypedRowGroup]]:
    """Readings that are read alike, whatever their rows say of their columns."""
    groups: dict[object, list[TypedRowGroup]] = {}
    for reading in row_groups:
        group = reading.group
        alike = (group.schema_version, group.member_names, reading.redecode, _is_sure(reading))
        groups.setdefault((*alike, msgspec.json.encode(reading.schema)), []).append(reading)
    return list(groups.values())


def _is_sure(reading: TypedRowGroup) -> bool:
    """Whether images are known to have no columns that the schema lacks, and texts for values."""
    stated = reading.group.columns
    names = {column.name for column in reading.schema.columns}
    return stated is not None and names.issuperset(json.loads(stated))


def _like(group: Sequence[TypedRowGroup]) -> Column:
    """Whether a row is one of a group."""
    return combine_pairwise(
        or_,
        (
            F.col("schema_version").eqNullSafe(F.lit(reading.group.schema_version))
            & F.col("observed").eqNullSafe(F.lit(reading.group.observed))
            & F.col("columns").eqNullSafe(F.lit(reading.group.columns))
            & (F.col("member_names") == reading.group.member_names)
            for reading in group
        ),
    )


def _typed(
    rows: DataFrame, schema: TableSchema, group: Sequence[TypedRowGroup], redecode: Redecode | None
) -> DataFrame:
    """Type rows that are read by one schema, as columns of the table's own."""
    reading = group[0]
    if reading.redecode and redecode is not None:
        rows = _redecoded(rows, reading.schema, redecode)
    by, names = reading.schema, reading.group.member_names
    columns = list_delta_columns(schema)
    key = set(_spelt_key(schema))
    # Of a table with a key nothing else of the old row is of use.
    old_names = {folded(name) for name in key} or {folded(c.name) for c in by.columns}
    old_schema = replace(
        by, columns=tuple(c for c in by.columns if folded(c.name) in old_names), declared_key=None
    )
    # Inserts have no old row, and to look for one costs as much as to read the new one.
    only_new = all(r.group.inserts == r.group.rows for r in group)
    images = rows.select(
        *(*ORIGIN, *_ORDER, "op", "after", "before"),
        F.col("handle_key_only").alias(KEY_ONLY),
        parse_images(by, F.col("after")).alias("⌗after"),
        *([] if only_new else [parse_images(old_schema, F.col("before")).alias("⌗before")]),
    )
    new = type_columns(by, F.col("⌗after"), member_names=names)
    merged = _whole_before(old_schema, is_key=bool(key))
    old = [] if only_new else type_columns(old_schema, merged, member_names=names)
    has_new = F.col("after").isNotNull()
    has_old = F.lit(False) if only_new else F.col("before").isNotNull()
    new_by_name = {folded(t.name): t for t in new}
    old_by_name = {folded(t.name): t for t in old}
    key_names = {choose_delta_names(schema)[name] for name in key}
    is_sure = _is_sure(reading)
    no_image = is_broken if is_sure else is_malformed
    bad = [
        has_new & any_of(t.invalid for t in new),
        no_image(F.col("after"), F.col("⌗after")),
        ~has_new & ~has_old,
    ]
    if not is_sure:
        bad.append(has_new & has_unknown_columns(by, F.col("after")))
    sides = [(has_new, new_by_name)]
    if not only_new:
        bad.append(has_old & any_of(t.invalid for t in old))
        bad.append(no_image(F.col("before"), F.col("⌗before")))
        sides.append((has_old, old_by_name))
    for name in key_names:
        for has, found in sides:
            at = found.get(folded(name))
            bad.append(has if at is None else has & at.value.isNull() & ~at.inexact)
    # Values that Delta has none for, and texts with bytes that are no UTF-8.
    flags = [*(t.inexact for t in new), has_undecodable_text(F.col("after"))]
    inexact = combine_pairwise(add, [flag.cast("int") for flag in flags])
    return images.select(
        # Columns of the user's may be called like any of these.
        *(F.col(name).alias(f"⌗{name}") for name in (*ORIGIN, *_ORDER)),
        KEY_ONLY,
        F.coalesce(any_of(bad), F.lit(True)).alias(BAD),
        F.when(has_new, inexact).otherwise(0).alias(_INEXACT),
        has_new.alias("⌗new"),
        has_old.alias("⌗has_old"),
        (has_new & ~has_old & (F.col("op") == "update")).alias("⌗overwrites"),
        *(_cast(new_by_name.get(folded(c.name)), c).alias(c.name) for c in columns),
        F.struct(
            *(
                _cast(old_by_name.get(folded(c.name)), c).alias(c.name)
                for c in columns
                if not key_names or c.name in key_names
            )
        ).alias("⌗old"),
        F.col("after").alias("⌗after_text"),
        F.col("before").alias("⌗before_text"),
    )


def _whole_before(schema: TableSchema, *, is_key: bool) -> Column:
    """The old row: what an update leaves out of it did not change.

    No column of a key is NULL, so of these a NULL says that it is left out.
    """
    there = F.json_object_keys(F.col("before"))
    texts = []
    for column, at in zip(list_stored_columns(schema), name_fields(schema), strict=True):
        old, new = F.col("⌗before").getField(at), F.col("⌗after").getField(column.name)
        stated = F.array_contains(there, column.name)
        text = F.coalesce(old, new) if is_key else F.when(stated, old).otherwise(new)
        texts.append(text.alias(at))
    return F.struct(*texts)


def _cast(found: Any, column: DeltaColumn) -> Column:
    """A value that was read by another version of the schema, as the table has it now."""
    return F.lit(None).cast(column.type) if found is None else found.value.try_cast(column.type)


def _redecoded(rows: DataFrame, schema: TableSchema, redecode: Redecode) -> DataFrame:
    """Read images again that were decoded by stale flags; what cannot be is no image any more."""
    written = msgspec.json.encode(schema)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        table = msgspec.json.decode(written, type=TableSchema)
        for batch in batches:
            yield redecode_batch(batch, table, redecode)

    return rows.mapInArrow(work, rows.schema)


def redecode_batch(
    batch: pa.RecordBatch, schema: TableSchema, redecode: Redecode
) -> pa.RecordBatch:
    """Settle the rows of a batch."""
    images: dict[str, list[str | None]] = {"before": [], "after": []}
    columns = (batch.column(name).to_pylist() for name in ("before", "after", "observed"))
    for before, after, observed in zip(*columns, strict=True):
        change = RowChange(
            op=Op.UPSERT,
            commit_ts=0,
            database="",
            table="",
            position=FilePosition(""),
            before=before,
            after=after,
            observed=observed,
        )
        try:
            change = redecode(change, schema)
        except DecodeError:
            # Broken JSON is refused where images are typed, and said.
            change = replace(change, before=before and "!", after=after and "!")
        images["before"].append(change.before)
        images["after"].append(change.after)
    for name, texts in images.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at), pa.array(texts, pa.string()))
    return batch
