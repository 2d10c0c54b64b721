"""The Simple protocol as Avro: one datum a record, without any header."""

import struct
from collections.abc import Callable, Iterable, Sequence

from ticdc_assets.demo.change import Ddl, RowChange
from ticdc_assets.demo.change import Row as Values
from ticdc_assets.demo.column_type import FLOATS, INTEGERS, bit_default, is_unsigned, stated_length
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import Row
from ticdc_assets.demo.simple_json import indexes
from ticdc_assets.demo.topic import Record
from ticdc_assets.demo.wire import is_binary, member_number
from ticdc_assets.events import Column, TableSchema

# The branch of the top-level union that all messages take, then message type and payload branch.
_WATERMARK, _BOOTSTRAP, _DDL, _DML = (bytes((0x16, 2 * n, 2 * n)) for n in range(4))
_DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
_NULL, _SOME = b"\x00", b"\x02"
# Branches of a value.
_LONG, _FLOAT, _DOUBLE, _STRING = b"\x02", b"\x04", b"\x06", b"\x08"
_BYTES, _TIMESTAMP, _UNSIGNED = b"\x0a", b"\x0c", b"\x0e"
_WITH_SIGN = INTEGERS | FLOATS | {"bit", "year", "decimal"}


def long(number: int) -> bytes:
    """A zig-zag number of variable length."""
    rest = number << 1 if number >= 0 else ((-number) << 1) - 1
    octets = bytearray()
    while rest > 0x7F:
        octets.append(rest & 0x7F | 0x80)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)


def octets(content: bytes) -> bytes:
    """Bytes behind their length."""
    return long(len(content)) + content


def string(text: str) -> bytes:
    """A text behind its length in bytes."""
    return octets(text.encode("utf-8", "surrogateescape"))


def _array(items: Iterable[bytes]) -> bytes:
    listed = list(items)
    return (long(len(listed)) + b"".join(listed) if listed else b"") + b"\x00"


def _boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


class SimpleAvro:
    """The codec of a topic."""

    batch = 1
    ddl_to_all = True

    def __init__(self) -> None:
        self._tables = PerTable(_Table)

    def rows(self, rows: Sequence[Row], build_ms: int) -> Record:
        (row,) = rows
        table = self._tables(row.change.table)
        return Record(None, table.message(row.change, row.ts, build_ms))

    def ddl(self, ddl: Ddl, build_ms: int) -> Record:
        stated = _SOME + table_schema(ddl.stated) if ddl.stated is not None else _NULL
        return Record(
            None,
            _DDL
            + long(1)
            + long(_DDL_TYPES.index(ddl.kind.name))
            + string(ddl.sql)
            + long(ddl.ts)
            + long(build_ms)
            + stated
            + _NULL,
        )

    def watermark(self, ts: int, build_ms: int) -> Record:
        return Record(None, _WATERMARK + long(1) + long(ts) + long(build_ms))

    def bootstrap(self, schema: TableSchema, build_ms: int) -> Record:
        return Record(None, _BOOTSTRAP + long(1) + long(build_ms) + table_schema(schema))


def table_schema(schema: TableSchema) -> bytes:
    """The record of a table's schema."""
    stated = (
        string(index["name"])
        + _boolean(index["unique"])
        + _boolean(index["primary"])
        + _boolean(index["nullable"])
        + _array(string(name) for name in index["columns"])
        for index in indexes(schema)
    )
    return (
        string(schema.database)
        + string(schema.table)
        + long(schema.table_id or 0)
        + long(schema.version or 0)
        + _array(_column(column) for column in schema.columns)
        + _array(stated)
    )


def _column(column: Column) -> bytes:
    kind = column.type
    parts = [
        string(column.name),
        string(kind.name),
        string(kind.charset or ""),
        string(kind.collation or ""),
        long(stated_length(kind) or 0),
    ]
    if kind.name in ("decimal", "timestamp"):
        parts += [_SOME, long(kind.decimals or 0)]
    else:
        parts.append(_NULL)
    if kind.elements is not None:
        parts += [_SOME, _array(map(string, kind.elements))]
    else:
        parts.append(_NULL)
    if kind.name in _WITH_SIGN:
        zerofill = kind.zerofill or kind.name == "year"
        parts += [_SOME, _boolean(is_unsigned(kind)), _SOME, _boolean(zerofill)]
    else:
        parts += [_NULL, _NULL]
    parts.append(_boolean(column.nullable))
    if column.default is None:
        parts.append(_NULL)
    elif kind.name == "bit":
        parts += [_SOME, octets(bit_default(column.default))]
    else:
        parts += [_SOME, string(column.default)]
    return b"".join(parts)


class _Table:
    def __init__(self, schema: TableSchema) -> None:
        # Kept, so that the schema's identity stays its own.
        self._schema = schema
        names = string(schema.database) + string(schema.table) + long(schema.table_id or 0)
        self._head = _DML + long(1) + names
        # No claim check, no handle key only, no checksum.
        self._middle = long(schema.version or 0) + _NULL * 3
        self._columns = [(string(column.name), _value(column)) for column in schema.columns]

    def message(self, change: RowChange, ts: int, build_ms: int) -> bytes:
        _, old, new = change
        kind = long(0 if old is None else 2 if new is None else 1)
        return b"".join(
            (
                self._head,
                kind,
                long(ts),
                long(build_ms),
                self._middle,
                _NULL if new is None else self._map(new),
                _NULL if old is None else self._map(old),
            )
        )

    def _map(self, row: Values) -> bytes:
        parts = [_SOME, long(len(row))]
        for text, (name, write) in zip(row, self._columns, strict=True):
            parts += (name, _NULL if text is None else write(text))
        parts.append(b"\x00")
        return b"".join(parts)


def _value(column: Column) -> Callable[[str], bytes]:
    number = member_number(column)
    if number is not None:
        return lambda text: _LONG + long(int(number(text)))
    kind = column.type
    if kind.name == "bigint" and kind.unsigned:
        # Two's complement: the record holds a signed number.
        return lambda text: _UNSIGNED + long((int(text) ^ 1 << 63) - (1 << 63))
    if kind.name in INTEGERS or kind.name == "year":
        return lambda text: _LONG + long(int(text))
    if kind.name == "float":
        return lambda text: _FLOAT + struct.pack("<f", float(text))
    if kind.name == "double":
        return lambda text: _DOUBLE + struct.pack("<d", float(text))
    if is_binary(column):
        return lambda text: _BYTES + octets(bytes.fromhex(text))
    if kind.name == "timestamp":
        location = _TIMESTAMP + string("UTC")
        return lambda text: location + string(text)
    return lambda text: _STRING + string(text)
