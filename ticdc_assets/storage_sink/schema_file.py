"""Schema files of the storage sink: the columns of a table version, and the DDL behind it.

A file without a statement is a snapshot of a table that existed before its first row was written.
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
from ticdc_assets.storage_sink.column_default import ColumnDefault, read_default
from ticdc_assets.storage_sink.schema_checksum import shape_checksum

_MOST = (1 << 63) - 1
# The stated precision of a FLOAT or DOUBLE without parameters.
_UNSTATED_PRECISION = {"float": 12, "double": 22}


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
    # "" for a file of a database.
    table: str
    version: int
    # The statement, "" for a snapshot.
    query: str
    # The number of TiDB's DDL type, 0 for a snapshot.
    type: int
    # The checksum that the name of the file should end with.
    checksum: int
    table_schema: TableSchema | None = None


def read_schema_file(data: bytes) -> SchemaFile:
    """Read a schema file; raise `MalformedMessage` or `UnknownMessage`."""
    try:
        return _read(_content.decode(data))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedMessage(f"schema file: {error}") from None


def checksum(data: bytes) -> int:
    """Compute the checksum in the name of a schema file; raise `MalformedMessage`."""
    return read_schema_file(data).checksum


def to_event(file: SchemaFile, position: FilePosition) -> SchemaChange | Bootstrap:
    """Convert a schema file: to a DDL that was executed, or to a bootstrap."""
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


def _read(content: _Content) -> SchemaFile:
    if _number(content.version, "Version") != 1:
        raise UnknownMessage(f"schema file: Version {content.version} is unknown")
    database, table = _text.decode(content.schema), _text.decode(content.table)
    version = _number(content.table_version, "TableVersion")
    columns = content.table_columns or []
    total = content.table_columns_total
    if total is not None and _number(total, "TableColumnsTotal") != len(columns):
        raise MalformedMessage(f"schema file: {len(columns)} columns where {total} are announced")
    if not database:
        raise MalformedMessage("schema file: no Schema")
    if not table and not content.query:
        raise MalformedMessage("schema file: a database without a statement")
    for column in columns:
        if "ColumnName" not in column or "ColumnType" not in column:
            raise MalformedMessage("schema file: a column without name or type")
    return SchemaFile(
        database=database,
        table=table,
        version=version,
        query=content.query,
        type=_number(content.type, "Type"),
        checksum=shape_checksum(content.table, content.schema, columns),
        table_schema=_table_schema(database, table, version, columns) if table else None,
    )


def _table_schema(
    database: str, table: str, version: int, stated: list[dict[str, Raw]]
) -> TableSchema:
    columns, key = [], []
    for keys in stated:
        name = _text.decode(keys["ColumnName"])
        column_type = _column_type(keys)
        default = ColumnDefault()
        if "ColumnDefault" in keys:
            default = read_default(_scalar.decode(keys["ColumnDefault"]), column_type)
        if _flag(keys, "ColumnIsPk", absent=False):
            key.append(name)
        columns.append(
            Column(
                name=name,
                type=column_type,
                nullable=_flag(keys, "ColumnNullable", absent=True),
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


def _column_type(keys: Mapping[str, Raw]) -> ColumnType:
    name, *words = _text.decode(keys["ColumnType"]).lower().split() or [""]
    if not name:
        raise MalformedMessage("schema file: an empty ColumnType")
    # The documentation calls the length of a string ColumnLength; servers do not.
    length = _parameter(keys, "ColumnPrecision")
    if length is None:
        length = _parameter(keys, "ColumnLength")
    decimals = _parameter(keys, "ColumnScale")
    # Every YEAR has width 4.
    if name == "year" or (decimals is None and length == _UNSTATED_PRECISION.get(name)):
        length = None
    elements = None
    if "ColumnElems" in keys:
        elements = _elements.decode(keys["ColumnElems"])
    return ColumnType(
        name=name,
        # Servers state it for every YEAR and BIT, although MySQL has no such types.
        unsigned="unsigned" in words and name not in ("year", "bit"),
        zerofill="zerofill" in words,
        length=length,
        decimals=decimals,
        elements=elements,
    )


def _parameter(keys: Mapping[str, Raw], key: str) -> int | None:
    if key not in keys:
        return None
    setting: Any = _setting.decode(keys[key])
    return _number(setting, key) if setting != "" else None


def _flag(keys: Mapping[str, Raw], key: str, *, absent: bool) -> bool:
    if key not in keys:
        return absent
    setting = _setting.decode(keys[key])
    if setting in (True, "true"):
        return True
    if setting in (False, "false"):
        return False
    raise MalformedMessage(f"schema file: {key} is {setting!r}")


def _number(stated: int | str, what: str) -> int:
    """Read a number that some versions write as a string."""
    if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 20:
        stated = int(stated)
    if isinstance(stated, bool) or not isinstance(stated, int) or not 0 <= stated <= _MOST:
        raise MalformedMessage(f"schema file: {what} is {stated!r}")
    return stated
