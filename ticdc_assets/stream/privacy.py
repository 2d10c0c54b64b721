"""What the privacy of a changefeed makes of the schemas of tables.

The stream, the schema catalog and DDL have the columns as they are upstream.  Tables in the lake
have them as their rules leave them: the plan protects a schema where it leaves the catalog, and
restores it where something is compared with the stream.

| rule   | column in the lake                                                   |
|--------|----------------------------------------------------------------------|
| `drop` | as if it were virtual: in the schema, in no row                      |
| `null` | of the same type, and always NULL                                    |
| `hash` | a text: the keyed hash of the value's text; NULL stays NULL          |
| `mask` | a text: `*` for every character but the last four; NULL stays NULL   |
"""

from msgspec.structs import replace

from ticdc_assets.changefeed.privacy import KEY_RULES, Privacy, Rule
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.schema.types.mysql_type import Kind, describe

# What hashed and masked values are.
TEXT = ColumnType("longtext", charset="utf8mb4")
# Kinds of which every value has one text, whoever wrote it: the same value has the same hash.
_HASHED: tuple[Kind, ...] = ("text", "binary", "integer", "decimal", "date", "year")
_MASKED: tuple[Kind, ...] = ("text", "integer", "decimal")
_SETTING = "[[changefeed.privacy.table]]"
RULES_CHANGED = (
    f"the entries of {_SETTING} make other columns of it now than those that the load has: load it"
    " again"
)
_KEY = (
    "column {} is in its key, by which rows are found again, and {}: keep or hash it in"
    f" {_SETTING}, and decode its events again (ticdc-assets rebuild TABLE --from-raw)"
)
OTHER_RULES = (
    f"the DDL gives it a name for which {_SETTING} has other rules than those that its rows were"
    " stored by"
)
_UNNAMED = f"no entry of {_SETTING} keeps it"
_NOT_SELECTED = (
    f"no entry of {_SETTING} selects this table, so no column of it is stored: add one, and decode"
    " its events again (ticdc-assets rebuild TABLE --from-raw)"
)
_KINDS = (
    "column {} is {}, and {} of that type is not possible, because a value has several texts: use"
    f" null or drop in {_SETTING}, and decode its events again"
    " (ticdc-assets rebuild TABLE --from-raw)"
)


def find_rule(privacy: Privacy | None, schema: TableSchema, column: str) -> Rule:
    """Return the rule for a column of a table."""
    if privacy is None:
        return "keep"
    entry = privacy.find_entry(schema.database, schema.table)
    return "drop" if entry is None else entry.find_rule(column)


def protect_schema(privacy: Privacy | None, schema: TableSchema) -> TableSchema:
    """Return a table of the stream as the lake has it."""
    if privacy is None:
        return schema
    entry = privacy.find_entry(schema.database, schema.table)
    columns = tuple(
        _protect(column, "drop" if entry is None else entry.find_rule(column.name))
        for column in schema.columns
    )
    is_same = all(one is other for one, other in zip(columns, schema.columns, strict=True))
    return schema if is_same else replace(schema, columns=columns)


def restore_schema(schema: TableSchema) -> TableSchema:
    """Return a table of the lake as the stream has it."""
    if all(column.upstream is None for column in schema.columns):
        return schema
    return replace(schema, columns=tuple(column.upstream or column for column in schema.columns))


def is_protected(schema: TableSchema) -> bool:
    """Whether a table of the lake has columns that are not as they are upstream."""
    return any(column.rule is not None for column in schema.columns)


def _protect(column: Column, rule: Rule) -> Column:
    if rule == "keep" or column.generated == "virtual":
        return column
    if rule == "drop":
        return replace(column, generated="virtual", rule=rule, upstream=column)
    type = column.type if rule == "null" else TEXT
    return Column(
        column.name,
        type,
        nullable=rule == "null" or column.nullable,
        comment=column.comment,
        rule=rule,
        upstream=column,
    )


def find_fault(privacy: Privacy | None, schema: TableSchema) -> str | None:
    """Return why a table of the lake cannot be kept under its rules, if it cannot."""
    if privacy is None or not is_protected(schema):
        return None
    if privacy.find_entry(schema.database, schema.table) is None:
        return _NOT_SELECTED
    for name in restore_schema(schema).key:
        column = schema.column(name)
        if column is not None and column.rule is not None and column.rule not in KEY_RULES:
            return _KEY.format(column.name[:80], _explain(privacy, schema, column))
    for column in schema.columns:
        if column.rule in ("hash", "mask") and column.upstream is not None:
            type = column.upstream.type
            if not can_apply(column.rule, type):
                return _KINDS.format(column.name[:80], type.name.upper(), column.rule)
    return None


def _explain(privacy: Privacy, schema: TableSchema, column: Column) -> str:
    entry = privacy.find_entry(schema.database, schema.table)
    if entry is not None and not entry.names(column.name):
        return _UNNAMED
    return f"its rule is {column.rule}"


def can_apply(rule: Rule, type: ColumnType) -> bool:
    """Whether a rule can be applied to the texts of a type."""
    if rule not in ("hash", "mask"):
        return True
    try:
        return describe(type).kind in (_HASHED if rule == "hash" else _MASKED)
    except InvalidValue:
        return False


def list_unnamed(privacy: Privacy | None, schema: TableSchema) -> list[str]:
    """List the columns that are left out because no list of the table's entry names them."""
    entry = privacy and privacy.find_entry(schema.database, schema.table)
    if not entry:
        return []
    dropped = (column.name for column in schema.columns if column.rule == "drop")
    return [name for name in dropped if not entry.names(name)]
