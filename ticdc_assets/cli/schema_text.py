"""Format the schema history of a table: every version and what it changed."""

from collections.abc import Iterator, Sequence

from ticdc_assets.cli import texts
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.views.overview import SchemaVersionRow
from ticdc_assets.rows.columns import format_mysql_type

_RENAMING_KEYWORDS = ("RENAME", "CHANGE")


def format_schema_history(versions: Sequence[SchemaVersionRow]) -> Iterator[str]:
    """Yield the lines to print."""
    before: SchemaVersionRow | None = None
    for line in versions:
        if before is None or before.incarnation != line.incarnation:
            yield f"{line.schema.database}.{line.schema.table} ({line.incarnation})"
            before = None
        # The version that ends was stated by a line above.
        is_stated = line.schema.version is not None and not line.ends
        number = f"  schema version {line.schema.version}" if is_stated else ""
        origin = line.ddl_type or line.origin
        yield f"  {texts.format_ts(line.valid_from)}{number}  {origin}"
        if line.sql:
            yield f"      {line.sql}"
        if line.ends:
            yield "      the table ends here"
        elif before is None:
            yield from (f"      + {_describe_column(column)}" for column in line.schema.columns)
            yield f"      key: {_format_key(line.schema)}"
        else:
            yield from (
                f"      {text}" for text in describe_changes(before.schema, line.schema, line.sql)
            )
        before = line


def describe_changes(before: TableSchema, after: TableSchema, sql: str) -> list[str]:
    """Describe what changed between two versions of a table."""
    lines = []
    if (before.database, before.table) != (after.database, after.table):
        names = [f"{schema.database}.{schema.table}" for schema in (before, after)]
        lines.append(f"renamed: {' → '.join(names)}")
    old_columns = {fold_name(column.name): column for column in before.columns}
    new_columns = {fold_name(column.name): column for column in after.columns}
    dropped = [column for name, column in old_columns.items() if name not in new_columns]
    added = [column for name, column in new_columns.items() if name not in old_columns]
    for old, column in _find_renamed(before, after, dropped, added, sql):
        dropped.remove(old)
        added.remove(column)
        lines.append(f"~ {old.name} → {_describe_column(column)}")
    lines += [f"- {_describe_column(column)}" for column in dropped]
    lines += [f"+ {_describe_column(column)}" for column in added]
    for name, column in new_columns.items():
        old_text = _describe_column(old_columns[name]) if name in old_columns else None
        if old_text is not None and old_text != _describe_column(column):
            lines.append(f"~ {old_text} → {_describe_column(column)}")
    if _format_key(before) != _format_key(after):
        lines.append(f"key: {_format_key(before)} → {_format_key(after)}")
    return lines or ["no column changed"]


def _find_renamed(
    before: TableSchema,
    after: TableSchema,
    dropped: Sequence[Column],
    added: Sequence[Column],
    sql: str,
) -> list[tuple[Column, Column]]:
    """Pair dropped and added columns by position, if the DDL renames any."""
    if not any(keyword in sql.upper() for keyword in _RENAMING_KEYWORDS):
        return []
    new_places = {column.name: place for place, column in enumerate(after.columns)}
    added_by_place = {new_places[column.name]: column for column in added}
    old_places = {column.name: place for place, column in enumerate(before.columns)}
    pairs = [(old, added_by_place.get(old_places[old.name])) for old in dropped]
    renamed = [(old, column) for old, column in pairs if column is not None]
    if not renamed and len(dropped) == len(added) == 1:
        renamed = [(dropped[0], added[0])]
    return renamed


def _describe_column(column: Column) -> str:
    text = f"{column.name} {format_mysql_type(column.type)}"
    if not column.nullable:
        text += " not null"
    if column.default is not None:
        text += f" default {column.default}"
    return f"{text} ({column.generated} generated)" if column.generated else text


def _format_key(schema: TableSchema) -> str:
    return ", ".join(schema.key) or "none"
