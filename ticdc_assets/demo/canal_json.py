"""Canal-JSON with the TiDB extension, to a topic or as lines of a storage sink."""

from collections.abc import Callable, Sequence

from ticdc_assets.demo.change import ChangedRow, Ddl, RowTexts, row_columns
from ticdc_assets.demo.column_type import INTEGERS, TEXTS
from ticdc_assets.demo.go_json import easy_string
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import SentRow
from ticdc_assets.demo.topic import Record
from ticdc_assets.demo.wire import is_binary, make_member_numberer
from ticdc_assets.events import Column, TableSchema

# Codes of java.sql.Types.
_SQL_TYPES = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "bit": -7, "float": 7,
    "double": 8, "decimal": 3, "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "char": 1,
    "varchar": 12, "enum": 4, "set": -7, "year": 12, "json": 12, "vector": 12,
}  # fmt: skip
_TEXT_CODE, _BINARY_CODE = 2005, 2004
# Unsigned values above the signed range have the code of a wider type.
_PROMOTED = {
    "tinyint": ((1 << 7) - 1, 5),
    "smallint": ((1 << 15) - 1, 4),
    "int": ((1 << 31) - 1, -5),
    "bigint": ((1 << 63) - 1, 3),
}
_WITH_SIGN = INTEGERS | {"float", "double", "decimal"}


class CanalJson:
    """The codec of a topic."""

    batch = 1
    ddl_to_all = False

    def __init__(self) -> None:
        self._tables = PerTable(_CanalTable)

    def rows(self, rows: Sequence[SentRow], build_ms: int) -> Record:
        (row,) = rows
        table = self._tables(row.change.table)
        return Record(None, table.message(row.change, row.ts, build_ms).encode())

    def ddl(self, ddl: Ddl, build_ms: int) -> Record:
        kind = "QUERY" if ddl.exchanged is not None else ddl.kind.name
        head = _head(ddl.database, ddl.named, "null", kind, is_ddl=True)
        tail = f'"data":null,"old":null,"_tidb":{{"commitTs":{ddl.ts}}}}}'
        text = (
            f'{head}"es":{ddl.ts >> 18},"ts":{build_ms},"sql":{easy_string(ddl.sql)},'
            f'"sqlType":null,"mysqlType":null,{tail}'
        )
        return Record(None, text.encode())

    def watermark(self, ts: int, build_ms: int) -> Record:
        head = _head("", "", "null", "TIDB_WATERMARK", is_ddl=False)
        text = (
            f'{head}"es":{ts >> 18},"ts":{build_ms},"sql":"","sqlType":null,"mysqlType":null,'
            f'"data":null,"old":null,"_tidb":{{"watermarkTs":{ts}}}}}'
        )
        return Record(None, text.encode())

    def bootstrap(self, schema: TableSchema, build_ms: int) -> None:
        return None


class CanalLines:
    """The lines of a storage sink, of one table version."""

    header = ""

    def __init__(self, schema: TableSchema) -> None:
        self._table = _CanalTable(schema)

    def __call__(self, change: ChangedRow, commit_ts: int, build_ms: int = 0) -> str:
        return self._table.message(change, commit_ts, build_ms) + "\r\n"


class _CanalTable:
    def __init__(self, schema: TableSchema) -> None:
        # Kept alive: callers refer to the schema by its identity.
        self.schema = schema
        keys = "[" + ",".join(map(easy_string, schema.primary_key)) + "]"
        self._heads = {
            op: _head(schema.database, schema.table, keys, op, is_ddl=False)
            for op in ("INSERT", "UPDATE", "DELETE")
        }
        columns = row_columns(schema)
        self._columns = [(easy_string(c.name) + ":", _make_value_writer(c)) for c in columns]
        self._codes = [_sql_type(column) for column in columns]
        self._promoted = [
            (place, *_PROMOTED[column.type.name])
            for place, column in enumerate(columns)
            if column.type.unsigned and column.type.name in _PROMOTED
        ]
        self._sql_types = self._listed(self._codes)
        names = ",".join(
            f"{name}{easy_string(_type_name(column))}"
            for (name, _), column in zip(self._columns, columns, strict=True)
        )
        self._middle = f'"mysqlType":{{{names}}},"old":'

    def message(self, change: ChangedRow, ts: int, build_ms: int) -> str:
        _, old, new, _ = change
        row = new or old or ()
        op = "INSERT" if old is None else "DELETE" if new is None else "UPDATE"
        before = f"[{self._object(old)}]" if old is not None and new is not None else "null"
        return (
            f'{self._heads[op]}"es":{ts >> 18},"ts":{build_ms},"sql":"",'
            f'"sqlType":{self._types_of(row)},{self._middle}{before},'
            f'"data":[{self._object(row)}],"_tidb":{{"commitTs":{ts}}}}}'
        )

    def _object(self, row: RowTexts) -> str:
        cells = [
            name + ("null" if text is None else write(text))
            for text, (name, write) in zip(row, self._columns, strict=True)
        ]
        return "{" + ",".join(cells) + "}"

    def _types_of(self, row: RowTexts) -> str:
        codes = self._codes
        for place, most, code in self._promoted:
            text = row[place]
            if text is not None and int(text) > most:
                codes = [*codes[:place], code, *codes[place + 1 :]]
        return self._sql_types if codes is self._codes else self._listed(codes)

    def _listed(self, codes: Sequence[int]) -> str:
        pairs = zip(self._columns, codes, strict=True)
        return "{" + ",".join(f"{name}{code}" for (name, _), code in pairs) + "}"


def _head(database: str, table: str, keys: str, op: str, *, is_ddl: bool) -> str:
    names = f'"database":{easy_string(database)},"table":{easy_string(table)}'
    flag = "true" if is_ddl else "false"
    return f'{{"id":0,{names},"pkNames":{keys},"isDdl":{flag},"type":"{op}",'


def _make_value_writer(column: Column) -> Callable[[str], str]:
    number = make_member_numberer(column)
    if number is not None:
        return lambda text: f'"{number(text)}"'
    if is_binary(column):
        # Each byte becomes the code point of the same number.
        return lambda text: easy_string(bytes.fromhex(text).decode("latin-1"))
    if column.type.name in TEXTS or column.type.name == "json":
        return easy_string
    return lambda text: f'"{text}"'


def _sql_type(column: Column) -> int:
    name = column.type.name
    if is_binary(column):
        return _BINARY_CODE
    return _TEXT_CODE if name.endswith("text") else _SQL_TYPES[name]


def _type_name(column: Column) -> str:
    kind = column.type
    unsigned = kind.unsigned and kind.name in _WITH_SIGN
    return kind.name + " unsigned" * unsigned + " zerofill" * (kind.zerofill and unsigned)
