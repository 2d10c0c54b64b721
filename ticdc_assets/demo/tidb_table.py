"""A table as TiDB itself states it in its jobs of DDL: what TiCDC reads its schema from.

This shares no code with the readers of the changefeed, as all of this package.
"""

from base64 import b64decode
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from ticdc_assets.demo.column_type import BINARY, FLOATS, TEXTS, TIMES
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.table_schema import MADE_UP_KEY

_NAMES = {
    1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 15: "varchar", 16: "bit",
    225: "vector", 245: "json", 246: "decimal", 247: "enum", 248: "set", 249: "tinytext",
    250: "mediumtext", 251: "longtext", 252: "text", 253: "varchar", 254: "char",
}  # fmt: skip
_OF_BYTES = {"char": "binary", "varchar": "varbinary"}
_OF_BYTES |= {f"{size}text": f"{size}blob" for size in ("tiny", "", "medium", "long")}
_NOT_NULL, _PRIMARY, _UNSIGNED, _ZEROFILL = 1, 2, 32, 64
# The state of a column or an index that all sessions see.
_PUBLIC = 5


class _Name(Struct):
    # As it is written.
    text: str = field(name="O")


class _Type(Struct, rename="pascal"):
    tp: int
    flag: int
    flen: int
    decimal: int
    charset: str
    collate: str
    elems: list[str] | None = None


class _Column(Struct):
    name: _Name
    type: _Type
    state: int
    default: Any = None
    default_bit: str | None = None
    generated_expr_string: str = ""
    generated_stored: bool = False


class _Index(Struct):
    idx_name: _Name
    idx_cols: list["_IndexColumn"]
    state: int
    is_unique: bool = False
    is_primary: bool = False


class _IndexColumn(Struct):
    name: _Name


class _Partition(Struct):
    id: int
    name: _Name


class _Partitions(Struct):
    definitions: list[_Partition] | None = None


class TableInfo(Struct):
    """What a job of DDL states of the table that it leaves."""

    id: int
    name: _Name
    cols: list[_Column] | None = None
    index_info: list[_Index] | None = None
    # Rows are stored by the integer, or by other columns, of the primary key; else by a number.
    pk_is_handle: bool = False
    is_common_handle: bool = False
    update_timestamp: int = 0
    partition: _Partitions | None = None
    view: Any = None
    sequence: Any = None


class TidbTable(NamedTuple):
    """A table on the server."""

    schema: TableSchema
    # By which TiDB stores a row: columns of the primary key; none where it numbers the rows.
    handle: tuple[str, ...]
    # Names and ids of partitions; none of a table that has none.
    partitions: tuple[tuple[str, int], ...]


def read_table(database: str, info: TableInfo) -> TidbTable:
    """Return the table that TiDB describes."""
    columns = [column for column in info.cols or () if column.state == _PUBLIC]
    indexes = [
        Index(
            index.idx_name.text,
            tuple(column.name.text for column in index.idx_cols),
            unique=index.is_unique,
            primary=index.is_primary,
        )
        for index in info.index_info or ()
        if index.state == _PUBLIC
    ]
    handle = next((index.columns for index in indexes if index.primary), ())
    if info.pk_is_handle:
        handle = tuple(c.name.text for c in columns if c.type.flag & _PRIMARY)
        # TiDB has no index for it; Simple makes one up.
        indexes.insert(0, Index(MADE_UP_KEY, handle, unique=True, primary=True))
    schema = TableSchema(
        database,
        info.name.text,
        tuple(map(_read_column, columns)),
        tuple(indexes),
        table_id=info.id,
        version=info.update_timestamp,
    )
    partitions = info.partition.definitions or () if info.partition else ()
    return TidbTable(
        schema,
        handle if info.pk_is_handle or info.is_common_handle else (),
        tuple((partition.name.text, partition.id) for partition in partitions),
    )


def read_view(database: str, info: TableInfo) -> TableSchema:
    """Return a view as messages state it: its columns have no types."""
    kind = ColumnType("unspecified", charset="", collation="")
    columns = tuple(Column(column.name.text, kind) for column in info.cols or ())
    return TableSchema(
        database, info.name.text, columns, (), table_id=info.id, version=info.update_timestamp
    )


def _read_column(stated: _Column) -> Column:
    kind = _read_type(stated.type)
    default = None if stated.default is None else str(stated.default)
    if kind.name == "bit" and stated.default_bit is not None:
        default = str(int.from_bytes(b64decode(stated.default_bit), "big"))
    generated = bool(stated.generated_expr_string)
    return Column(
        stated.name.text,
        kind,
        nullable=not stated.type.flag & _NOT_NULL,
        default=default,
        generated=("stored" if stated.generated_stored else "virtual") if generated else None,
    )


def _read_type(stated: _Type) -> ColumnType:
    name = _NAMES[stated.tp]
    if stated.charset == "binary":
        name = _OF_BYTES.get(name, name)
    has_decimals = name in TIMES and stated.decimal > 0
    has_decimals |= name == "decimal" or (name in FLOATS and stated.decimal >= 0)
    is_of_members = name in ("enum", "set")
    has_length = not is_of_members and name not in TIMES and stated.flen >= 0
    # TiDB flags every BIT and YEAR, whatever was declared.
    has_sign = name not in (*TEXTS, *BINARY, "bit", "year")
    return ColumnType(
        name=name,
        unsigned=has_sign and bool(stated.flag & _UNSIGNED),
        zerofill=has_sign and bool(stated.flag & _ZEROFILL),
        length=stated.flen if has_length else None,
        decimals=stated.decimal if has_decimals else None,
        elements=tuple(stated.elems or ()) if is_of_members else None,
        charset=stated.charset,
        collation=stated.collate,
    )


class _Outcome(Struct):
    finished_ts: int = field(name="FinishedTS")
    table: TableInfo | None = field(name="TableInfo", default=None)


class DdlJob(Struct):
    """A job of DDL that has ended, of `mysql.tidb_ddl_history`."""

    id: int
    type: int
    state: int
    schema_name: str
    binlog: _Outcome
    table_id: int = 0
    table_name: str = ""
    query: str = ""
    real_start_ts: int = 0


decode_job = msgspec.json.Decoder(DdlJob).decode
