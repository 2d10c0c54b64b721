"""Inferring schemas from rows: of tables whose CREATE was not observed, or after a missed DDL.

Rows state column names and base types (in Open Protocol also NOT NULL) and often the key; never
lengths, scales or enum members.  An inferred schema has the origin `inferred`.
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from ticdc_assets.events import Column, Index, RowChange, TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.schema.alteration import INFERRED_KEY
from ticdc_assets.schema.effect import ColumnConverted
from ticdc_assets.schema.types.mysql_type import parse_type

_NOT_NULL = " not null"
_decode = msgspec.json.Decoder(dict[str, str]).decode


@lru_cache(maxsize=4096)
def parse_observed_columns(observed: str) -> tuple[Column, ...]:
    """Parse the column names and types that a row states."""
    return tuple(
        Column(name, parse_type(text), nullable=not text.lower().endswith(_NOT_NULL))
        for name, text in _decode(observed).items()
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
        change.database, change.table, _in_row_order(columns, change), indexes, origin="inferred"
    )


def merge_observed_columns(
    schema: TableSchema, change: RowChange, *, by_flags: bool = False
) -> TableSchema:
    """Hold a row against the schema that DDL gave: what the row shows otherwise, wins.

    Columns that rows leave out stay (virtual ones, and those a column selector drops).  A row that
    tells `unsigned` by a flag may have lost it, and does not win there.
    """
    if change.observed is None:
        return schema
    seen = parse_observed_columns(change.observed)
    columns = list(schema.columns)
    for column in seen:
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
    """List the conversions of existing rows after a row showed new column types."""
    return tuple(
        ColumnConverted(new.name, old.type, new.type)
        for old, new in zip(before.columns, after.columns, strict=False)
        if old.type != new.type
    )


def _in_row_order(columns: tuple[Column, ...], change: RowChange) -> tuple[Column, ...]:
    """Sort columns as in the row image; Canal-JSON lists types in random order."""
    image = change.after or change.before
    order = {name: i for i, name in enumerate(load(image))} if image is not None else {}
    return tuple(sorted(columns, key=lambda c: order.get(c.name, len(order))))
