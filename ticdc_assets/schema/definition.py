"""Completing a schema, of which rows or messages show a part, by the table's definition."""

from msgspec.structs import replace

from ticdc_assets.errors import UnsupportedDdl
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.schema.effect import ColumnConverted
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.schema.types.mysql_type import holds_values_of, map_to_delta_type

_NUMBER = ColumnType("bigint", unsigned=True)


def complete_schema(
    known: TableSchema, definition: TableSchema, *, has_member_names: bool = False
) -> tuple[TableSchema, tuple[ColumnConverted, ...]]:
    """Return a schema as a definition of the same moment completes it, and how rows change with it.

    Existing rows keep their values; only how they are kept may change.  `has_member_names`: rows
    name the members of ENUM and SET; others have their numbers.  Raise `UnsupportedDdl` if the two
    contradict each other: then a DDL is missing.
    """
    stored = [column for column in known.columns if column.generated != "virtual"]
    for column in stored:
        defined = definition.column(column.name)
        if defined is None:
            raise UnsupportedDdl(f"upstream has no column {column.name[:80]!r}")
        if not holds_values_of(defined.type, column.type):
            types = f"{defined.type.name} upstream, {column.type.name} in the stream"
            raise UnsupportedDdl(f"column {column.name[:80]!r} is {types}")
    if known.origin == "inferred":
        completed = replace(
            definition,
            table_id=known.table_id,
            version=known.version,
            declared_key=known.declared_key,
            lost_key=known.lost_key,
        )
    else:
        for column in definition.columns:
            if known.column(column.name) is None and column.generated != "virtual":
                raise UnsupportedDdl(f"the stream has no column {column.name[:80]!r}")
        completed = reconcile(definition, known)
    changes = (_change(column, completed, has_member_names) for column in stored)
    return completed, tuple(change for change in changes if change is not None)


def _change(column: Column, completed: TableSchema, has_names: bool) -> ColumnConverted | None:
    """Return what a column's values go through to be kept as the type of the definition says."""
    new = completed.column(column.name)
    assert new is not None
    if column.type.elements is None and new.type.elements is not None:
        # Without a DDL between, the number of a member is the same.
        return None if has_names else ColumnConverted(column.name, _NUMBER, new.type)
    if map_to_delta_type(column.type) != map_to_delta_type(new.type):
        return ColumnConverted(column.name, column.type, new.type)
    return None
