"""Properties of a column's type: its kind, its Delta type, and the range of its values.

Reads no values.
"""

from ticdc_assets.errors import InvalidValue, TableCannotContinue
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.types.type_table import (
    BINARY_TWINS,
    OPEN_CODES,
    SYNONYMS,
    TYPES,
    Kind,
    MysqlType,
)
from ticdc_assets.schema.types.type_text import parse_type

__all__ = [
    "BINARY_TWINS",
    "OPEN_CODES",
    "SYNONYMS",
    "TYPES",
    "Kind",
    "MysqlType",
    "decimal_shape",
    "describe",
    "holds_values_of",
    "integer_range",
    "map_to_delta_type",
    "parse_type",
    "require_known_types",
]

_MAX_DELTA_PRECISION = 38


def describe(t: ColumnType) -> MysqlType:
    """Return the row of a type in the type table; raise `InvalidValue` for an unknown type."""
    name = t.name
    if t.charset == "binary" and name in BINARY_TWINS:
        name = BINARY_TWINS[name]
    row = TYPES.get(name)
    if row is None:
        raise InvalidValue(f"unknown type {t.name!r}")
    return row


def require_known_types(schema: TableSchema) -> TableSchema:
    """Return a stated schema; raise `TableCannotContinue` if no table can have its columns."""
    if not schema.columns:
        raise TableCannotContinue(f"the schema of {schema.table[:80]!r} states no columns")
    names: set[str] = set()
    for column in schema.columns:
        if fold_name(column.name) in names:
            raise TableCannotContinue(f"the schema states column {column.name[:80]!r} twice")
        names.add(fold_name(column.name))
        if column.generated != "virtual":
            try:
                describe(column.type)
            except InvalidValue as error:
                raise TableCannotContinue(f"column {column.name[:80]!r}: {error.reason}") from None
    return schema


def map_to_delta_type(t: ColumnType) -> str:
    """Return the Delta type of a column, as Spark DDL text."""
    row = describe(t)
    if row.kind == "decimal":
        declared = decimal_shape(t)
        if declared is None or declared[0] > _MAX_DELTA_PRECISION:
            return "string"
        return f"decimal({declared[0]},{declared[1]})"
    if row.kind == "bit" and (t.length is None or t.length > 63):
        return "decimal(20,0)"
    if t.unsigned and row.unsigned_delta is not None:
        return row.unsigned_delta
    return row.delta


def decimal_shape(t: ColumnType) -> tuple[int, int] | None:
    """Return (precision, scale) of a decimal; None if the source states no precision.

    A missing scale is 0: sources omit a scale of 0.
    """
    if t.length is None or t.length < 1:
        return None
    return t.length, max(t.decimals or 0, 0)


def integer_range(t: ColumnType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    width = TYPES[t.name].width
    assert width is not None
    bits = 8 * width
    return (0, (1 << bits) - 1) if t.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def holds_values_of(t: ColumnType, other: ColumnType) -> bool:
    """Return whether a column of a type holds every value of another type, in the same text.

    What the types leave open, such as lengths and members, is not compared.
    """
    row, other_row = describe(t), describe(other)
    if row.kind != other_row.kind:
        return False
    match row.kind:
        case "integer":
            (low, high), (other_low, other_high) = integer_range(t), integer_range(other)
            return low <= other_low and other_high <= high
        case "text" | "binary":
            return True
        case "float":
            is_wider = row.name in (other_row.name, "double")
        case _:
            is_wider = row.name == other_row.name
    return is_wider and (other.unsigned or not t.unsigned)
