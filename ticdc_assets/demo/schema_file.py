"""The schema files of the storage sink, as the new-architecture server names and writes them."""

import zlib
from typing import Any

from ticdc_assets.demo.column_type import BINARY, FLOATS, TEXTS, bit_default, is_unsigned
from ticdc_assets.demo.go_json import indented
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.storage_sink.path import (
    DatabaseSchemaPath,
    Layout,
    TableSchemaPath,
    build,
)

_WITHOUT_PRECISION = frozenset({"date", "datetime", "timestamp", "time", "json", "vector"})


def encode_table_schema(
    schema: TableSchema, version: int, sql: str, code: int, layout: Layout
) -> tuple[str, bytes]:
    """Return path and content of a table's schema file; a bootstrap has no SQL and code 0."""
    key = schema.primary_key
    columns = [_column(column, column.name in key) for column in schema.columns]
    ddl = {"TableVersion": version, "Query": sql, "Type": code}
    content, checksum = _encode_content(schema.database, schema.table, ddl, columns)
    path = TableSchemaPath(
        database=schema.database, table=schema.table, version=version, checksum=checksum
    )
    return build(path, layout), content


def encode_database_schema(
    database: str, version: int, sql: str, code: int, layout: Layout
) -> tuple[str, bytes]:
    """Return path and content of a database's schema file."""
    ddl = {"TableVersion": version, "Query": sql, "Type": code}
    content, checksum = _encode_content(database, "", ddl, None)
    path = DatabaseSchemaPath(database=database, version=version, checksum=checksum)
    return build(path, layout), content


def _encode_content(
    database: str, table: str, ddl: dict[str, Any], columns: list[Any] | None
) -> tuple[bytes, int]:
    total = len(columns or ())
    names = {"Table": table, "Schema": database}
    content = names | {
        "Version": 1,
        **ddl,
        "TableColumns": columns,
        "TableColumnsTotal": total,
    }
    # The checksum covers names and columns, not the DDL.
    shape = names | {
        "Version": 0,
        "TableColumns": sorted(columns or (), key=lambda column: column["ColumnName"].encode()),
        "TableColumnsTotal": total,
    }
    return indented(content).encode(), zlib.crc32(indented(shape).encode())


def _column(column: Column, in_key: bool) -> dict[str, Any]:
    kind = column.type
    stated: dict[str, Any] = {
        "ColumnName": column.name,
        "ColumnType": kind.name.upper() + " UNSIGNED" * is_unsigned(kind),
    }
    if column.default is not None:
        stated["ColumnDefault"] = _default(column.default, kind)
    if kind.length is not None and kind.elements is None and kind.name not in _WITHOUT_PRECISION:
        stated["ColumnPrecision"] = str(kind.length)
    if _states_scale(kind):
        stated["ColumnScale"] = str(kind.decimals or 0)
    if not column.nullable:
        stated["ColumnNullable"] = "false"
    if in_key:
        stated["ColumnIsPk"] = "true"
    if kind.elements is not None:
        stated["ColumnElems"] = list(kind.elements)
    return stated


def _default(text: str, kind: ColumnType) -> str:
    return bit_default(text).decode(errors="replace") if kind.name == "bit" else text


def _states_scale(kind: ColumnType) -> bool:
    if kind.name == "decimal":
        return True
    if kind.name in FLOATS:
        return kind.decimals is not None
    return bool(kind.decimals) and kind.name not in TEXTS | BINARY
