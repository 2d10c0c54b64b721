"""The Simple protocol in JSON: one object per record.

    row        {"version": 1, "database", "table", "tableID", "type": INSERT, UPDATE or DELETE,
                "commitTs", "buildTs", "schemaVersion", "data": {column: value}, "old": {...},
                "checksum", "handleKeyOnly", "claimCheckLocation"}
    watermark  {"version": 1, "type": "WATERMARK", "commitTs", "buildTs"}
    bootstrap  {"version": 1, "type": "BOOTSTRAP", "commitTs", "buildTs", "tableSchema"}
    DDL        {"version": 1, "type", "sql", "commitTs", "buildTs", "tableSchema", "preTableSchema"}

Values are strings or null; a TIMESTAMP is {"location": zone, "value": text}.  Except for these,
`data` and `old` are row images as they are and are passed on unparsed.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import astuple

from ticdc_assets.errors import MalformedMessage, UnknownMessage
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Column,
    Event,
    Index,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.simple.decoder import (
    DDL_TYPES,
    DML_TYPES,
    SimpleDecoder,
    check_op,
    check_version,
)
from ticdc_assets.protocols.simple.schema import (
    I64,
    DataType,
    check_columns,
    check_ddl_columns,
    column,
    column_type,
)

# Unsigned 64 bits in TiCDC; values that exceed a signed long are malformed.
_U63 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_U32 = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class _Column(Struct, frozen=True, rename="camel"):
    name: str
    data_type: DataType
    nullable: bool = False
    default: str | int | None = None


class _Index(Struct, frozen=True):
    name: str
    columns: tuple[str, ...] | None
    unique: bool = False
    primary: bool = False


class _Table(Struct, frozen=True, rename={"database": "schema", "table_id": "tableID"}):
    database: str
    table: str
    columns: tuple[_Column, ...] | None
    indexes: tuple[_Index, ...] | None = None
    table_id: I64 = 0
    version: _U63 = 0


class _Checksum(Struct, frozen=True):
    version: _U32 = 0
    corrupted: bool = False
    current: _U32 = 0
    previous: _U32 = 0


class _Timestamp(Struct, frozen=True, forbid_unknown_fields=True):
    location: str
    value: str


_ABSENT = Raw()


class Envelope(
    Struct,
    gc=False,
    rename={
        "table_id": "tableID",
        "commit_ts": "commitTs",
        "build_ts": "buildTs",
        "schema_version": "schemaVersion",
        "claim_check_location": "claimCheckLocation",
        "handle_key_only": "handleKeyOnly",
        "table_schema": "tableSchema",
        "pre_table_schema": "preTableSchema",
    },
):
    version: _U32
    type: str
    commit_ts: _U63 | None = None
    database: str | None = None
    table: str | None = None
    table_id: I64 | None = None
    build_ts: I64 | None = None
    schema_version: _U63 | None = None
    claim_check_location: str | None = None
    handle_key_only: bool | None = None
    checksum: _Checksum | None = None
    data: Raw = _ABSENT
    old: Raw = _ABSENT
    sql: str | None = None
    table_schema: _Table | None = None
    pre_table_schema: _Table | None = None


_read_envelope = msgspec.json.Decoder(Envelope).decode
_read_row = msgspec.json.Decoder(dict[str, str | _Timestamp | None]).decode

# A TIMESTAMP as TiCDC writes it.  An unescaped quote after a brace cannot be inside a JSON string,
# and the colon excludes a row whose own columns are called location and value.
_TIMESTAMP = re.compile(r':\{"location":"([^"\\]*)","value":"([^"\\]*)"\}')


class SimpleJsonDecoder(SimpleDecoder):
    """Decode Simple messages with `encoding-format=json`."""

    def _read(self, value: bytes, position: TopicPosition, claimed: str | None) -> Event:
        try:
            message = _read_envelope(value)
            check_version(message.version)
            after = None if message.data is _ABSENT else self._image(message.data)
            before = None if message.old is _ABSENT else self._image(message.old)
            if after is not None or before is not None or message.type in DML_TYPES:
                return self._row(message, before, after, position, claimed)
            return _other(message, position)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedMessage(f"JSON: {error}") from None

    def _row(
        self,
        message: Envelope,
        before: str | None,
        after: str | None,
        position: TopicPosition,
        claimed: str | None,
    ) -> RowChange:
        if message.commit_ts is None or message.database is None or message.table is None:
            raise MalformedMessage("a row without a commit ts or a table")
        if message.schema_version is None:
            raise MalformedMessage("a row without a schema version")
        checksum = message.checksum
        row = RowChange(
            op=check_op(message.type, before, after),
            commit_ts=message.commit_ts,
            database=message.database,
            table=message.table,
            position=position,
            before=before,
            after=after,
            table_id=message.table_id,
            schema_version=message.schema_version,
            handle_key_only=bool(message.handle_key_only),
            checksum=None if checksum is None else Checksum(*astuple(checksum)),
            build_ts=message.build_ts,
            claim_check_digest=claimed,
        )
        if message.claim_check_location:
            return self._redeem(row, position, message.claim_check_location)
        return row

    def _image(self, raw: Raw) -> str | None:
        """Return a row image; null and a missing field are None."""
        image = str(raw, "utf-8")
        if image[:1] != "{":
            if image in ("", "null"):
                return None
            raise MalformedMessage("a row image that is not an object")
        if '"location"' not in image:
            return image
        plain = _TIMESTAMP.sub(self._convert_timestamp, image)
        return plain if '"location"' not in plain else self._parse_image(image)

    def _convert_timestamp(self, found: re.Match[str]) -> str:
        return f':"{self._timestamp(found[1], found[2])}"'

    def _parse_image(self, image: str) -> str:
        """Parse an image: a column may be called location, or a timestamp written another way."""
        row = {
            name: self._timestamp(value.location, value.value)
            if isinstance(value, _Timestamp)
            else value
            for name, value in _read_row(image).items()
        }
        return row_image.dump(row)


def _other(message: Envelope, position: TopicPosition) -> Event:
    kind = message.type
    commit_ts = message.commit_ts
    if kind == "WATERMARK":
        if commit_ts is None:
            raise MalformedMessage("a watermark without a ts")
        return Watermark(ts=commit_ts, position=position, build_ts=message.build_ts)
    table = message.table_schema
    if kind == "BOOTSTRAP":
        if table is None:
            raise MalformedMessage("a bootstrap without a table")
        schema = check_columns(_table_schema(table))
        return Bootstrap(schema=schema, position=position, build_ts=message.build_ts)
    if kind not in DDL_TYPES:
        raise UnknownMessage(f"a message of type {kind[:20]!r}")
    if message.sql is None or commit_ts is None:
        raise MalformedMessage("a DDL without a statement or a commit ts")
    before = message.pre_table_schema
    return SchemaChange(
        commit_ts=commit_ts,
        database="" if table is None else table.database,
        table="" if table is None else table.table,
        sql=message.sql,
        position=position,
        ddl_type=kind,
        schema=check_ddl_columns(None if table is None else _table_schema(table)),
        pre_schema=check_ddl_columns(None if before is None else _table_schema(before)),
        build_ts=message.build_ts,
    )


def _table_schema(table: _Table) -> TableSchema:
    return TableSchema(
        database=table.database,
        table=table.table,
        columns=tuple(_column(stated) for stated in table.columns or ()),
        indexes=tuple(
            Index(i.name, i.columns or (), unique=i.unique, primary=i.primary)
            for i in table.indexes or ()
        ),
        table_id=table.table_id,
        version=table.version,
    )


def _column(stated: _Column) -> Column:
    type = column_type(stated.data_type)
    return column(stated.name, type, nullable=stated.nullable, default=stated.default)
