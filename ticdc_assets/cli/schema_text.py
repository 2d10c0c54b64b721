"""A table's schema history in words: version by version, and what each changed."""

from collections.abc import Iterator, Sequence

from ticdc_assets.cli import texts
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.events.table_schema import folded
from ticdc_assets.lake.columns.types import format_mysql_type
from ticdc_assets.lake.views.overview import SchemaVersionRow

_RENAMING = ("RENAME", "CHANGE")


def schema_lines(versions: Sequence[SchemaVersionRow]) -> Iterator[str]:
    """The lines to print."""
    before: SchemaVersionRow | None = None
    for line in versions:
        if before is None or before.incarnation != line.incarnation:
            yield f"{line.schema.database}.{line.schema.table} ({line.incarnation})"
            before = None
        number = "" if line.schema.version is None else f"  version {line.schema.version}"
        came = line.ddl_type or line.origin
        yield f"  {line.valid_from}  {texts.moment(line.valid_from)}{number}  {came}"
        if line.sql:
            yield f"      {line.sql}"
        if line.ends:
            yield "      the end of the table"
        elif before is None:
            yield from (f"      + {_described(column)}" for column in line.schema.columns)
            yield f"      key: {_key(line.schema)}"
        else:
            yield from (f"      {text}" for text in changes(before.schema, line.schema, line.sql))
        before = line


def changes(before: TableSchema, after: TableSchema, sql: str) -> list[str]:
    """What is different between two versions of a table."""
    said = []
    if (before.database, before.table) != (after.database, after.table):
        names = [f"{schema.database}.{schema.table}" for schema in (before, after)]
        said.append(f"renamed: {' → '.join(names)}")
    was = {folded(column.name): column for column in before.columns}
    now = {folded(column.name): column for column in after.columns}
    gone = [column for name, column in was.items() if name not in now]
    new = [column for name, column in now.items() if name not in was]
    for old, column in _renamed(before, after, gone, new, sql):
        gone.remove(old)
        new.remove(column)
        said.append(f"~ {old.name} → {_described(column)}")
    said += [f"- {_described(column)}" for column in gone]
    said += [f"+ {_described(column)}" for column in new]
    for name, column in now.items():
        old_text = _described(was[name]) if name in was else None
        if old_text is not None and old_text != _described(column):
            said.append(f"~ {old_text} → {_described(column)}")
    if _key(before) != _key(after):
        said.append(f"key: {_key(before)} → {_key(after)}")
    return said or ["no column changed"]


def _renamed(
    before: TableSchema,
    after: TableSchema,
    gone: Sequence[Column],
    new: Sequence[Column],
    sql: str,
) -> list[tuple[Column, Column]]:
    """Columns that have another name at their place, where the statement renames any."""
    if not any(word in sql.upper() for word in _RENAMING):
        return []
    places = {column.name: place for place, column in enumerate(after.columns)}
    by_place = {places[column.name]: column for column in new}
    was = {column.name: place for place, column in enumerate(before.columns)}
    pairs = [(old, by_place.get(was[old.name])) for old in gone]
    found = [(old, column) for old, column in pairs if column is not None]
    if not found and len(gone) == len(new) == 1:
        found = [(gone[0], new[0])]
    return found


def _described(column: Column) -> str:
    text = f"{column.name} {format_mysql_type(column.type)}"
    if not column.nullable:
        text += " not null"
    if column.default is not None:
        text += f" default {column.default}"
    return f"{text} ({column.generated} generated)" if column.generated else text


def _key(schema: TableSchema) -> str:
    return ", ".join(schema.key) or "none"
