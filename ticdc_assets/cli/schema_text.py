"""Format the schema history of a table: every version and what it changed."""

from collections.abc import Iterator, Sequence

from ticdc_assets.cli import records, texts
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import format_mysql_type
from ticdc_assets.views.overview import SchemaVersionRow

_RENAMING_KEYWORDS = ("RENAME", "CHANGE")


def make_schemas(changefeed: str, versions: Sequence[SchemaVersionRow]) -> Iterator[records.Schema]:
    """Yield a record for each version, which are in order."""
    before: SchemaVersionRow | None = None
    for line in versions:
        changes: list[str] = []
        if before is not None and before.incarnation == line.incarnation and not line.ends:
            changes = describe_changes(before.schema, line.schema, line.sql)
        yield records.Schema(
            changefeed=changefeed,
            incarnation=line.incarnation,
            database=line.schema.database,
            table=line.schema.table,
            valid_from_ts=line.valid_from,
            valid_from_at=records.find_time(line.valid_from),
            schema_version=line.schema.version,
            origin=line.origin,
            ddl_type=line.ddl_type or None,
            sql=line.sql or None,
            ends=line.ends,
            columns=[_make_column(column) for column in line.schema.columns],
            key=list(line.schema.key),
            changes=changes,
        )
        before = line


def _make_column(column: Column) -> records.Column:
    there = column.upstream or column
    return records.Column(
        name=column.name,
        type=format_mysql_type(there.type),
        nullable=there.nullable,
        default=there.default,
        default_is_expression=there.default_is_expression,
        generated=there.generated,
        rule=column.rule,
    )


def format_schema_history(versions: Sequence[records.Schema]) -> Iterator[str]:
    """Yield the lines to print."""
    incarnation: str | None = None
    for line in versions:
        is_first = incarnation != line.incarnation
        if is_first:
            yield f"{line.database}.{line.table} ({line.incarnation})"
        incarnation = line.incarnation
        # The version that ends was stated by a line above.
        is_stated = line.schema_version is not None and not line.ends
        number = f"  schema version {line.schema_version}" if is_stated else ""
        origin = line.ddl_type or line.origin
        yield f"  {texts.format_ts(line.valid_from_ts)}{number}  {origin}"
        if line.sql:
            yield f"      {line.sql}"
        if line.ends:
            yield "      the table ends here"
        elif is_first:
            yield from (f"      + {_format_column(column)}" for column in line.columns)
            yield f"      key: {_format_key(line.key)}"
        else:
            yield from (f"      {text}" for text in line.changes)


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
    old_key, new_key = _format_key(before.key), _format_key(after.key)
    if old_key != new_key:
        lines.append(f"key: {old_key} → {new_key}")
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
    return _format_column(_make_column(column))


def _format_column(column: records.Column) -> str:
    text = f"{column.name} {column.type}"
    if not column.nullable:
        text += " not null"
    if column.default is not None:
        text += f" default {column.default}"
    if column.generated:
        text += f" ({column.generated} generated)"
    return f"{text} (privacy: {column.rule})" if column.rule else text


def _format_key(key: Sequence[str]) -> str:
    return ", ".join(key) or "none"
