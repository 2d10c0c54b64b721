"""The values of added columns in rows that are older than the column.

ADD COLUMN writes no rows: TiDB keeps the value of existing rows with the column, and reads it where
a row has none.  A row that EXCHANGE PARTITION moves is read with the value of its new table.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.conversion.convert import backfill
from ticdc_assets.schema.effect import ColumnAdded, ColumnChange
from ticdc_assets.schema.types.value_writer import write_value


def note_added_values(schema: TableSchema, changes: Iterable[ColumnChange], ts: int) -> TableSchema:
    """Return an altered schema with the values that existing rows have in its added columns."""
    noted = {c.column.name: _compute(c, ts) for c in changes if isinstance(c, ColumnAdded)}
    columns = (replace(c, added_value=noted.get(c.name, c.added_value)) for c in schema.columns)
    return replace(schema, columns=tuple(columns)) if noted else schema


def require_same_added_values(one: TableSchema, other: TableSchema) -> None:
    """Raise `UnsupportedDdl` if rows may change their values when they change tables."""
    for column in one.columns:
        twin = other.column(column.name)
        if twin is not None and twin.added_value != column.added_value:
            raise UnsupportedDdl(
                f"rows that are older than the column {column.name[:80]!r} have another value in it"
                " once they change tables, and no message tells which rows these are; load both"
                " tables"
            )


def _compute(added: ColumnAdded, ts: int) -> str | None:
    column = added.column
    try:
        return write_value(backfill(column, ts, added.zone), column.type)
    except InvalidValue:
        # A table with rows pauses.
        return column.default
