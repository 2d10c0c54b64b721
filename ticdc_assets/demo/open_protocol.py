"""Open Protocol: rows batched, every column with its type code and flags."""

import struct
from collections.abc import Callable, Sequence

from ticdc_assets.demo.change import ChangedRow, Ddl, RowTexts, row_columns
from ticdc_assets.demo.column_type import FLOATS, INTEGERS
from ticdc_assets.demo.go_json import raw_string
from ticdc_assets.demo.number import json_number
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import SentRow
from ticdc_assets.demo.topic import Record
from ticdc_assets.demo.wire import encode_base64, is_binary, make_member_numberer
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.protocols.open_protocol.go_quote import quote

_CODES = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8,
    "mediumint": 9, "date": 10, "time": 11, "datetime": 12, "year": 13, "varchar": 15, "bit": 16,
    "vector": 225, "json": 245, "decimal": 246, "enum": 247, "set": 248, "char": 254,
    "varbinary": 15, "binary": 254,
    "tinytext": 249, "tinyblob": 249, "mediumtext": 250, "mediumblob": 250, "longtext": 251,
    "longblob": 251, "text": 252, "blob": 252,
}  # fmt: skip
_BINARY, _HANDLE, _GENERATED, _PRIMARY, _UNIQUE = 1, 2, 4, 8, 16
_MULTIPLE, _NULLABLE, _UNSIGNED = 32, 64, 128
_VERSION = struct.pack(">Q", 1)
_length = struct.Struct(">Q").pack


class OpenProtocol:
    """The codec of a topic."""

    batch = 16
    ddl_to_all = True

    def __init__(self) -> None:
        self._tables = PerTable(_OpenProtocolTable)

    def rows(self, rows: Sequence[SentRow], build_ms: int) -> Record:
        keys: list[bytes] = [_VERSION]
        values: list[bytes] = []
        for ts, change in rows:
            table = self._tables(change.table)
            key, value = table.key(ts, change.partition), table.value(change)
            for parts, text in ((keys, key), (values, value)):
                octets = text.encode()
                parts += (_length(len(octets)), octets)
        return Record(b"".join(keys), b"".join(values))

    def ddl(self, ddl: Ddl, build_ms: int) -> Record:
        names = f'"scm":{raw_string(ddl.database)},"tbl":{raw_string(ddl.named)}'
        key = f'{{"ts":{ddl.ts},{names},"t":2}}'
        return _single(key, f'{{"q":{raw_string(ddl.sql)},"t":{ddl.kind.code}}}')

    def watermark(self, ts: int, build_ms: int) -> Record:
        return _single(f'{{"ts":{ts},"t":3}}', "")

    def bootstrap(self, schema: TableSchema, build_ms: int) -> None:
        return None


def _single(key: str, value: str) -> Record:
    octets, content = key.encode(), value.encode()
    return Record(_VERSION + _length(len(octets)) + octets, _length(len(content)) + content)


class _OpenProtocolTable:
    def __init__(self, schema: TableSchema) -> None:
        # Kept alive: callers refer to the schema by its identity.
        self.schema = schema
        names = f'"scm":{raw_string(schema.database)},"tbl":{raw_string(schema.table)}'
        self._key = "," + names
        self._columns = [
            (_describe_column(column, schema), _make_value_writer(column), column)
            for column in row_columns(schema)
        ]

    def key(self, ts: int, partition: int | None) -> str:
        place = "" if partition is None else f',"ptn":{partition}'
        return f'{{"ts":{ts}{self._key},"t":1{place}}}'

    def value(self, change: ChangedRow) -> str:
        _, old, new, _ = change
        if new is None:
            return f'{{"d":{self._object(old or ())}}}'
        if old is None:
            return f'{{"u":{self._object(new)}}}'
        return f'{{"u":{self._object(new)},"p":{self._object(old)}}}'

    def _object(self, row: RowTexts) -> str:
        cells = [
            f"{head}null}}" if text is None else f"{head}{write(text)}}}"
            for text, (head, write, _) in zip(row, self._columns, strict=True)
        ]
        return "{" + ",".join(cells) + "}"


def _describe_column(column: Column, schema: TableSchema) -> str:
    handle = '"h":true,' if column.name in schema.key else ""
    code, flags = _CODES[column.type.name], column_flags(column, schema)
    return f'{raw_string(column.name)}:{{"t":{code},{handle}"f":{flags},"v":'


def column_flags(column: Column, schema: TableSchema) -> int:
    """Return the flags of a column: those of its type and of the indexes it belongs to."""
    kind = column.type
    flags = _BINARY * (kind.charset == "binary") | _NULLABLE * column.nullable
    flags |= _UNSIGNED * (kind.unsigned or kind.name in ("bit", "year"))
    flags |= _HANDLE * (column.name in schema.key)
    flags |= _GENERATED * (column.generated is not None)
    for index in schema.indexes:
        if column.name not in index.columns:
            continue
        if index.primary:
            flags |= _PRIMARY
        elif index.unique:
            flags |= _UNIQUE
        if len(index.columns) > 1:
            flags |= _MULTIPLE
    return flags


def _make_value_writer(column: Column) -> Callable[[str], str]:
    number = make_member_numberer(column)
    if number is not None:
        return number
    name = column.type.name
    if name in FLOATS:
        return json_number
    if name in INTEGERS or name in ("year", "bit"):
        return str
    if name in ("binary", "varbinary"):
        return lambda text: raw_string(quote(bytes.fromhex(text)))
    if is_binary(column):
        return lambda text: f'"{encode_base64(text)}"'
    if name.endswith("text"):
        return lambda text: f'"{encode_base64(text.encode().hex())}"'
    return raw_string
