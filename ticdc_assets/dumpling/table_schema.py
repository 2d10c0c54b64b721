"""The schema of an exported table: its CREATE TABLE, in the context of its database."""

import re

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import FilePosition, SchemaChange, TableSchema
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog, table_key
from ticdc_assets.schema.effect import AllTablesPaused, Effect, TableCreated, TablePaused

# What Dumpling and mydumper write before a statement.
_SETTINGS = re.compile(r"\A(?:\s*/\*!?[0-9]*\s*SET\b[^;]*?\*/\s*;)*\s*", re.IGNORECASE)


def read_table_schema(
    database: str,
    table: str,
    create_database: bytes | None,
    create_table: bytes,
    catalog: SchemaCatalog,
) -> TableSchema:
    """Read a table's schema with an empty catalog; raise `MalformedMessage` if it cannot be."""
    if create_database is not None:
        for effect in _apply(create_database, database, "", catalog):
            _raise_for(effect)
    for effect in _apply(create_table, database, table, catalog):
        if isinstance(effect, TableCreated):
            schema = effect.schema
            if table_key(schema.database, schema.table) != table_key(database, table):
                raise MalformedMessage(f"its schema file creates {schema.table[:80]!r}")
            return schema
        _raise_for(effect)
    raise MalformedMessage("its schema file has no CREATE TABLE")


def _apply(content: bytes, database: str, table: str, catalog: SchemaCatalog) -> list[Effect]:
    try:
        sql = _SETTINGS.sub("", content.decode(), count=1)
    except UnicodeDecodeError:
        raise MalformedMessage("its schema file is not UTF-8") from None
    change = SchemaChange(
        commit_ts=0, database=database, table=table, sql=sql, position=FilePosition("")
    )
    return apply_ddl(change, catalog)


def _raise_for(effect: Effect) -> None:
    if isinstance(effect, TablePaused | AllTablesPaused):
        raise MalformedMessage(effect.reason)
