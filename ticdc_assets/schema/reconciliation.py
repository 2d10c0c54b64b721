"""Reconciling the schema that a protocol states with the schema replayed from DDL.

The stated schema takes precedence, and the replayed one supplies what protocols omit or reorder:
classic Simple sorts columns by id, no protocol states generated columns or partitions, storage
schema files state no index but the primary key, and classic ones no enum members.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

from msgspec.structs import replace

from ticdc_assets.errors import ContradictingDdl
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.table_schema import fold_name, is_hidden
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange, ColumnConverted
from ticdc_assets.schema.types.mysql_type import require_known_types


def reconcile(replayed: TableSchema, stated: TableSchema) -> TableSchema:
    """Join the schema replayed from DDL with the one stated for the same commit ts."""
    completed = {c.name: _complete_column(replayed.column(c.name), c) for c in stated.columns}
    stated_order = [column.name for column in stated.columns]
    order = _order_columns(replayed, stated)
    return replace(
        stated,
        columns=tuple(completed[name] for name in order),
        checksum_order=() if order == stated_order else tuple(stated_order),
        indexes=_complete_indexes(replayed, stated),
        partitioning=replayed.partitioning,
        declared_key=replayed.declared_key,
        lost_key=replayed.lost_key,
        charset=replayed.charset,
        comment=stated.comment or replayed.comment,
    )


def join_stated(
    replayed: TableSchema, stated: TableSchema | None, before: TableSchema | None = None
) -> TableSchema:
    """Join the schema that a statement gives with the one stated, if that is of the same table.

    `before` is the schema of the rows that the table has, if any, and if that is certain.
    """
    if stated is None or _name(stated) != _name(replayed):
        return replayed
    joined = require_known_types(reconcile(replayed, stated))
    if before is not None:
        _require_same_columns(before, replayed, stated)
    return joined


def _name(schema: TableSchema) -> tuple[str, str]:
    return fold_name(schema.database), fold_name(schema.table)


def _require_same_columns(before: TableSchema, replayed: TableSchema, stated: TableSchema) -> None:
    """Raise if a stated schema lacks a column that no statement drops, or has one that none adds.

    What rows have in such a column is unknown.  Of a table that only rows have shown, the columns
    are uncertain; a column that the statement adds may be one that TiCDC leaves out.
    """
    if before.origin == "inferred":
        return
    kept = (known for known in replayed.columns if before.column(known.name) is not None)
    dropped = _find_missing_column(kept, stated)
    if dropped is not None:
        raise ContradictingDdl(f"column {dropped!r} is not stated, and no DDL dropped it")
    added = _find_missing_column(stated.columns, replayed)
    if added is not None:
        raise ContradictingDdl(f"column {added!r} is stated, and no DDL added it")


def find_unknown_column(current: TableSchema, written: TableSchema) -> str | None:
    """Say which column a row was written with that its table lacks, for want of a DDL before it.

    An older row may have one that was dropped since.
    """
    if current.origin == "inferred" or (written.version or 0) <= (current.version or 0):
        return None
    added = _find_missing_column(written.columns, current)
    return None if added is None else f"column {added[:80]!r}: no DDL has added it"


def _find_missing_column(columns: Iterable[Column], other: TableSchema) -> str | None:
    """Find the first of some columns of rows that another schema lacks."""
    for column in columns:
        is_of_rows = column.generated != "virtual" and not is_hidden(column.name)
        if is_of_rows and other.column(column.name) is None:
            return column.name
    return None


def mark_hidden_columns(stated: TableSchema) -> TableSchema:
    """Mark TiDB's hidden columns as virtual in a schema that no DDL completes."""
    return replace(stated, columns=tuple(_complete_column(None, c) for c in stated.columns))


def adopt_stated_types(
    steps: Sequence[ColumnChange], schema: TableSchema
) -> tuple[ColumnChange, ...]:
    """Replace the types in column changes by the types in the stated schema after them.

    The text of a DDL omits what a column inherits, such as the charset that makes a VARCHAR a
    VARBINARY.  Its TIMESTAMP defaults are in the session's time zone; stated ones are in UTC.
    """
    return tuple(_adopt_stated_type(step, schema) for step in steps)


def set_time_zone(step: ColumnChange, zone: tzinfo | None, *, is_stated: bool) -> ColumnChange:
    """Return a change with the time zone on which the values of existing rows may depend."""
    match step:
        case ColumnAdded(column):
            # Stated defaults of TIMESTAMP are in UTC.
            is_utc = is_stated and column.type.name == "timestamp"
            return replace(step, zone=UTC if is_utc else zone)
        case ColumnConverted():
            return replace(step, zone=zone)
    return step


def _adopt_stated_type(step: ColumnChange, schema: TableSchema) -> ColumnChange:
    match step:
        case ColumnAdded(column):
            known = schema.column(column.name)
            if known is None or known.generated is not None:
                return step
            if known.type.name == column.type.name != "timestamp":
                is_expression = column.default_is_expression
                known = replace(known, default=column.default, default_is_expression=is_expression)
            return ColumnAdded(known)
        case ColumnConverted(name, old, _):
            known = schema.column(name)
            return step if known is None else ColumnConverted(name, old, known.type)
    return step


def _order_columns(replayed: TableSchema, stated: TableSchema) -> list[str]:
    """Return the column names in stated order, or in replayed order if the two differ.

    Columns that only one schema has do not count as a difference; in replayed order they are last.
    """
    by_name = {fold_name(c.name): c.name for c in stated.columns}
    known = [by_name[n] for c in replayed.columns if (n := fold_name(c.name)) in by_name]
    common = set(known)
    order = [c.name for c in stated.columns]
    if [name for name in order if name in common] == known:
        return order
    return [*known, *(name for name in order if name not in common)]


def _complete_column(replayed: Column | None, stated: Column) -> Column:
    if replayed is None:
        return replace(stated, generated="virtual") if is_hidden(stated.name) else stated
    default, is_expression = stated.default, stated.default_is_expression
    if replayed.default_is_expression or default is None:
        default, is_expression = replayed.default, replayed.default_is_expression
    return replace(
        stated,
        type=_complete_type(replayed.type, stated.type),
        default=default,
        default_is_expression=is_expression,
        generated=stated.generated or replayed.generated,
        comment=stated.comment or replayed.comment,
        added_value=replayed.added_value if stated.added_value is None else stated.added_value,
    )


def _complete_type(replayed: ColumnType, stated: ColumnType) -> ColumnType:
    if replayed.name != stated.name:
        return stated
    return replace(
        stated,
        length=stated.length if stated.length is not None else replayed.length,
        decimals=stated.decimals if stated.decimals is not None else replayed.decimals,
        elements=stated.elements or replayed.elements,
        charset=stated.charset or replayed.charset,
        collation=stated.collation or replayed.collation,
    )


def _complete_indexes(replayed: TableSchema, stated: TableSchema) -> tuple[Index, ...]:
    """Return the stated indexes; if only a primary key is stated, add the replayed ones.

    A protocol that states only the primary key lists its columns in table order, so restore the
    key's order from the replayed one.
    """
    if stated.states_all_indexes:
        return stated.own_indexes
    stated_keys = (index for index in stated.indexes if index.primary)
    primary = tuple(_restore_key_order(key, replayed.indexes) or key for key in stated_keys)
    return primary + tuple(index for index in replayed.own_indexes if not index.primary)


def _restore_key_order(stated: Index, replayed: tuple[Index, ...]) -> Index | None:
    """Return a stated primary key in replayed order, if a replayed one has the same columns."""
    names = {fold_name(name) for name in stated.columns}
    for index in replayed:
        if index.primary and {fold_name(name) for name in index.columns} == names:
            by_name = {fold_name(name): name for name in stated.columns}
            return replace(stated, columns=tuple(by_name[fold_name(n)] for n in index.columns))
    return None


def with_key_columns(schema: TableSchema) -> TableSchema:
    """Return the schema with the columns of PARTITION BY KEY () filled in.

    They are those of the key at the time of partitioning; a later primary key does not count.
    """
    partitioning = schema.partitioning
    if partitioning is None or partitioning.kind != "key" or partitioning.columns:
        return schema
    columns = schema.effective_primary_key
    return replace(schema, partitioning=replace(partitioning, columns=columns))
