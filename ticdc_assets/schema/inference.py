"""Inferring a schema from rows, if the table's CREATE was not observed or a DDL was missed.

Rows state column names, base types (in Open Protocol also NOT NULL) and often the key, but never
lengths, scales or enum members.  An inferred schema has the origin `inferred`.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import Column, ColumnType, Index, RowChange, TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.schema.alteration import INFERRED_KEY
from ticdc_assets.schema.effect import ColumnConverted
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS
from ticdc_assets.schema.types.mysql_type import holds_values_of, parse_type

_NOT_NULL = " not null"
_decode = msgspec.json.Decoder(dict[str, str]).decode
_decode_any = msgspec.json.Decoder(dict[str, str | None]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


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


@lru_cache(maxsize=4096)
def sort_observed_columns(observed: str) -> str:
    """Sort the columns of an `observed` text: servers write them in any order."""
    try:
        return _encode(_decode_any(observed)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return observed


def statement_order(
    schema_version: int | None, observed: str | None, key_columns: tuple[str, ...] | None
) -> tuple[int, str, tuple[str, ...]]:
    """Return the order in which rows of one commit ts state the columns of their table.

    They arrive in any order.
    """
    return schema_version or 0, sort_observed_columns(observed or ""), key_columns or ()


def infer_schema(change: RowChange) -> TableSchema | None:
    """Infer a table's schema from one of its rows; None if the row states no types."""
    if change.observed is None:
        return None
    keys = change.key_columns or ()
    columns = tuple(
        replace(c, nullable=False) if c.name in keys else c
        for c in parse_observed_columns(change.observed)
    )
    names = {column.name for column in columns}
    has_key = keys and names.issuperset(keys)
    indexes = (Index(INFERRED_KEY, keys, unique=True),) if has_key else ()
    return TableSchema(
        change.database,
        change.table,
        _sort_by_row_order(columns, change),
        indexes,
        origin="inferred",
    )


def adopt_observed_columns(
    schema: TableSchema, change: RowChange, *, by_flags: bool = False
) -> TableSchema:
    """Return a schema with what a row states about columns, if those are not certain.

    Such a row adds columns, widens types and states the key; it never changes the values of other
    rows.  Columns missing from the row remain: rows omit virtual columns and those that a column
    selector drops.
    """
    if change.observed is None or not _may_be_uncertain(schema, change):
        return schema
    columns = list(schema.columns)
    for known, stated in _compare(schema, change.observed, by_flags=by_flags):
        if known is None:
            columns.append(stated)
        elif _is_wider(stated.type, known.type):
            columns[columns.index(known)] = replace(known, type=stated.type)
    names = {column.name for column in columns}
    if not schema.key and change.key_columns and names.issuperset(change.key_columns):
        schema = replace(schema, declared_key=change.key_columns)
    if tuple(columns) == schema.columns:
        return schema
    return replace(schema, columns=tuple(columns), origin="inferred")


def find_contradiction(
    schema: TableSchema, change: RowChange, *, by_flags: bool = False
) -> str | None:
    """Return how the columns that a row states contradict the schema it was written under.

    Only a DDL changes a column.  A row that states another type than every DDL and row before it is
    damaged, or the changefeed left its DDL out: to convert the column would change other rows.
    """
    if change.observed is None:
        return None
    for known, stated in _compare(schema, change.observed, by_flags=by_flags):
        if known is None:
            return f"column {stated.name[:80]!r}: no DDL has added it"
        if not holds_values_of(known.type, stated.type):
            types = f"the row states {_format(stated.type)}, the table has {_format(known.type)}"
            return f"column {known.name[:80]!r}: {types}, and no DDL has changed it"
    return None


def _may_be_uncertain(schema: TableSchema, change: RowChange) -> bool:
    """Whether a row may know more of its table's columns than all DDLs before it.

    Either no DDL has stated them all, or the row has only milliseconds and may come before
    a DDL with the same milliseconds.
    """
    has_no_place = change.ordering == "milliseconds" and change.schema_version is None
    return schema.origin == "inferred" or has_no_place


def _compare(
    schema: TableSchema, observed: str, *, by_flags: bool
) -> Iterator[tuple[Column | None, Column]]:
    """Yield each column of a schema, or None, with the column that a row states.

    With `by_flags` the row states `unsigned` by a flag, which may be lost, so the schema's
    `unsigned` counts.
    """
    for stated in parse_observed_columns(observed):
        known = schema.column(stated.name)
        if known is not None and by_flags:
            type = replace(stated.type, unsigned=known.type.unsigned)
            yield known, replace(stated, type=type)
        else:
            yield known, stated


def _is_wider(t: ColumnType, other: ColumnType) -> bool:
    return holds_values_of(t, other) and not holds_values_of(other, t)


def _format(t: ColumnType) -> str:
    return f"{t.name} unsigned" if t.unsigned else t.name


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
    try:
        order = {name: i for i, name in enumerate(load(image or "{}"))}
    except MalformedMessage:
        # Whoever reads the row's values reports it.
        order = {}
    return tuple(sorted(columns, key=lambda c: order.get(c.name, len(order))))
