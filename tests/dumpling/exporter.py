"""An exporter that writes what Dumpling documents, for rows given as texts of row images.

It shares nothing with the reader: escapes, numbers and names are formed as Dumpling's source does.
"""

import base64
import gzip
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.events import Column, ColumnType, Partitioning, TableSchema
from ticdc_assets.schema.types.mysql_type import describe

TSO = 470608231338082304
Row = Sequence[str | None]
Compression = Literal["", ".gz", ".snappy", ".zst"]

_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal"}
_ESCAPED_IN_SQL = {0: "0", 10: "n", 13: "r", 92: "\\", 39: "'", 34: '"', 26: "Z"}
_ESCAPED_IN_NAMES = re.compile(r"[\x00-\x1f%\"*./:<>?\\|]|-(?i:schema)")


@dataclass(frozen=True)
class ExportOptions:
    """What Dumpling is given."""

    format: Literal["sql", "csv", "parquet"] = "sql"
    dialect: Dialect = field(default_factory=Dialect)
    compression: Compression = ""
    rows_per_file: int = 1000
    complete_insert: bool = False
    statement_rows: int = 3
    # Types whose values the driver's version takes for texts.
    quoted_types: frozenset[str] = frozenset()


def escape_name(name: str) -> str:
    """Form a part of a file name."""
    return _ESCAPED_IN_NAMES.sub(lambda found: f"%{ord(found[0][0]):02X}{found[0][1:]}", name)


def to_bytes(text: str, column: Column) -> bytes:
    """Return what the server sends for a value in the convention of row images."""
    kind = describe(column.type).kind
    if kind == "binary":
        return base64.b64decode(text)
    if kind == "bit":
        return int(text).to_bytes(((column.type.length or 1) + 7) // 8, "big")
    return text.encode("utf-8", "surrogateescape")


def write_sql_value(text: str | None, column: Column, options: ExportOptions) -> bytes:
    if text is None:
        return b"NULL"
    value, kind = to_bytes(text, column), describe(column.type).kind
    if kind in ("binary", "bit"):
        return b"x'%b'" % value.hex().encode()
    if column.type.name in _NUMBERS - options.quoted_types:
        return value
    if not options.dialect.escape_backslash:
        return b"'%b'" % value.replace(b"'", b"''")
    escaped = b"".join(
        b"\\" + _ESCAPED_IN_SQL[byte].encode() if byte in _ESCAPED_IN_SQL else bytes([byte])
        for byte in value
    )
    return b"'%b'" % escaped


def write_csv_value(text: str | None, column: Column, options: ExportOptions) -> bytes:
    dialect = options.dialect
    if text is None:
        return dialect.null.encode()
    value, kind = to_bytes(text, column), describe(column.type).kind
    if column.type.name in _NUMBERS - options.quoted_types:
        return value
    if kind in ("binary", "bit") and dialect.binary == "hex":
        value = value.hex().encode()
    elif kind in ("binary", "bit") and dialect.binary == "base64":
        value = base64.b64encode(value)
    return quote_csv(value, dialect)


def quote_csv(value: bytes, dialect: Dialect) -> bytes:
    quote = dialect.quote.encode()
    if dialect.escape_backslash:
        special = (quote or dialect.separator.encode())[0]
        signs = {0: b"\\0", 10: b"\\n", 13: b"\\r", 92: b"\\\\"}
        signs[special] = b"\\" + bytes([special])
        value = b"".join(signs.get(byte, bytes([byte])) for byte in value)
    elif quote:
        value = value.replace(quote, quote * 2)
    return quote + value + quote


def format_sql(schema: TableSchema, rows: Iterable[Row], options: ExportOptions) -> bytes:
    columns = list_written(schema)
    prefix = f"INSERT INTO `{schema.table.replace('`', '``')}` ".encode()
    if options.complete_insert or len(columns) < len(schema.columns):
        names = ",".join(f"`{c.name.replace('`', '``')}`" for c in columns)
        prefix += f"({names}) ".encode()
    parts = [b"/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"]
    open_rows = 0
    for row in rows:
        values = (write_sql_value(t, c, options) for t, c in zip(row, columns, strict=True))
        if open_rows == options.statement_rows:
            parts.append(b";\n")
            open_rows = 0
        parts.append(b",\n" if open_rows else prefix + b"VALUES\n")
        parts.append(b"(" + b",".join(values) + b")")
        open_rows += 1
    return b"".join(parts) + (b";\n" if open_rows else b"")


def format_csv(schema: TableSchema, rows: Iterable[Row], options: ExportOptions) -> bytes:
    dialect, columns = options.dialect, list_written(schema)
    separator = dialect.separator.encode()
    terminator = (dialect.terminator or "\r\n").encode()
    lines = []
    if dialect.has_header:
        lines.append(separator.join(quote_csv(c.name.encode(), dialect) for c in columns))
    for row in rows:
        values = (write_csv_value(t, c, options) for t, c in zip(row, columns, strict=True))
        lines.append(separator.join(values))
    return b"".join(line + terminator for line in lines)


def format_parquet(schema: TableSchema, rows: Iterable[Row], options: ExportOptions) -> bytes:
    columns = list_written(schema)
    listed = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [
        pa.array([None if t is None else _to_parquet(t, c) for t in texts], _get_parquet_type(c))
        for c, texts in zip(columns, listed, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, names=[c.name for c in columns])
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", store_schema=False)
    return buffer.getvalue()


def _get_parquet_type(column: Column) -> pa.DataType:
    type = column.type
    kind = describe(type).kind
    if type.name in ("datetime", "timestamp"):
        return pa.timestamp("us")
    if type.name == "bigint" and type.unsigned:
        return pa.decimal128(20, 0)
    if type.name == "bigint" or (type.name == "int" and type.unsigned):
        return pa.int64()
    if kind in ("integer", "year"):
        return pa.int32()
    if kind == "float":
        return pa.float64()
    if kind == "decimal" and (type.length or 10) <= 38:
        return pa.decimal128(type.length or 10, type.decimals or 0)
    return pa.binary() if kind in ("binary", "bit", "vector") else pa.string()


def _to_parquet(text: str, column: Column) -> object:
    kind = _get_parquet_type(column)
    if pa.types.is_timestamp(kind):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # Dumpling writes NULL for a date that is none.
            return None
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    value = to_bytes(text, column)
    return value if pa.types.is_binary(kind) else value.decode()


def list_written(schema: TableSchema) -> list[Column]:
    """List the columns that Dumpling writes: with --include-generated-columns=stored."""
    return [column for column in schema.columns if column.generated != "virtual"]


def compress(content: bytes, compression: Compression) -> bytes:
    match compression:
        case ".gz":
            return gzip.compress(content, 1, mtime=0)
        case ".snappy":
            return bytes(cramjam.snappy.compress(content))
        case ".zst":
            return bytes(cramjam.zstd.compress(content))
    return content


FORMATTERS = {"sql": format_sql, "csv": format_csv, "parquet": format_parquet}


def format_metadata(tso: int = TSO) -> str:
    return (
        "Started dump at: 2026-11-21 02:26:00\n"
        f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {tso}\n\tGTID:\n\n"
        "Finished dump at: 2026-11-21 02:26:01\n"
    )


def format_type(type: ColumnType) -> str:
    """Format a type as SHOW CREATE TABLE prints it, whatever lengths a changefeed states."""
    text = type.name
    if type.elements is not None:
        members = ",".join("'" + e.replace("'", "''") + "'" for e in type.elements)
        text += f"({members})"
    elif type.name in ("datetime", "timestamp", "time"):
        text += f"({type.decimals})" if type.decimals else ""
    elif type.length is not None and _has_length(type):
        text += f"({type.length}{'' if type.decimals is None else f',{type.decimals}'})"
    text += " unsigned" * type.unsigned + " zerofill" * type.zerofill
    if type.charset not in (None, "binary"):
        text += f" CHARACTER SET {type.charset}"
        text += f" COLLATE {type.collation}" if type.collation else ""
    return text


def _has_length(type: ColumnType) -> bool:
    if type.name in ("float", "double"):
        return type.decimals is not None
    return not type.name.endswith(("text", "blob", "date", "json"))


def format_create_table(schema: TableSchema) -> str:
    """Format a table as SHOW CREATE TABLE prints it."""
    parts = []
    for column in schema.columns:
        text = f"  {_quote(column.name)} {format_type(column.type)}"
        if column.generated is not None:
            text += f" GENERATED ALWAYS AS (1) {column.generated.upper()}"
        text += _format_default(column)
        parts.append(text + ("" if column.nullable else " NOT NULL"))
    for index in schema.indexes:
        names = ",".join(map(_quote, index.columns))
        if index.primary:
            parts.append(f"  PRIMARY KEY ({names}) /*T![clustered_index] CLUSTERED */")
        elif index.unique:
            parts.append(f"  UNIQUE KEY {_quote(index.name)} ({names})")
    body = ",\n".join(parts)
    options = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    if schema.partitioning is not None:
        options += "\n" + format_partitioning(schema.partitioning)
    return f"CREATE TABLE {_quote(schema.table)} (\n{body}\n) {options};\n"


def _format_default(column: Column) -> str:
    if column.generated is not None:
        return ""
    if column.default is None:
        return " DEFAULT NULL" if column.nullable else ""
    if column.default_is_expression:
        return f" DEFAULT {column.default}"
    kind = describe(column.type).kind
    if kind in ("binary", "bit"):
        return ""
    return f" DEFAULT {_quote_text(column.default)}"


def _quote_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def format_partitioning(by: Partitioning) -> str:
    """Format partitions as SHOW CREATE TABLE prints them."""
    inside = by.expression if by.expression is not None else ",".join(map(_quote, by.columns))
    head = f"PARTITION BY {by.kind.upper()} ({inside})"
    if by.kind in ("hash", "key"):
        return f"{head} PARTITIONS {len(by.partitions)}"
    parts = []
    for partition in by.partitions:
        if partition.less_than is not None:
            bounds = ",".join(partition.less_than)
            value = f"LESS THAN ({bounds})"
        else:
            lists = [",".join(values) for values in partition.values or ()]
            many = by.kind == "list columns" and len(by.columns) > 1
            value = f"IN ({','.join(f'({one})' if many else one for one in lists)})"
        parts.append(f" PARTITION {_quote(partition.name)} VALUES {value}")
    return head + "\n(" + ",\n".join(parts) + ")"


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class Exporter:
    """Writes an export into a folder."""

    def __init__(self, folder: Path, options: ExportOptions | None = None) -> None:
        self.folder = folder
        self.options = ExportOptions() if options is None else options
        folder.mkdir(parents=True, exist_ok=True)

    def write(
        self,
        tables: Mapping[TableSchema, Sequence[Row]],
        creates: Mapping[str, str] | None = None,
        tso: int = TSO,
    ) -> None:
        """Write tables and, last, the metadata; `creates` has other CREATE TABLEs by name."""
        for schema, rows in tables.items():
            self.write_table(schema, rows, (creates or {}).get(f"{schema.database}.{schema.table}"))
        (self.folder / "metadata").write_text(format_metadata(tso))

    def write_table(
        self, schema: TableSchema, rows: Sequence[Row], create: str | None = None
    ) -> None:
        head = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
        database, table = escape_name(schema.database), escape_name(schema.table)
        options = self.options
        charset = "/*!40100 DEFAULT CHARACTER SET utf8mb4 */"
        text = f"{head}CREATE DATABASE {_quote(schema.database)} {charset};\n"
        self._write(f"{database}-schema-create.sql", text.encode())
        create = format_create_table(schema) if create is None else create
        self._write(f"{database}.{table}-schema.sql", (head + create).encode())
        for number, start in enumerate(range(0, len(rows), options.rows_per_file)):
            part = rows[start : start + options.rows_per_file]
            content = FORMATTERS[options.format](schema, part, options)
            name = f"{database}.{table}.{number:09d}.{options.format}"
            if options.format == "parquet":
                (self.folder / name).write_bytes(content)
            else:
                self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / (name + self.options.compression)
        path.write_bytes(compress(content, self.options.compression))
