"""Reconciling the schema that a protocol states with the schema that DDL text gives.

A stated schema is authoritative for what it states, and the DDL adds the rest: classic Simple sorts
columns by id, no protocol states generated columns or partitions, storage schema files state only
the primary key, and classic ones no enum members.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange, ColumnConverted

# TiDB's own columns behind an index over an expression: virtual, and stated like any other.
_HIDDEN = "_v$_"


def reconcile(replayed: TableSchema, stated: TableSchema) -> TableSchema:
    """Join the schema replayed from DDL with the one stated for the same commit ts."""
    completed = {c.name: _column(replayed.column(c.name), c) for c in stated.columns}
    return replace(
        stated,
        columns=tuple(completed[name] for name in _order(replayed, stated)),
        indexes=_indexes(replayed.indexes, stated.indexes),
        partitioning=replayed.partitioning,
        declared_key=replayed.declared_key,
    )


def mark_hidden_columns(stated: TableSchema) -> TableSchema:
    """Mark TiDB's hidden columns as virtual in a schema that no DDL completes."""
    return replace(stated, columns=tuple(_column(None, c) for c in stated.columns))


def adopt_stated_types(
    steps: Sequence[ColumnChange], schema: TableSchema
) -> tuple[ColumnChange, ...]:
    """Replace the types in column changes by those of the stated schema after them.

    A statement leaves out what the table decides, such as its charset, which makes a VARCHAR a
    VARBINARY; and it has a TIMESTAMP default in its session's time zone, where a stated one is UTC.
    """
    return tuple(_step_as_stated(step, schema) for step in steps)


def _step_as_stated(step: ColumnChange, schema: TableSchema) -> ColumnChange:
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


def _order(replayed: TableSchema, stated: TableSchema) -> list[str]:
    """The columns' names in the table's order: as stated, unless the replayed order differs.

    Columns that only one side knows say nothing about it; they come last.
    """
    by_name = {folded(c.name): c.name for c in stated.columns}
    known = [by_name[n] for c in replayed.columns if (n := folded(c.name)) in by_name]
    common = set(known)
    order = [c.name for c in stated.columns]
    if [name for name in order if name in common] == known:
        return order
    return [*known, *(name for name in order if name not in common)]


def _column(replayed: Column | None, stated: Column) -> Column:
    if replayed is None:
        hidden = folded(stated.name).startswith(_HIDDEN)
        return replace(stated, generated="virtual") if hidden else stated
    default, is_expression = stated.default, stated.default_is_expression
    if replayed.default_is_expression or default is None:
        default, is_expression = replayed.default, replayed.default_is_expression
    return replace(
        stated,
        type=_type(replayed.type, stated.type),
        default=default,
        default_is_expression=is_expression,
        generated=stated.generated or replayed.generated,
        comment=stated.comment or replayed.comment,
    )


def _type(replayed: ColumnType, stated: ColumnType) -> ColumnType:
    if replayed.name != stated.name:
        return stated
    return replace(
        stated,
        length=_either(stated.length, replayed.length),
        decimals=_either(stated.decimals, replayed.decimals),
        elements=stated.elements or replayed.elements,
        charset=stated.charset or replayed.charset,
        collation=stated.collation or replayed.collation,
    )


def _either(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def _indexes(replayed: tuple[Index, ...], stated: tuple[Index, ...]) -> tuple[Index, ...]:
    """Stated indexes, unless only a primary key is stated: then the others are left out.

    The columns of such a primary key are stated in the table's order, not in the key's.
    """
    if any(not index.primary for index in stated):
        return stated
    primary = tuple(_spelt_alike(index, replayed) or index for index in stated)
    return primary + tuple(index for index in replayed if not index.primary)


def _spelt_alike(stated: Index, replayed: tuple[Index, ...]) -> Index | None:
    """The replayed primary key, if it has the columns that are stated."""
    names = {folded(name) for name in stated.columns}
    for index in replayed:
        if index.primary and {folded(name) for name in index.columns} == names:
            by_name = {folded(name): name for name in stated.columns}
            return replace(stated, columns=tuple(by_name[folded(n)] for n in index.columns))
    return None
