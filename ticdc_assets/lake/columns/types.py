"""The columns of current tables: their names, Delta types and comments.

What texts of images become in them is in `row_reading`, the way back in `row_writing`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.schema.types.mysql_type import decimal_shape, delta_type, describe

# MERGE into a table with a change data feed does not find columns with a backtick.
_BACKTICK_TWIN = "\u02cb"
# With this sign begin columns that the lake has for itself while it works on a user's.
_OWN = "⌗"
# What Delta's change data feed and Spark's files call columns of their own.
_OF_OTHERS = ("_change_type", "_commit_version", "_commit_timestamp", "__is_cdc", "_metadata")


@dataclass(frozen=True)
class DeltaColumn:
    """A column as DDL declares it; `type` is Spark DDL text, `column` the name upstream."""

    name: str
    type: str
    comment: str
    column: str


def delta_name(column: str) -> str:
    """Name a column of the user's in Delta; `delta_names` also keeps the names of a table apart."""
    name = column.replace("`", _BACKTICK_TWIN).replace(_OWN, "#")
    return f"{name}_" if alike(name) in _RESERVED else name


def delta_names(schema: TableSchema) -> dict[str, str]:
    """The Delta name of every column that is in rows, in table order."""
    columns = [column.name for column in stored(schema)]
    # Who can keep their name do; the others give way, so that no name depends on the order.
    taken = set(_RESERVED)
    names = {}
    for column in sorted(columns, key=lambda name: (delta_name(name) != name, name)):
        name = delta_name(column)
        while alike(name) in taken:
            name += "_"
        taken.add(alike(name))
        names[column] = name
    return {column: names[column] for column in columns}


def delta_columns(schema: TableSchema) -> list[DeltaColumn]:
    """The columns of the table's Delta table; raise `InvalidValue` for a type nobody knows."""
    names = delta_names(schema)
    return [
        DeltaColumn(names[column.name], _delta_type(column), _comment(column), column.name)
        for column in stored(schema)
    ]


def stored(schema: TableSchema) -> tuple[Column, ...]:
    """The columns that are in rows: virtual ones never travel."""
    return tuple(column for column in schema.columns if column.generated != "virtual")


def alike(name: str) -> str:
    """What names have in common that Spark takes for the same: it ignores case letter by letter."""
    return "".join(char.upper()[0].lower()[0] for char in name)


_RESERVED = frozenset(map(alike, (COMMIT_TS, *_OF_OTHERS)))


def mysql_type_text(type: ColumnType) -> str:
    """A type as MySQL spells it, such as `bigint unsigned` or `decimal(60,2)`."""
    text = type.name + "".join(_parameters(type))
    if type.zerofill:
        return f"{text} unsigned zerofill"
    return f"{text} unsigned" if type.unsigned else text


def _parameters(type: ColumnType) -> Iterator[str]:
    if type.elements is not None:
        members = ("'" + member.replace("'", "''") + "'" for member in type.elements)
        yield f"({','.join(members)})"
    elif type.length is not None:
        scale = f",{type.decimals}" if type.decimals is not None else ""
        yield f"({type.length}{scale})"
    elif type.decimals:
        yield f"({type.decimals})"


def _delta_type(column: Column) -> str:
    try:
        return delta_type(column.type)
    except InvalidValue as problem:
        raise InvalidValue(problem.reason, column=column.name) from None


def _comment(column: Column) -> str:
    words = mysql_type_text(column.type)
    if not column.nullable:
        words += " NOT NULL"
    kind = describe(column.type).kind
    if kind == "decimal" and delta_type(column.type) == "string":
        known = decimal_shape(column.type) is not None
        why = "no Delta decimal is as wide" if known else "its precision is not known"
        words += f"; kept as exact text, as {why}"
    elif column.generated is not None:
        words += "; generated"
    return f"{words}: {column.comment}" if column.comment else words
