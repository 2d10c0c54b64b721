"""The Simple protocol as Avro: one datum per record, written by fastavro.

Rows name the branch of every value: fastavro would otherwise try them one by one.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import fastavro

from ticdc_assets.demo.change import ChangedRow, Ddl, RowTexts, row_columns
from ticdc_assets.demo.column_type import FLOATS, INTEGERS, bit_default, is_unsigned, stated_length
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import SentRow
from ticdc_assets.demo.simple_json import indexes
from ticdc_assets.demo.topic import Record
from ticdc_assets.demo.wire import is_binary, make_member_numberer
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.protocols.simple.avro_schema import SCHEMA, type_name

_MESSAGE = type_name("Message")
_WITH_SIGN = INTEGERS | FLOATS | {"bit", "year", "decimal"}

# A branch of a union, and its value.
Branch = tuple[str, object]


def _write(kind: str, payload_type: str, payload: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    message = {"type": kind, "payload": (type_name(payload_type), {"version": 1, **payload})}
    fastavro.schemaless_writer(out, SCHEMA, (_MESSAGE, message))
    return out.getvalue()


class SimpleAvro:
    """The codec of a topic."""

    batch = 1
    ddl_to_all = True

    def __init__(self) -> None:
        self._tables = PerTable(_Table)

    def rows(self, rows: Sequence[SentRow], build_ms: int) -> Record:
        (row,) = rows
        table = self._tables(row.change.table)
        return Record(None, table.message(row.change, row.ts, build_ms))

    def ddl(self, ddl: Ddl, build_ms: int) -> Record:
        other = ddl.exchanged
        payload = {
            "type": ddl.kind.name,
            "sql": ddl.sql,
            "commitTs": ddl.ts,
            "buildTs": build_ms,
            "tableSchema": None if ddl.stated is None else table_schema(ddl.stated),
            "preTableSchema": None if other is None else table_schema(other.before),
        }
        return Record(None, _write("DDL", "DDL", payload))

    def watermark(self, ts: int, build_ms: int) -> Record:
        return Record(None, _write("WATERMARK", "Watermark", {"commitTs": ts, "buildTs": build_ms}))

    def bootstrap(self, schema: TableSchema, build_ms: int) -> Record:
        payload = {"buildTs": build_ms, "tableSchema": table_schema(schema)}
        return Record(None, _write("BOOTSTRAP", "Bootstrap", payload))


def table_schema(schema: TableSchema) -> dict[str, Any]:
    """Return the record of a table's schema."""
    return {
        "database": schema.database,
        "table": schema.table,
        "tableID": schema.table_id or 0,
        "version": schema.version or 0,
        "columns": [_column(column) for column in schema.columns],
        "indexes": indexes(schema),
    }


def _column(column: Column) -> dict[str, Any]:
    kind = column.type
    has_sign = kind.name in _WITH_SIGN
    default = column.default
    if default is not None and kind.name == "bit":
        # TiCDC writes any bytes; fastavro writes those that are text.
        default = bit_default(default).decode()
    return {
        "name": column.name,
        "dataType": {
            "mysqlType": kind.name,
            "charset": kind.charset or "",
            "collate": kind.collation or "",
            "length": stated_length(kind) or 0,
            "decimal": kind.decimals or 0 if kind.name in ("decimal", "timestamp") else None,
            "elements": None if kind.elements is None else list(kind.elements),
            "unsigned": is_unsigned(kind) if has_sign else None,
            "zerofill": kind.zerofill or kind.name == "year" if has_sign else None,
        },
        "nullable": column.nullable,
        "default": default,
    }


class _Table:
    def __init__(self, schema: TableSchema) -> None:
        # Kept alive: callers refer to the schema by its identity.
        self._schema = schema
        self._columns = [(column.name, _choose_branch(column)) for column in row_columns(schema)]

    def message(self, change: ChangedRow, ts: int, build_ms: int) -> bytes:
        _, old, new, partition = change
        schema = self._schema
        payload = {
            "database": schema.database,
            "table": schema.table,
            "tableID": partition or schema.table_id or 0,
            "type": "INSERT" if old is None else "DELETE" if new is None else "UPDATE",
            "commitTs": ts,
            "buildTs": build_ms,
            "schemaVersion": schema.version or 0,
            "claimCheckLocation": None,
            "handleKeyOnly": None,
            "checksum": None,
            "data": None if new is None else self._map(new),
            "old": None if old is None else self._map(old),
        }
        return _write("DML", "DML", payload)

    def _map(self, row: RowTexts) -> dict[str, Branch | None]:
        return {
            name: None if text is None else branch(text)
            for text, (name, branch) in zip(row, self._columns, strict=True)
        }


def _choose_branch(column: Column) -> Callable[[str], Branch]:
    """Return how a column's text becomes the branch of an Avro value."""
    number = make_member_numberer(column)
    if number is not None:
        return lambda text: ("long", int(number(text)))
    kind = column.type
    if kind.name == "bigint" and kind.unsigned:
        # Two's complement: the record holds a signed number.
        unsigned = type_name("UnsignedBigint")
        return lambda text: (unsigned, {"value": (int(text) ^ 1 << 63) - (1 << 63)})
    if kind.name in INTEGERS or kind.name == "year":
        return lambda text: ("long", int(text))
    if kind.name in FLOATS:
        return lambda text: (kind.name, float(text))
    if is_binary(column):
        return lambda text: ("bytes", bytes.fromhex(text))
    if kind.name == "timestamp":
        timestamp = type_name("Timestamp")
        return lambda text: (timestamp, {"location": "UTC", "value": text})
    return lambda text: ("string", text)
