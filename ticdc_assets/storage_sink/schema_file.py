"""Schema files of the storage sink: the columns of a table version, and the DDL that created it.

A file without a statement is a snapshot: TiCDC writes it before the first row of an existing table.
The files state no index but the primary key (its columns in table order), no charset and no
comment, and do not mark generated columns.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ticdc_assets.errors import MalformedMessage, UnknownMessage
from ticdc_assets.events import (
    Bootstrap,
    Column,
    ColumnType,
    FilePosition,
    Index,
    SchemaChange,
    TableSchema,
)
from ticdc_assets.schema.types.limits import MAX_COLUMNS, TOO_MANY_COLUMNS, find_excess
from ticdc_assets.storage_sink.column_default import ColumnDefault, read_default
from ticdc_assets.storage_sink.schema_checksum import compute_schema_checksum

_MAX_NUMBER = (1 << 63) - 1
# The precision that a file states for a FLOAT or DOUBLE declared without one.
_DEFAULT_PRECISION = {"float": 12, "double": 22}


class _Content(Struct, frozen=True, rename="pascal"):
    table: Raw
    schema: Raw
    table_version: int | str
    version: int | str = 1
    query: str = ""
    type: int | str = 0
    table_columns: list[dict[str, Raw]] | None = None
    table_columns_total: int | str | None = None


_content = msgspec.json.Decoder(_Content)
_text = msgspec.json.Decoder(str)
_scalar = msgspec.json.Decoder(str | int | float | bool | None)
_setting = msgspec.json.Decoder(str | int | bool)
_elements = msgspec.json.Decoder(tuple[str, ...])


class SchemaFile(Struct, frozen=True, kw_only=True):
    """The content of one schema file."""

    database: str
    # "" in the schema file of a database.
    table: str
    version: int
    # The statement, "" for a snapshot.
    query: str
    # TiDB's number of the DDL type, 0 for a snapshot.
    type: int
    # The checksum of the content; the name of the file states it.
    checksum: int
    table_schema: TableSchema | None = None


def read_schema_file(data: bytes) -> SchemaFile:
    """Read a schema file; raise `MalformedMessage` or `UnknownMessage`."""
    try:
        return _parse_content(_content.decode(data))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedMessage(f"schema file: {error}") from None


def to_event(file: SchemaFile, position: FilePosition) -> SchemaChange | Bootstrap:
    """Convert a schema file to a DDL, or a snapshot to a bootstrap."""
    if not file.query and file.table_schema is not None:
        return Bootstrap(schema=file.table_schema, position=position)
    return SchemaChange(
        commit_ts=file.version,
        database=file.database,
        table=file.table,
        sql=file.query,
        ddl_type=str(file.type),
        schema=file.table_schema,
        position=position,
    )


def _parse_content(content: _Content) -> SchemaFile:
    if _parse_number(content.version, "Version") != 1:
        raise UnknownMessage(f"schema file: Version {content.version} is unknown")
    database, table = _text.decode(content.schema), _text.decode(content.table)
    version = _parse_number(content.table_version, "TableVersion")
    columns = content.table_columns or []
    total = content.table_columns_total
    if total is not None and _parse_number(total, "TableColumnsTotal") != len(columns):
        raise MalformedMessage(
            f"schema file: {len(columns)} columns, but TableColumnsTotal is {total}"
        )
    if len(columns) > MAX_COLUMNS:
        raise MalformedMessage(f"schema file: {TOO_MANY_COLUMNS}")
    if not database:
        raise MalformedMessage("schema file: no Schema")
    if not content.query and not (table and columns):
        raise MalformedMessage("schema file: neither a statement nor the columns of a table")
    for column in columns:
        if "ColumnName" not in column or "ColumnType" not in column:
            raise MalformedMessage("schema file: a column without name or type")
    return SchemaFile(
        database=database,
        table=table,
        version=version,
        query=content.query,
        type=_parse_number(content.type, "Type"),
        checksum=compute_schema_checksum(content.table, content.schema, columns),
        table_schema=_parse_table_schema(database, table, version, columns)
        if table and columns
        else None,
    )


def _parse_table_schema(
    database: str, table: str, version: int, stated: list[dict[str, Raw]]
) -> TableSchema:
    columns, key = [], []
    for keys in stated:
        name = _text.decode(keys["ColumnName"])
        column_type = _parse_column_type(keys)
        default = ColumnDefault()
        if "ColumnDefault" in keys:
            default = read_default(_scalar.decode(keys["ColumnDefault"]), column_type)
        if _parse_flag(keys, "ColumnIsPk", absent=False):
            key.append(name)
        columns.append(
            Column(
                name=name,
                type=column_type,
                nullable=_parse_flag(keys, "ColumnNullable", absent=True),
                default=default.text,
                default_is_expression=default.is_expression,
            )
        )
    primary = Index(name="PRIMARY", columns=tuple(key), unique=True, primary=True)
    return TableSchema(
        database=database,
        table=table,
        columns=tuple(columns),
        indexes=(primary,) if key else (),
        version=version,
    )


def _parse_column_type(keys: Mapping[str, Raw]) -> ColumnType:
    name, *words = _text.decode(keys["ColumnType"]).lower().split() or [""]
    if not name:
        raise MalformedMessage("schema file: an empty ColumnType")
    # TiCDC's documentation names the length of a string ColumnLength; TiCDC writes ColumnPrecision.
    length = _parse_parameter(keys, "ColumnPrecision")
    if length is None:
        length = _parse_parameter(keys, "ColumnLength")
    decimals = _parse_parameter(keys, "ColumnScale")
    # Every YEAR has width 4, so it is not a parameter.
    if name == "year" or (decimals is None and length == _DEFAULT_PRECISION.get(name)):
        length = None
    elements = None
    if "ColumnElems" in keys:
        elements = _elements.decode(keys["ColumnElems"])
    column_type = ColumnType(
        name=name,
        # TiCDC states it for every YEAR and BIT, although MySQL has no unsigned ones.
        unsigned="unsigned" in words and name not in ("year", "bit"),
        zerofill="zerofill" in words,
        length=length,
        decimals=decimals,
        elements=elements,
    )
    if excess := find_excess(column_type):
        raise MalformedMessage(f"schema file: {excess}")
    return column_type


def _parse_parameter(keys: Mapping[str, Raw], key: str) -> int | None:
    if key not in keys:
        return None
    setting: Any = _setting.decode(keys[key])
    return _parse_number(setting, key) if setting != "" else None


def _parse_flag(keys: Mapping[str, Raw], key: str, *, absent: bool) -> bool:
    if key not in keys:
        return absent
    setting = _setting.decode(keys[key])
    if setting in (True, "true"):
        return True
    if setting in (False, "false"):
        return False
    raise MalformedMessage(f"schema file: {key} is {setting!r}")


def _parse_number(stated: int | str, what: str) -> int:
    """Read a number that some versions write as a string."""
    if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 20:
        stated = int(stated)
    if isinstance(stated, bool) or not isinstance(stated, int) or not 0 <= stated <= _MAX_NUMBER:
        raise MalformedMessage(f"schema file: {what} is {stated!r}")
    return stated
