"""ALTER TABLE on one schema: an action changes the schema and says how rows change with it.

Rules: one function per action, dispatched on its type; schemas in, schemas out.  Actions that
involve a second table (RENAME, EXCHANGE PARTITION) belong to `apply_ddl`.
"""

from collections.abc import Callable
from functools import singledispatch

from msgspec.structs import replace

from ticdc_assets.errors import ContradictingDdl, UnsupportedDdl
from ticdc_assets.events import Column, Index, Partition, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.default import convert_default
from ticdc_assets.schema.ddl.indexes import find_free_name
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.lost_key import PRIMARY_KEY_LOST_UNSEEN
from ticdc_assets.schema.partition.named import (
    get_partitioning,
    set_partitions,
    unknown_partitions,
)
from ticdc_assets.schema.reconciliation import with_key_columns
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS
from ticdc_assets.schema.types.mysql_type import describe

_TEXT_TYPES = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)

# The name, which no statement can give, of an index that stands for a key which only rows state.
INFERRED_KEY = ""

# The schema after an action, and how existing rows change.
AlterResult = tuple[TableSchema, tuple[ColumnChange, ...]]


@singledispatch
def apply_action(action: ddl.Action, schema: TableSchema) -> AlterResult:
    """Apply one action; raise `UnsupportedDdl` if the known schema does not allow it."""
    name = type(action).__name__
    raise UnsupportedDdl(f"{name} is not supported beside other actions of one ALTER TABLE")


@apply_action.register
def _(action: ddl.ChangesNothing, schema: TableSchema) -> AlterResult:
    return schema, ()


# Columns


@apply_action.register
def _(action: ddl.AddColumn, schema: TableSchema) -> AlterResult:
    column = resolve_column(action.column, schema.charset)
    existing = schema.column(column.name)
    if existing is not None:
        if action.if_not_exists:
            return schema, ()
        schema = _drop_observed_column(schema, existing, column)
    columns = _place_column(schema, schema.columns, column, action.position)
    if len(columns) > MAX_COLUMNS:
        raise UnsupportedDdl(TOO_MANY_COLUMNS)
    changes = () if column.generated == "virtual" else (ColumnAdded(column),)
    return schema.with_columns(columns, column), changes


@apply_action.register
def _(action: ddl.DropColumn, schema: TableSchema) -> AlterResult:
    dropped = _find_column(schema, action.name, if_exists=action.if_exists)
    if dropped is None:
        return schema, ()
    columns = tuple(c for c in schema.columns if c is not dropped)
    remaining = (
        replace(i, columns=tuple(n for n in i.columns if not _same_name(n, dropped.name)))
        for i in schema.own_indexes
    )
    indexes = tuple(i for i in remaining if i.columns)
    return replace(schema, columns=columns, indexes=indexes), (ColumnDropped(dropped.name),)


@apply_action.register
def _(action: ddl.RenameColumn, schema: TableSchema) -> AlterResult:
    column = _find_column(schema, action.old)
    if column is None:
        return schema, ()
    return _change_column(schema, column, replace(column, name=action.new), None)


@apply_action.register
def _(action: ddl.ModifyColumn, schema: TableSchema) -> AlterResult:
    old = _find_column(schema, action.old_name, if_exists=action.if_exists)
    if old is None:
        return schema, ()
    new = replace(resolve_column(action.column, schema.charset), added_value=old.added_value)
    if _contains_name(schema.primary_key, old.name):
        new = replace(new, nullable=False)
    return _change_column(schema, old, new, action.position)


@apply_action.register
def _(action: ddl.SetDefault, schema: TableSchema) -> AlterResult:
    column = _find_column(schema, action.name)
    if column is None:
        return schema, ()
    default, is_expression = convert_default(action.default, column.type)
    new = replace(column, default=default, default_is_expression=is_expression)
    return replace(schema, columns=_swap_column(schema.columns, column, new)), ()


@apply_action.register
def _(action: ddl.ConvertCharset, schema: TableSchema) -> AlterResult:
    new = action.charset
    name, collation = (None, None) if new is None else (new.name, new.collation)
    columns = tuple(
        replace(c, type=replace(c.type, charset=name, collation=collation))
        if c.type.name in _TEXT_TYPES
        else c
        for c in schema.columns
    )
    return replace(schema, columns=columns, charset=new), ()


@apply_action.register
def _(action: ddl.SetOptions, schema: TableSchema) -> AlterResult:
    comment = schema.comment if action.comment is None else action.comment
    return replace(schema, charset=action.charset or schema.charset, comment=comment), ()


def _change_column(
    schema: TableSchema, old: Column, new: Column, position: ddl.Position | None
) -> AlterResult:
    existing = schema.column(new.name)
    if existing is not None and existing is not old:
        schema = _drop_observed_column(schema, existing, old, new)
    changes: list[ColumnChange] = []
    rename: Callable[[str], str] = lambda name: name  # noqa: E731 - the one-liner reads best
    if old.name != new.name:
        changes.append(ColumnRenamed(old.name, new.name))
        rename = lambda name: new.name if _same_name(name, old.name) else name  # noqa: E731
    if old.type != new.type and old.generated != "virtual":
        changes.append(ColumnConverted(new.name, old.type, new.type))
    columns = _swap_column(schema.columns, old, new)
    if position is not None:
        others = tuple(c for c in columns if c is not new)
        columns = _place_column(schema, others, new, position)
    indexes = tuple(replace(i, columns=tuple(map(rename, i.columns))) for i in schema.own_indexes)
    partitioning = schema.partitioning
    if partitioning is not None:
        partitioning = replace(partitioning, columns=tuple(map(rename, partitioning.columns)))
    altered = replace(schema, columns=columns, indexes=indexes, partitioning=partitioning)
    return altered, tuple(changes)


def _place_column(
    schema: TableSchema,
    columns: tuple[Column, ...],
    column: Column,
    position: ddl.Position | None,
) -> tuple[Column, ...]:
    if isinstance(position, ddl.First):
        return (column, *columns)
    if position is not None:
        for i, other in enumerate(columns):
            if _same_name(other.name, position.column):
                return (*columns[: i + 1], column, *columns[i + 1 :])
        _find_column(schema, position.column)
    return (*columns, column)


def _swap_column(columns: tuple[Column, ...], old: Column, new: Column) -> tuple[Column, ...]:
    return tuple(new if c is old else c for c in columns)


def _find_column(schema: TableSchema, name: str, *, if_exists: bool = False) -> Column | None:
    """Find a column; None if the table may lack it.

    An inferred table may have columns that never travel: no row has a value in them, so nothing is
    lost when the DDL on such a column is skipped.
    """
    column = schema.column(name)
    if column is None and not if_exists and schema.origin != "inferred":
        raise ContradictingDdl(f"the known schema has no column {name!r}")
    return column


def _drop_observed_column(schema: TableSchema, column: Column, *same: Column) -> TableSchema:
    """Remove a column that a row showed before the statement that adds it or gives it its name.

    Rows may overtake a statement where commit times have only milliseconds.  Their values stay, so
    they must be of the kind of the columns that are the `same`.
    """
    kinds = {describe(c.type).kind for c in (column, *same)}
    if schema.origin != "inferred" or len(kinds) > 1:
        raise ContradictingDdl(f"the known schema already has a column {column.name!r}")
    return replace(schema, columns=tuple(c for c in schema.columns if c is not column))


# Indexes


@apply_action.register
def _(action: ddl.AddIndex, schema: TableSchema) -> AlterResult:
    index = action.index
    columns = schema.columns
    names = tuple(i.name for i in schema.own_indexes)
    if not index.primary and _contains_name(names, index.name):
        if action.if_not_exists:
            return schema, ()
        index = replace(index, name=find_free_name(index, names))
    if index.primary:
        if schema.primary_key:
            raise UnsupportedDdl(PRIMARY_KEY_LOST_UNSEEN)
        columns = tuple(
            replace(c, nullable=False) if _contains_name(index.columns, c.name) else c
            for c in columns
        )
    indexes = (*schema.own_indexes, _use_column_spelling(index, schema))
    return replace(schema, columns=columns, indexes=indexes), ()


@apply_action.register
def _(action: ddl.DropIndex, schema: TableSchema) -> AlterResult:
    if _same_name(action.name, "primary"):
        return apply_action(ddl.DropPrimaryKey(), schema)
    kept = (i for i in schema.own_indexes if i.primary or not _same_name(i.name, action.name))
    return replace(schema, indexes=tuple(kept)), ()


@apply_action.register
def _(action: ddl.DropPrimaryKey, schema: TableSchema) -> AlterResult:
    indexes = schema.own_indexes
    dropped = [i for i in indexes if i.primary]
    # The handle key that rows stated is the primary key, if the table has one.
    dropped = dropped or [i for i in indexes if i.name == INFERRED_KEY]
    return replace(schema, indexes=tuple(i for i in indexes if i not in dropped)), ()


@apply_action.register
def _(action: ddl.RenameIndex, schema: TableSchema) -> AlterResult:
    indexes = (
        replace(i, name=action.new) if _same_name(i.name, action.old) else i
        for i in schema.own_indexes
    )
    return replace(schema, indexes=tuple(indexes)), ()


def _use_column_spelling(index: Index, schema: TableSchema) -> Index:
    """Spell an index's columns as the table does."""
    columns = (schema.column(name) for name in index.columns)
    names = tuple(c.name if c else n for c, n in zip(columns, index.columns, strict=True))
    return replace(index, columns=names)


# Partitions


@apply_action.register
def _(action: ddl.AddPartitions, schema: TableSchema) -> AlterResult:
    if schema.partitioning is None:
        # Partitioned before the changefeed began.  No row moves, so this DDL needs no partitions.
        return schema, ()
    existing = schema.partitioning.partitions
    added = action.partitions
    if action.count is not None:
        first = len(existing)
        added = tuple(Partition(f"p{n}") for n in range(first, first + action.count))
    return set_partitions(schema, (*existing, *added)), ()


@apply_action.register
def _(action: ddl.CoalescePartitions, schema: TableSchema) -> AlterResult:
    return set_partitions(schema, get_partitioning(schema).partitions[: -action.count]), ()


@apply_action.register
def _(action: ddl.ReorganizePartitions, schema: TableSchema) -> AlterResult:
    if not action.names:
        return schema, ()
    existing = get_partitioning(schema).partitions
    names = set(map(fold_name, action.names))
    replaced = [i for i, p in enumerate(existing) if fold_name(p.name) in names]
    if len(replaced) != len(action.names):
        raise unknown_partitions(action.names)
    kept = [p for p in existing if fold_name(p.name) not in names]
    first = replaced[0]
    return set_partitions(schema, (*kept[:first], *action.into, *kept[first:])), ()


@apply_action.register
def _(action: ddl.PartitionBy, schema: TableSchema) -> AlterResult:
    return with_key_columns(replace(schema, partitioning=action.partitioning)), ()


@apply_action.register
def _(action: ddl.RemovePartitioning, schema: TableSchema) -> AlterResult:
    return replace(schema, partitioning=None), ()


# Names


def _same_name(left: str, right: str) -> bool:
    return fold_name(left) == fold_name(right)


def _contains_name(names: tuple[str, ...], name: str) -> bool:
    return any(_same_name(other, name) for other in names)
