"""How a table is laid out in Delta: as its owner declares it, where its columns allow that.

The rows of a table are the same in any layout; `rows.table_rows` writes them in one.
"""

from collections.abc import Iterable

from msgspec import Struct

from ticdc_assets.changefeed.layout import TableLayout, find_layout
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.schema.types.mysql_type import describe, integer_range

# Kinds of columns whose order helps no reader, or that have none.
_UNSORTED = ("binary", "json", "vector", "set")
_LACKS_COLUMN = (
    "cluster-by names the column {}, which the table does not have (any more): its rows are not"
    " sorted; name one of its columns in [[changefeed.layout]]"
)
_CANNOT_SORT = (
    "cluster-by names the column {}, by whose type {} rows are not sorted; name another column in"
    " [[changefeed.layout]]"
)


class Layout(Struct, frozen=True, omit_defaults=True):
    """The layout of a table's Delta table."""

    # BIGINT UNSIGNED is BIGINT, and no DECIMAL.
    bigints: bool = False
    # The column by which rows are sorted in each file, as the table's schema spells it.
    cluster_by: str | None = None
    # Why that is not the declared one.
    fault: str | None = None
    # The table has the columns of kept rows, and keeps them once it has them.
    archived: bool = False


PLAIN = Layout()


def choose_layout(layouts: Iterable[TableLayout], schema: TableSchema) -> Layout:
    """Choose the layout of a table with a schema."""
    declared = find_layout(layouts, schema.database, schema.table)
    bigints = declared.bigint_unsigned == "bigint"
    name = declared.cluster_by
    if name is None:
        return Layout(bigints)
    column = schema.column(name)
    fault = _LACKS_COLUMN.format(name) if column is None else _find_fault(column)
    if column is None or fault is not None:
        return Layout(bigints, fault=fault)
    return Layout(bigints, column.name)


def _find_fault(column: Column) -> str | None:
    is_stored = column.generated != "virtual"
    if is_stored and describe(column.type).kind not in _UNSORTED:
        return None
    return _CANNOT_SORT.format(column.name, column.type.name if is_stored else "VIRTUAL")


def exceeds_bigint(type: ColumnType) -> bool:
    """Whether a type is an integer with values that no BIGINT of Delta holds."""
    return describe(type).kind == "integer" and integer_range(type)[1] >= 1 << 63


def is_written_anew(schema: TableSchema, before: Layout, after: Layout) -> bool:
    """Whether the rows of a table with a schema have to be written again for another layout."""
    if after.cluster_by is not None and after.cluster_by != before.cluster_by:
        return True
    if after.archived and not before.archived:
        return True
    stored = (column for column in schema.columns if column.generated != "virtual")
    return before.bigints != after.bigints and any(exceeds_bigint(c.type) for c in stored)
