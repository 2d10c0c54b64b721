"""ALTER TABLE as a function: a schema and one action in, the schema afterwards and row steps out.

Only what concerns a single table lives here; renames and exchanges, which concern two, are the
catalog's.
"""

from collections.abc import Callable
from functools import singledispatch

from msgspec.structs import replace

from ticdc_assets.errors import UnsupportedDdl
from ticdc_assets.events import Column, Index, Partition, Partitioning, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.default import default_of
from ticdc_assets.schema.ddl.indexes import free_name
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)

_TEXT_TYPES = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)

# The name of the index that stands for the handle key which rows tell of.
INFERRED_KEY = "handle"

AlterResult = tuple[TableSchema, tuple[ColumnChange, ...]]


@singledispatch
def apply_action(action: ddl.Action, schema: TableSchema) -> AlterResult:
    """Carry out one action; raise `UnsupportedDdl` when the table as known does not allow it."""
    raise UnsupportedDdl(f"cannot be part of an ALTER TABLE of several actions: {action}", "")


@apply_action.register
def _(action: ddl.ChangesNothing, schema: TableSchema) -> AlterResult:
    return schema, ()


@apply_action.register
def _(action: ddl.AddColumn, schema: TableSchema) -> AlterResult:
    column = action.column
    there = schema.column(column.name)
    if there is not None:
        if action.if_not_exists:
            return schema, ()
        schema = _without(schema, there)
    columns = _placed(schema, schema.columns, column, action.position)
    steps = () if column.generated == "virtual" else (ColumnAdded(column),)
    return replace(schema, columns=columns), steps


@apply_action.register
def _(action: ddl.DropColumn, schema: TableSchema) -> AlterResult:
    dropped = _known(schema, action.name, or_not=action.if_exists)
    if dropped is None:
        return schema, ()
    columns = tuple(c for c in schema.columns if c is not dropped)
    left = (
        replace(i, columns=tuple(n for n in i.columns if not _same(n, dropped.name)))
        for i in schema.indexes
    )
    indexes = tuple(i for i in left if i.columns)
    return replace(schema, columns=columns, indexes=indexes), (ColumnDropped(dropped.name),)


@apply_action.register
def _(action: ddl.RenameColumn, schema: TableSchema) -> AlterResult:
    column = _known(schema, action.old)
    if column is None:
        return schema, ()
    return _replaced(schema, column, replace(column, name=action.new), None)


@apply_action.register
def _(action: ddl.ModifyColumn, schema: TableSchema) -> AlterResult:
    old = _known(schema, action.old_name, or_not=action.if_exists)
    if old is None:
        return schema, ()
    new = action.column
    if any(i.primary and _among(old.name, i.columns) for i in schema.indexes):
        new = replace(new, nullable=False)
    return _replaced(schema, old, new, action.position)


@apply_action.register
def _(action: ddl.SetDefault, schema: TableSchema) -> AlterResult:
    column = _known(schema, action.name)
    if column is None:
        return schema, ()
    default, is_expression = default_of(action, column)
    new = replace(column, default=default, default_is_expression=is_expression)
    return replace(schema, columns=_swapped(schema.columns, column, new)), ()


@apply_action.register
def _(action: ddl.ConvertCharset, schema: TableSchema) -> AlterResult:
    columns = tuple(
        replace(c, type=replace(c.type, charset=action.charset, collation=action.collation))
        if c.type.name in _TEXT_TYPES
        else c
        for c in schema.columns
    )
    return replace(schema, columns=columns), ()


@apply_action.register
def _(action: ddl.AddIndex, schema: TableSchema) -> AlterResult:
    index = action.index
    columns = schema.columns
    taken = [i.name for i in schema.indexes]
    if not index.primary and _among(index.name, tuple(taken)):
        if action.if_not_exists:
            return schema, ()
        index = replace(index, name=free_name(index, taken))
    if index.primary:
        columns = tuple(
            replace(c, nullable=False) if _among(c.name, index.columns) else c for c in columns
        )
    indexes = (*schema.indexes, _spelt(index, schema))
    return replace(schema, columns=columns, indexes=indexes), ()


@apply_action.register
def _(action: ddl.DropIndex, schema: TableSchema) -> AlterResult:
    if _same(action.name, "primary"):
        return apply_action(ddl.DropPrimaryKey(), schema)
    indexes = tuple(i for i in schema.indexes if i.primary or not _same(i.name, action.name))
    return replace(schema, indexes=indexes), ()


@apply_action.register
def _(action: ddl.DropPrimaryKey, schema: TableSchema) -> AlterResult:
    primary = [i for i in schema.indexes if i.primary]
    if not primary:
        # Rows told of a handle key; where there is a primary key, it is that.
        primary = [i for i in schema.indexes if i.name == INFERRED_KEY]
    return replace(schema, indexes=tuple(i for i in schema.indexes if i not in primary)), ()


@apply_action.register
def _(action: ddl.RenameIndex, schema: TableSchema) -> AlterResult:
    indexes = tuple(
        replace(i, name=action.new) if _same(i.name, action.old) else i for i in schema.indexes
    )
    return replace(schema, indexes=indexes), ()


@apply_action.register
def _(action: ddl.AddPartitions, schema: TableSchema) -> AlterResult:
    if schema.partitioning is None:
        # Defined before the changefeed began: no row moves, so there is no need to know them yet.
        return schema, ()
    there = schema.partitioning
    added = action.partitions
    if action.count is not None:
        first = len(there.partitions)
        added = tuple(Partition(f"p{n}") for n in range(first, first + action.count))
    return _repartitioned(schema, (*there.partitions, *added)), ()


@apply_action.register
def _(action: ddl.CoalescePartitions, schema: TableSchema) -> AlterResult:
    there = partitioning_of(schema)
    return _repartitioned(schema, there.partitions[: -action.count]), ()


@apply_action.register
def _(action: ddl.ReorganizePartitions, schema: TableSchema) -> AlterResult:
    if not action.names:
        return schema, ()
    there = partitioning_of(schema).partitions
    gone = [i for i, p in enumerate(there) if _among(p.name, action.names)]
    if len(gone) != len(action.names):
        raise UnsupportedDdl("not all of the partitions are known", "")
    kept = [p for p in there if not _among(p.name, action.names)]
    return _repartitioned(schema, (*kept[: gone[0]], *action.into, *kept[gone[0] :])), ()


@apply_action.register
def _(action: ddl.PartitionBy, schema: TableSchema) -> AlterResult:
    return with_key_columns(replace(schema, partitioning=action.partitioning)), ()


@apply_action.register
def _(action: ddl.RemovePartitioning, schema: TableSchema) -> AlterResult:
    return replace(schema, partitioning=None), ()


def with_key_columns(schema: TableSchema) -> TableSchema:
    """The schema with the columns that PARTITION BY KEY () stands for: the primary key's, as it is
    when the table is cut.
    """
    there = schema.partitioning
    if there is None or there.kind != "key" or there.columns:
        return schema
    primary = next((i.columns for i in schema.indexes if i.primary), ())
    return replace(schema, partitioning=replace(there, columns=primary))


def without_partitions(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """The schema after DROP PARTITION."""
    kept = (p for p in partitioning_of(schema).partitions if not _among(p.name, names))
    return _repartitioned(schema, tuple(kept))


def partitioning_of(schema: TableSchema) -> Partitioning:
    """How the table is cut; raise `UnsupportedDdl` when no statement has said so."""
    if schema.partitioning is None:
        raise UnsupportedDdl(
            "the table's partitions are not known: no statement of this changefeed defines them", ""
        )
    return schema.partitioning


def partition_names(schema: TableSchema, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The partitions a statement means, as they are spelt; None stands for all."""
    there = partitioning_of(schema).partitions
    if names is None:
        return tuple(p.name for p in there)
    meant = tuple(p.name for p in there if _among(p.name, names))
    if len(meant) != len({folded(n) for n in names}):
        raise UnsupportedDdl(f"partitions {', '.join(names)} are not all known", "")
    return meant


def _replaced(
    schema: TableSchema, old: Column, new: Column, position: ddl.Position | None
) -> AlterResult:
    there = schema.column(new.name)
    if there is not None and there is not old:
        schema = _without(schema, there)
    steps: list[ColumnChange] = []
    rename: Callable[[str], str] = lambda name: name  # noqa: E731 - the one-liner reads best
    if old.name != new.name:
        steps.append(ColumnRenamed(old.name, new.name))
        rename = lambda name: new.name if _same(name, old.name) else name  # noqa: E731
    if old.type != new.type and old.generated != "virtual":
        steps.append(ColumnConverted(new.name, old.type, new.type))
    columns = _swapped(schema.columns, old, new)
    if position is not None:
        columns = _placed(schema, tuple(c for c in columns if c is not new), new, position)
    indexes = tuple(replace(i, columns=tuple(map(rename, i.columns))) for i in schema.indexes)
    partitioning = schema.partitioning
    if partitioning is not None:
        partitioning = replace(partitioning, columns=tuple(map(rename, partitioning.columns)))
    altered = replace(schema, columns=columns, indexes=indexes, partitioning=partitioning)
    return altered, tuple(steps)


def _repartitioned(schema: TableSchema, partitions: tuple[Partition, ...]) -> TableSchema:
    return replace(schema, partitioning=replace(partitioning_of(schema), partitions=partitions))


def _placed(
    schema: TableSchema,
    columns: tuple[Column, ...],
    column: Column,
    position: ddl.Position | None,
) -> tuple[Column, ...]:
    if isinstance(position, ddl.First):
        return (column, *columns)
    if position is not None:
        for i, other in enumerate(columns):
            if _same(other.name, position.column):
                return (*columns[: i + 1], column, *columns[i + 1 :])
        _known(schema, position.column)
    return (*columns, column)


def _swapped(columns: tuple[Column, ...], old: Column, new: Column) -> tuple[Column, ...]:
    return tuple(new if c is old else c for c in columns)


def _spelt(index: Index, schema: TableSchema) -> Index:
    """The index with its columns spelt as the table does."""
    known = (schema.column(name) for name in index.columns)
    names = tuple(c.name if c else n for c, n in zip(known, index.columns, strict=True))
    return replace(index, columns=names)


def _known(schema: TableSchema, name: str, *, or_not: bool = False) -> Column | None:
    """Find a column; None where it may well be missing.

    A table that only its rows tell of may have columns which never travel: no row has a value
    there, and none is lost with them.
    """
    column = schema.column(name)
    if column is None and not or_not and schema.origin != "inferred":
        raise UnsupportedDdl(f"column {name!r} is not known", "")
    return column


def _without(schema: TableSchema, column: Column) -> TableSchema:
    """Make room for a column, which is there only if a row has shown it before the statement.

    Where commit times are known to the millisecond, rows may overtake a statement.
    """
    if schema.origin != "inferred":
        raise UnsupportedDdl(f"column {column.name!r} is there already", "")
    return replace(schema, columns=tuple(c for c in schema.columns if c is not column))


def _same(one: str, other: str) -> bool:
    return folded(one) == folded(other)


def _among(name: str, names: tuple[str, ...]) -> bool:
    return any(_same(name, other) for other in names)
