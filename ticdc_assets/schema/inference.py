"""Inferring a schema from rows, if the table's CREATE was not observed or a DDL was missed.

Rows state column names, base types (in Open Protocol also NOT NULL) and often the key, but never
lengths, scales or enum members.  An inferred schema has the origin `inferred`.
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, Index, RowChange, TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.schema.alteration import INFERRED_KEY
from ticdc_assets.schema.effect import ColumnConverted
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS
from ticdc_assets.schema.types.mysql_type import parse_type

_NOT_NULL = " not null"
_decode = msgspec.json.Decoder(dict[str, str]).decode


@lru_cache(maxsize=4096)
def parse_observed_columns(observed: str) -> tuple[Column, ...]:
    """Parse the column names and types that a row states."""
    stated = _decode(observed)
    if len(stated) > MAX_COLUMNS:
        raise InvalidValue(TOO_MANY_COLUMNS)
    return tuple(
        Column(name, parse_type(text), nullable=not text.lower().endswith(_NOT_NULL))
        for name, text in stated.items()
    )


def infer_schema(change: RowChange) -> TableSchema | None:
    """Infer a table's schema from one of its rows; None if the row states no types."""
    if change.observed is None:
        return None
    keys = change.key_columns or ()
    columns = tuple(
        replace(c, nullable=False) if c.name in keys else c
        for c in parse_observed_columns(change.observed)
    )
    indexes = (Index(INFERRED_KEY, keys, unique=True),) if keys else ()
    return TableSchema(
        change.database,
        change.table,
        _sort_by_row_order(columns, change),
        indexes,
        origin="inferred",
    )


def merge_observed_columns(
    schema: TableSchema, change: RowChange, *, by_flags: bool = False
) -> TableSchema:
    """Update a schema with the columns that a row states; the row takes precedence.

    Columns missing from the row remain: rows omit virtual columns and those that a column selector
    drops.  With `by_flags` the row states `unsigned` by a flag, which may be lost, so the schema's
    `unsigned` remains.
    """
    if change.observed is None:
        return schema
    columns = list(schema.columns)
    for column in parse_observed_columns(change.observed):
        known = schema.column(column.name)
        if known is None:
            columns.append(column)
        elif known.type.name != column.type.name or (
            known.type.unsigned != column.type.unsigned and not by_flags
        ):
            columns[columns.index(known)] = replace(known, type=column.type)
    if not schema.key and change.key_columns:
        schema = replace(schema, declared_key=change.key_columns)
    if tuple(columns) == schema.columns:
        return schema
    return replace(schema, columns=tuple(columns), origin="inferred")


def find_type_changes(before: TableSchema, after: TableSchema) -> tuple[ColumnConverted, ...]:
    """List the conversions of existing rows between two schemas with the same leading columns."""
    return tuple(
        ColumnConverted(new.name, old.type, new.type)
        for old, new in zip(before.columns, after.columns, strict=False)
        if old.type != new.type
    )


def _sort_by_row_order(columns: tuple[Column, ...], change: RowChange) -> tuple[Column, ...]:
    """Sort columns as in the row image; Canal-JSON lists types in random order."""
    image = change.after or change.before
    order = {name: i for i, name in enumerate(load(image))} if image is not None else {}
    return tuple(sorted(columns, key=lambda c: order.get(c.name, len(order))))
