"""The columns of a table: as MySQL has them, and as they are read."""

from dataclasses import dataclass

import pyarrow as pa

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.rows.columns import (
    choose_delta_names,
    format_mysql_type,
    list_stored_columns,
    make_row_schema,
)


@dataclass(frozen=True)
class ColumnDescription:
    """A column that rows have; `upstream` is its name there, which `name` seldom differs from."""

    name: str
    upstream: str
    mysql_type: str
    arrow_type: pa.DataType
    nullable: bool
    comment: str


@dataclass(frozen=True)
class TableDescription:
    """The columns of a table, and those of its key; `arrow` has the lake's own columns, too."""

    columns: tuple[ColumnDescription, ...]
    key: tuple[str, ...]
    arrow: pa.Schema


def describe_table(schema: TableSchema, layout: Layout = PLAIN) -> TableDescription:
    """Describe the columns that the rows of a table have."""
    names, arrow = choose_delta_names(schema), make_row_schema(schema, layout)
    columns = tuple(
        ColumnDescription(
            names[column.name],
            column.name,
            format_mysql_type(column.type),
            arrow.field(names[column.name]).type,
            column.nullable,
            column.comment,
        )
        for column in list_stored_columns(schema)
    )
    keys = (schema.column(name) for name in schema.key)
    return TableDescription(columns, tuple(names[key.name] for key in keys if key), arrow)
