"""The columns of current tables: their names, Delta types and comments.

`reading` fills them from row images, `writing` is the way back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.plan.layout import PLAIN, Layout, exceeds_bigint
from ticdc_assets.schema.types.mysql_type import decimal_shape, describe, map_to_delta_type

# The columns that current tables have besides the columns upstream; `_inexact` only those in which
# there was a value that its column cannot hold exactly, and those of deletes only archived ones.
COMMIT_TS = "_commit_ts"
DELETED_AT = "_deleted_at"
DELETED_TS = "_deleted_ts"
INEXACT = "_inexact"
COMMIT_TS_COMMENT = "commit ts of the last change of this row"
DELETED_AT_COMMENT = "time at which this row was deleted; NULL while it is there upstream"
DELETED_TS_COMMENT = "commit ts of the delete of this row; NULL while it is there upstream"
INEXACT_COMMENT = "exact texts of values that their columns cannot hold, by column"

# MERGE into a table with a change data feed cannot resolve a column with a backtick in its name.
_BACKTICK_TWIN = "\u02cb"
# The prefix of the lake's own columns beside a user's while it applies them.
_INTERNAL_PREFIX = "⌗"
# Columns of Delta's change data feed and of Spark's file sources.
_ENGINE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "__is_cdc", "_metadata")


@dataclass(frozen=True)
class DeltaColumn:
    """A column of a Delta table; `type` is Spark DDL text, `column` the upstream name."""

    name: str
    type: str
    comment: str
    column: str


_OWN_COLUMNS = (
    DeltaColumn(COMMIT_TS, "bigint", COMMIT_TS_COMMENT, COMMIT_TS),
    DeltaColumn(DELETED_AT, "timestamp", DELETED_AT_COMMENT, DELETED_AT),
    DeltaColumn(DELETED_TS, "bigint", DELETED_TS_COMMENT, DELETED_TS),
    DeltaColumn(INEXACT, "map<string,string>", INEXACT_COMMENT, INEXACT),
)

_ARROW_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "array<float>": pa.list_(pa.field("element", pa.float32())),
}
EXACT_TEXTS = pa.field(INEXACT, pa.map_(pa.string(), pa.string()))


def get_arrow_type(type: ColumnType) -> pa.DataType:
    """Return the Arrow type of the values that a column's Delta type holds."""
    return read_delta_type(map_to_delta_type(type))


def read_delta_type(delta: str) -> pa.DataType:
    """Return the Arrow type of the values that a Delta type holds."""
    if delta in _ARROW_TYPES:
        return _ARROW_TYPES[delta]
    return pa.decimal128(*measure_decimal(delta))


def measure_decimal(delta: str) -> tuple[int, int]:
    """Return the precision and the scale of a decimal type of Delta."""
    precision, scale = delta.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def list_comments(schema: TableSchema) -> dict[str, str]:
    """Return the comments of the columns that a current table may have, by name."""
    comments = {column.name: column.comment for column in list_delta_columns(schema)}
    own = (column for column in _OWN_COLUMNS if column.name not in comments)
    return comments | {column.name: column.comment for column in own}


def list_own_columns(layout: Layout = PLAIN) -> list[DeltaColumn]:
    """List the columns that every table of a layout has behind those upstream, before the map."""
    deleted = (DELETED_AT, DELETED_TS)
    return [c for c in _OWN_COLUMNS[:-1] if layout.archived or c.name not in deleted]


def make_row_schema(schema: TableSchema, layout: Layout = PLAIN) -> pa.Schema:
    """Return the columns of a table's rows."""
    columns = [*list_delta_columns(schema, layout), *list_own_columns(layout)]
    fields = [pa.field(column.name, read_delta_type(column.type)) for column in columns]
    return pa.schema([*fields, EXACT_TEXTS])


def find_name_of_deletes(schema: TableSchema) -> str | None:
    """Return a column of a table that has the name of one that only archived tables have."""
    deleted = (DELETED_AT, DELETED_TS)
    named = choose_delta_names(schema).items()
    return next((column for column, name in named if fold_case(name) in deleted), None)


def make_delta_name(column: str) -> str:
    """Make the Delta name of a user's column; it may clash with that of another column."""
    name = column.replace("`", _BACKTICK_TWIN).replace(_INTERNAL_PREFIX, "#")
    return f"{name}_" if fold_case(name) in _RESERVED else name


def choose_delta_names(schema: TableSchema) -> dict[str, str]:
    """Choose distinct Delta names for all stored columns, in table order."""
    columns = [column.name for column in list_stored_columns(schema)]
    # Columns that can keep their name come first, so that no name depends on column order.
    taken = set(_RESERVED)
    names = {}
    for column in sorted(columns, key=lambda name: (make_delta_name(name) != name, name)):
        name = make_delta_name(column)
        while fold_case(name) in taken:
            name += "_"
        taken.add(fold_case(name))
        names[column] = name
    return {column: names[column] for column in columns}


def list_delta_columns(schema: TableSchema, layout: Layout = PLAIN) -> list[DeltaColumn]:
    """List the columns of a table's Delta table; raise `InvalidValue` for an unknown type."""
    names = choose_delta_names(schema)
    return [
        DeltaColumn(
            names[column.name], _find_delta_type(column, layout), _make_comment(column), column.name
        )
        for column in list_stored_columns(schema)
    ]


def list_stored_columns(schema: TableSchema) -> tuple[Column, ...]:
    """List the columns that rows have: TiCDC never sends virtual ones."""
    return tuple(column for column in schema.columns if column.generated != "virtual")


def fold_case(name: str) -> str:
    """Fold a name so that two are equal if Spark takes them for one: it ignores case per letter."""
    return name.lower() if name.isascii() else "".join(char.upper()[0].lower()[0] for char in name)


_RESERVED = frozenset(map(fold_case, (COMMIT_TS, INEXACT, *_ENGINE_COLUMNS)))


def format_mysql_type(type: ColumnType) -> str:
    """Format a type as MySQL spells it, such as `bigint unsigned` or `decimal(60,2)`."""
    text = type.name + "".join(_format_parameters(type))
    if type.zerofill:
        return f"{text} unsigned zerofill"
    return f"{text} unsigned" if type.unsigned else text


def _format_parameters(type: ColumnType) -> Iterator[str]:
    if type.elements is not None:
        members = ("'" + member.replace("'", "''") + "'" for member in type.elements)
        yield f"({','.join(members)})"
    elif type.length is not None:
        scale = f",{type.decimals}" if type.decimals is not None else ""
        yield f"({type.length}{scale})"
    elif type.decimals:
        yield f"({type.decimals})"


def _find_delta_type(column: Column, layout: Layout) -> str:
    try:
        delta = map_to_delta_type(column.type)
        return "bigint" if layout.bigints and exceeds_bigint(column.type) else delta
    except InvalidValue as problem:
        raise InvalidValue(problem.reason, column=column.name) from None


_REPLACED = {
    "null": "its values are left out",
    "hash": "keyed hash of it",
    "mask": "masked but for the last four characters",
}


def _make_comment(column: Column) -> str:
    if column.rule is not None and column.upstream is not None:
        type = format_mysql_type(column.upstream.type)
        text = f"{type}; {_REPLACED.get(column.rule, column.rule)}"
        return f"{text}: {column.comment}" if column.comment else text
    text = format_mysql_type(column.type)
    if not column.nullable:
        text += " NOT NULL"
    kind = describe(column.type).kind
    if kind == "decimal" and map_to_delta_type(column.type) == "string":
        is_known = decimal_shape(column.type) is not None
        reason = "no Delta decimal is as wide" if is_known else "its precision is not known"
        text += f"; kept as exact text, as {reason}"
    elif column.generated is not None:
        text += "; generated"
    return f"{text}: {column.comment}" if column.comment else text
