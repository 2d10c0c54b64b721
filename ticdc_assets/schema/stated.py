"""A schema that a message or schema file states, completed by what DDL text says beyond it.

Stated schemas are believed for what they state.  They leave things out: classic Simple sorts
columns by id, no one marks generated columns or says partitions, storage schema files know no keys
but the primary one, and classic ones no enum members.
"""

from msgspec.structs import replace

from ticdc_assets.events import Column, ColumnType, Index, TableSchema


def reconcile(replayed: TableSchema, stated: TableSchema) -> TableSchema:
    """Join the schema built from statements with the one stated for the same moment."""
    completed = {c.name: _column(replayed.column(c.name), c) for c in stated.columns}
    order = [c.name for c in stated.columns]
    if {c.name for c in replayed.columns} == set(order):
        order = [c.name for c in replayed.columns]
    return replace(
        stated,
        columns=tuple(completed[name] for name in order),
        indexes=_indexes(replayed.indexes, stated.indexes),
        partitioning=replayed.partitioning,
        declared_key=replayed.declared_key,
    )


def _column(replayed: Column | None, stated: Column) -> Column:
    if replayed is None:
        return stated
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
    """Stated indexes, unless only a primary key is stated: then the others are left out."""
    if any(not index.primary for index in stated):
        return stated
    return stated + tuple(index for index in replayed if not index.primary)
