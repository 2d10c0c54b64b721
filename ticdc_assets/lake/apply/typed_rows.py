"""Type the images of pending rows as columns of their table, and find the rows that are invalid.

All of it is native Spark, except for rows that were decoded by stale flags (`_redecode_rows`).

The columns of a typed row, beside the new row's values under the table's Delta names and its
entries (`columns.inexact`): its origin and order, the old row's values and entries (of a table with
a key: the old key's) in `⌗old`, and flags.  Their names start with `⌗` because user columns may
have any name.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.apply.row_mismatches import find_mismatch
from ticdc_assets.lake.columns.escaped_text import has_undecodable_text
from ticdc_assets.lake.columns.expressions import any_of
from ticdc_assets.lake.columns.reading import (
    TypedColumn,
    has_unknown_columns,
    is_broken,
    is_malformed,
    name_fields,
    name_values,
    parse_images,
    type_columns,
)
from ticdc_assets.lake.columns.writing import write_images
from ticdc_assets.plan.steps import TypedRowGroup
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.rows.changes import redecode_images
from ticdc_assets.rows.columns import (
    DeltaColumn,
    choose_delta_names,
    list_delta_columns,
    list_stored_columns,
)
from ticdc_assets.rows.left_out import ORIGIN
from ticdc_assets.schema.types.either_moment import list_identifying_timestamps

# Its place in the order.
_ORDER = ("order_ts", "after_ddls", "ordered_by_commit_ts")
INVALID, KEY_ONLY = "⌗invalid", "⌗key_only"
# What upstream said of a row of which the stream has only the key (`RowChange.upstream`).
UPSTREAM = "⌗upstream"
# Whether the images of a row had to be escaped (`columns.escaped_text`).
_ESCAPED = "⌗escaped"
# Why all rows of the group are invalid, if they are; and how a row differs from its checksum.
FAULT, MISMATCH = "⌗fault", "⌗mismatch"
# The new row: its values and exact texts, named as in Delta by the schema it was written under.
_TYPED = "⌗typed"


def get_position() -> Column:
    """Return the position of an event as one column."""
    names = ("source", "partition", "number", "index")
    return F.struct(*(F.col(f"⌗{name}").alias(name) for name in names)).alias("⌗position")


def spell_key(schema: TableSchema) -> list[str]:
    """Return the names of a table's key columns as its columns spell them."""
    columns = (schema.column(name) for name in schema.key)
    return [column.name for column in columns if column is not None]


def has_certain_columns(typed: TypedRowGroup) -> bool:
    """Whether images have texts for values only, and no column that the schema lacks."""
    stated = typed.group.columns
    names = {column.name for column in typed.schema.columns}
    return stated is not None and names.issuperset(json.loads(stated))


class GroupReader:
    """Types rows that were written under one schema as columns of their table's schema."""

    def __init__(
        self,
        table: TableSchema,
        groups: Sequence[TypedRowGroup],
        redecode: Redecode | None,
        *,
        may_escape: bool,
    ) -> None:
        """`may_escape`: rows may have bytes that are not UTF-8."""
        first = groups[0]
        self._schema = first.schema
        self._fault = first.fault
        self._redecode = redecode if first.redecode else None
        # Which images are escaped; None if none is.
        self._escaped = F.col(_ESCAPED) if may_escape or self._redecode is not None else None
        self._has_certain_columns = has_certain_columns(first)
        self._columns = list_delta_columns(table)
        key = spell_key(table)
        names = choose_delta_names(table)
        self._key = {names[column] for column in key}
        self._identifying = {names[column] for column in list_identifying_timestamps(table)}
        # A table with a key needs nothing else of the old row.
        old_names = {fold_name(column) for column in key or (c.name for c in self._schema.columns)}
        self._old_schema = replace(
            self._schema,
            columns=tuple(c for c in self._schema.columns if fold_name(c.name) in old_names),
            declared_key=None,
        )
        # Inserts have no old row, and parsing for one costs as much as parsing the new one.
        self._has_old = not all(t.group.inserts == t.group.rows for t in groups)
        self._verifies = self._fault is None and any(t.group.checksums for t in groups)
        type_image = partial(
            type_columns, escaped=self._escaped, member_names=first.group.member_names
        )
        self._new = type_image(self._schema, F.col("⌗after"))
        self._old: list[TypedColumn] = []
        if self._has_old:
            self._old = type_image(self._old_schema, self._complete_old_row())

    def read(self, rows: DataFrame) -> DataFrame:
        """Return typed rows."""
        if self._redecode is not None:
            rows = _redecode_rows(rows, self._schema, self._redecode)
        has_new, has_old = self._has_new_image(), self._has_old_image()
        old_columns = [c for c in self._columns if not self._key or c.name in self._key]
        parsed = self._parse(rows)
        mismatch = F.lit(None).cast("string")
        if self._verifies:
            parsed = self._verify(parsed)
            mismatch = F.col(MISMATCH)
        return parsed.select(
            *(F.col(name).alias(f"⌗{name}") for name in (*ORIGIN, *_ORDER)),
            KEY_ONLY,
            UPSTREAM,
            # Were it a literal, Spark would leave out the work on invalid rows and, with it, what
            # the run observes to count them.
            (F.coalesce(any_of(self._find_faults()), F.lit(True)) & F.col("op").isNotNull()).alias(
                INVALID
            ),
            mismatch.alias(MISMATCH),
            F.lit(self._fault).cast("string").alias(FAULT),
            has_new.alias("⌗new"),
            has_old.alias("⌗has_old"),
            (has_new & ~has_old & (F.col("op") == "update")).alias("⌗overwrites"),
            *name_values(_cast(self._new, self._columns)),
            F.struct(*name_values(_cast(self._old, old_columns))).alias("⌗old"),
            F.col("after").alias("⌗after_text"),
            F.col("before").alias("⌗before_text"),
        )

    def _parse(self, rows: DataFrame) -> DataFrame:
        sides = [("after", self._schema)]
        if self._has_old:
            sides.append(("before", self._old_schema))
        kept = [*ORIGIN, *_ORDER, "op", "after", "before", "checksum"]
        if self._escaped is not None:
            # Both or none, so that an old row can take texts from the new one.
            escaped = any_of(
                F.coalesce(has_undecodable_text(F.col(name)), F.lit(False)) for name, _ in sides
            )
            rows = rows.withColumn(_ESCAPED, escaped)
            kept.append(_ESCAPED)
        images = [
            parse_images(schema, F.col(name), self._escaped).alias(f"⌗{name}")
            for name, schema in sides
        ]
        return rows.select(
            *kept,
            self._has_key_only().alias(KEY_ONLY),
            F.col("statement").alias(UPSTREAM),
            *images,
        )

    def _verify(self, parsed: DataFrame) -> DataFrame:
        """Add how rows differ from their checksums."""
        typed = parsed.withColumn(_TYPED, F.struct(*name_values(self._new)))
        written = write_images(self._schema, F.col(_TYPED).getField)
        return typed.withColumn(MISMATCH, find_mismatch(self._schema, F.col(KEY_ONLY), written))

    def _has_new_image(self) -> Column:
        return F.col("after").isNotNull()

    def _has_key_only(self) -> Column:
        """Return whether a row lacks what its table needs: of a deleted one, the key will do."""
        key_only = F.col("handle_key_only")
        return key_only & F.col("after").isNotNull() if self._key else key_only

    def _has_old_image(self) -> Column:
        return F.col("before").isNotNull() if self._has_old else F.lit(False)

    def _complete_old_row(self) -> Column:
        """Return the old row with the new row's values where an update did not change them.

        No key column is NULL, so NULL in a key says that the update leaves the column out.
        """
        stated = F.json_object_keys(F.col("before"))
        texts = []
        schema = self._old_schema
        for column, name in zip(list_stored_columns(schema), name_fields(schema), strict=True):
            old, new = F.col("⌗before").getField(name), F.col("⌗after").getField(column.name)
            if self._key:
                text = F.coalesce(old, new)
            else:
                text = F.when(F.array_contains(stated, column.name), old).otherwise(new)
            texts.append(text.alias(name))
        return F.struct(*texts)

    def _find_faults(self) -> list[Column]:
        """Return the conditions under which a row is invalid."""
        if self._fault is not None:
            return [F.lit(True)]
        has_new, has_old = self._has_new_image(), self._has_old_image()
        is_no_image = is_broken if self._has_certain_columns else is_malformed
        sides = [(has_new, self._new, "after")]
        if self._has_old:
            sides.append((has_old, self._old, "before"))
        faults = [~has_new & ~has_old]
        if self._verifies:
            faults.append(F.col(MISMATCH).isNotNull())
        for has_image, columns, name in sides:
            faults.append(has_image & any_of(column.invalid for column in columns))
            faults.append(is_no_image(F.col(name), F.col(f"⌗{name}")))
            key_faults = find_key_faults(columns, self._key, self._identifying)
            faults += [has_image & fault for fault in key_faults]
        if self._has_old and self._key:
            faults.append(has_old & self._states_null_key())
        if not self._has_certain_columns:
            for has_image, _, name in sides:
                faults.append(has_image & has_unknown_columns(self._schema, F.col(name)))
        return faults

    def _states_null_key(self) -> Column:
        """Return whether an old row states NULL in its key, instead of leaving it out."""
        image = F.col("before")
        schema = self._old_schema
        stated = F.json_object_keys(image)
        is_null = any_of(
            F.col("⌗before").getField(field).isNull() & F.array_contains(stated, column.name)
            for column, field in zip(list_stored_columns(schema), name_fields(schema), strict=True)
        )
        return F.contains(image, F.lit("null")) & F.coalesce(is_null, F.lit(False))


def find_key_faults(
    columns: Sequence[TypedColumn], key: Iterable[str], identifying: Iterable[str]
) -> list[Column]:
    """Return the conditions under which a row cannot be found again by its key.

    `identifying` are TIMESTAMPs that a key or the partitioning has; all names are Delta's.
    """
    by_name = {fold_name(column.name): column for column in columns}
    faults = []
    for name in key:
        column = by_name.get(fold_name(name))
        if column is None:
            faults.append(F.lit(True))
            continue
        lacks_key = column.value.isNull()
        faults.append(lacks_key if column.inexact is None else lacks_key & ~column.inexact)
    for name in identifying:
        column = by_name.get(fold_name(name))
        if column is not None and column.inexact is not None:
            # It is one of two moments, and the value is the first of them.
            faults.append(column.inexact & column.value.isNotNull())
    return faults


def _cast(typed: Sequence[TypedColumn], columns: Sequence[DeltaColumn]) -> list[TypedColumn]:
    """Return columns that an older schema version typed as the columns that the table has now."""
    by_name = {fold_name(column.name): column for column in typed}
    nothing = F.lit(None)
    casts = []
    for column in columns:
        found = by_name.get(fold_name(column.name))
        if found is None:
            found = TypedColumn(column.name, "void", nothing, nothing, None, nothing)
        same = found.type == column.type
        value = found.value if same else found.value.try_cast(column.type)
        casts.append(dataclasses.replace(found, name=column.name, type=column.type, value=value))
    return casts


def _redecode_rows(rows: DataFrame, schema: TableSchema, redecode: Redecode) -> DataFrame:
    """Decode images again that were decoded by stale flags; what cannot be is no image any more."""
    schema_json = write_json(schema)

    def redecode_batches(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        table = read_json(schema_json, TableSchema)
        for batch in batches:
            events = pa.Table.from_batches([batch])
            yield from redecode_images(events, table, redecode).to_batches()

    return rows.mapInArrow(redecode_batches, rows.schema)
