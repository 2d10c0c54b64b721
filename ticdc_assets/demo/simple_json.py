"""The Simple protocol as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from ticdc_assets.demo.change import ChangedRow, Ddl, RowTexts, row_columns
from ticdc_assets.demo.column_type import FLOATS, TEXTS, is_unsigned, stated_length
from ticdc_assets.demo.go_json import compact, string
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import SentRow
from ticdc_assets.demo.topic import Record
from ticdc_assets.demo.wire import encode_base64, is_binary, make_member_numberer
from ticdc_assets.events import Column, Index, TableSchema
from ticdc_assets.events.table_schema import MADE_UP_KEY


class SimpleJson:
    """The codec of a topic."""

    batch = 1
    ddl_to_all = True

    def __init__(self) -> None:
        self._tables = PerTable(_SimpleTable)

    def rows(self, rows: Sequence[SentRow], build_ms: int) -> Record:
        (row,) = rows
        table = self._tables(row.change.table)
        return Record(None, table.message(row.change, row.ts, build_ms).encode())

    def ddl(self, ddl: Ddl, build_ms: int) -> Record:
        message: dict[str, Any] = {
            "version": 1,
            "type": ddl.kind.name,
            "sql": ddl.sql,
            "commitTs": ddl.ts,
            "buildTs": build_ms,
        }
        if ddl.stated is not None:
            message["tableSchema"] = table_schema(ddl.stated)
        if ddl.exchanged is not None:
            message["preTableSchema"] = table_schema(ddl.exchanged.before)
        return Record(None, compact(message).encode())

    def watermark(self, ts: int, build_ms: int) -> Record:
        message = {"version": 1, "type": "WATERMARK", "commitTs": ts, "buildTs": build_ms}
        return Record(None, compact(message).encode())

    def bootstrap(self, schema: TableSchema, build_ms: int) -> Record:
        message = {
            "version": 1,
            "type": "BOOTSTRAP",
            "commitTs": 0,
            "buildTs": build_ms,
            "tableSchema": table_schema(schema),
        }
        return Record(None, compact(message).encode())


def table_schema(schema: TableSchema) -> dict[str, Any]:
    """Return the `tableSchema` of a message, with keys in the server's order."""
    return {
        "schema": schema.database,
        "table": schema.table,
        "tableID": schema.table_id,
        "version": schema.version,
        "columns": [_column(column) for column in schema.columns],
        "indexes": indexes(schema),
    }


def indexes(schema: TableSchema) -> list[dict[str, Any]]:
    """Return all indexes; the primary key that has none comes last, or what TiDB takes for one."""
    nullable = {column.name: column.nullable for column in schema.columns}
    stated = list(schema.own_indexes)
    key = schema.effective_primary_key
    if key and not schema.primary_key:
        stated.append(Index(MADE_UP_KEY, key, unique=True, primary=True))
    stated.sort(key=lambda index: index.name == MADE_UP_KEY)
    return [
        {
            "name": index.name,
            "unique": index.unique,
            "primary": index.primary,
            "nullable": any(nullable[name] for name in index.columns),
            "columns": list(index.columns),
        }
        for index in stated
    ]


def _column(column: Column) -> dict[str, Any]:
    kind = column.type
    data_type: dict[str, Any] = {
        "mysqlType": kind.name,
        "charset": kind.charset,
        "collate": kind.collation,
    }
    if length := stated_length(kind):
        data_type["length"] = length
    if kind.decimals and kind.name not in FLOATS:
        data_type["decimal"] = kind.decimals
    if kind.elements is not None:
        data_type["elements"] = list(kind.elements)
    if is_unsigned(kind):
        data_type["unsigned"] = True
    if kind.zerofill or kind.name == "year":
        data_type["zerofill"] = True
    default: object = column.default
    if kind.name == "bit" and column.default is not None:
        default = int(column.default)
    return {
        "name": column.name,
        "dataType": data_type,
        "nullable": column.nullable,
        "default": default,
    }


class _SimpleTable:
    def __init__(self, schema: TableSchema) -> None:
        # Kept alive: callers refer to the schema by its identity.
        self.schema = schema
        self._head = (
            f'{{"version":1,"database":{string(schema.database)},'
            f'"table":{string(schema.table)},"tableID":'
        )
        # Go sorts the keys of a map.
        order = sorted(enumerate(row_columns(schema)), key=lambda place: place[1].name.encode())
        self._columns = [
            (n, string(column.name) + ":", _make_value_writer(column)) for n, column in order
        ]

    def message(self, change: ChangedRow, ts: int, build_ms: int) -> str:
        _, old, new, partition = change
        op = "INSERT" if old is None else "DELETE" if new is None else "UPDATE"
        data = f',"data":{self._object(new)}' if new is not None else ""
        before = f',"old":{self._object(old)}' if old is not None else ""
        return (
            f'{self._head}{partition or self.schema.table_id},"type":"{op}",'
            f'"commitTs":{ts},"buildTs":{build_ms},'
            f'"schemaVersion":{self.schema.version}{data}{before}}}'
        )

    def _object(self, row: RowTexts) -> str:
        cells = [
            name + ("null" if (text := row[place]) is None else write(text))
            for place, name, write in self._columns
        ]
        return "{" + ",".join(cells) + "}"


def _make_value_writer(column: Column) -> Callable[[str], str]:
    number = make_member_numberer(column)
    if number is not None:
        return lambda text: f'"{number(text)}"'
    if is_binary(column):
        return lambda text: f'"{encode_base64(text)}"'
    if column.type.name == "timestamp":
        return lambda text: f'{{"location":"UTC","value":"{text}"}}'
    if column.type.name in TEXTS or column.type.name == "json":
        return string
    return lambda text: f'"{text}"'
