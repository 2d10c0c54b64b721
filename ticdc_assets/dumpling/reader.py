"""Read a data file: its head, which says what the rest is, and its rows."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from ticdc_assets.dumpling.columns import FileColumns
from ticdc_assets.dumpling.csv_reader import CsvReader
from ticdc_assets.dumpling.csv_scanner import OTHER_DIALECT, CsvScanner
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.parquet_file import ParquetReader
from ticdc_assets.dumpling.path import ExportFile
from ticdc_assets.dumpling.rows import BatchBuilder, get_kind, list_stored
from ticdc_assets.dumpling.source import Source, Window, open_window
from ticdc_assets.dumpling.sql_reader import SqlReader, apply_setting
from ticdc_assets.dumpling.sql_scanner import read_statement
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name

_NULL_TWINS = ("text", "json", "binary")


class Range(NamedTuple):
    """A part of a file, by the offsets at which its lines start; `end` None is the file's end."""

    start: int = 0
    end: int | None = None


WHOLE = Range()


class Head(NamedTuple):
    """What the first bytes of a file say: its dialect, its columns, and where its rows start."""

    dialect: Dialect
    places: list[int | None]
    start: int = 0


def can_be_cut(file: ExportFile, dialect: Dialect) -> bool:
    """Whether a line break in a file always ends a row, so that its parts can be read apart."""
    return file.format != "parquet" and file.compression == "none" and dialect.escape_backslash


def read_head(source: Source, file: ExportFile, schema: TableSchema, dialect: Dialect) -> Head:
    """Read the head of a file; raise `MalformedMessage` if the table cannot be read from it."""
    if file.format == "parquet":
        ParquetReader(source, schema, dialect)
        head = Head(dialect, [])
    else:
        window = open_window(source, file.compression)
        if not window.grow():
            raise MalformedMessage(window.problem or "it is empty")
        read = _read_sql_head if file.format == "sql" else _read_csv_head
        head = read(window, schema, dialect)
    stamped = [c.name for c in list_stored(schema) if c.type.name == "timestamp"]
    if stamped and head.dialect.time_zone is None:
        raise MalformedMessage(
            f"nothing states the time zone of column {stamped[0]!r}: give --time-zone, that of the "
            "server, or of Dumpling's --params time_zone"
        )
    return head


def _read_sql_head(window: Window, schema: TableSchema, dialect: Dialect) -> Head:
    columns = FileColumns(schema)
    position = 0
    while True:
        statement = read_statement(window.data, position, window.has_ended)
        if statement is None or position >= len(window.data):
            if not window.grow() and window.has_ended and position >= len(window.data):
                return Head(dialect, columns.assume())
            continue
        if statement.problem is not None:
            raise MalformedMessage(f"{window.problem or statement.problem}, at byte {position}")
        dialect = apply_setting(statement, dialect)
        if statement.is_insert:
            names = statement.names
            return Head(dialect, columns.assume() if names is None else columns.find(names))
        position = statement.end


def _read_csv_head(window: Window, schema: TableSchema, dialect: Dialect) -> Head:
    columns = FileColumns(schema)
    if dialect.confuses_null:
        for column in list_stored(schema):
            if column.nullable and get_kind(column) in _NULL_TWINS:
                raise MalformedMessage(
                    f"without quotes, a text in {column.name!r} may look like NULL: export with a "
                    "--csv-delimiter, or with --escape-backslash"
                )
    dialect, values, end = _read_first_row(window, dialect)
    names = [(value or b"").decode("utf-8", "replace") for value in values]
    if not dialect.has_header:
        stored = [fold_name(column.name) for column in list_stored(schema)]
        plain = [fold_name(c.name) for c in schema.columns if c.generated is None]
        if [fold_name(name) for name in names] in (plain, stored):
            raise MalformedMessage("its first row has the names of the columns: omit --no-header")
        return Head(dialect, columns.assume(len(names)))
    if not names or any(schema.column(name) is None for name in names):
        raise MalformedMessage(f"its first row is no header: give --no-header, or {OTHER_DIALECT}")
    return Head(dialect, columns.find(names), end)


def _read_first_row(window: Window, dialect: Dialect) -> tuple[Dialect, list[bytes | None], int]:
    """Read the first row of a file, and where it ends; that decides the terminator."""
    given = dialect.terminator
    choices = [replace(dialect, terminator=t) for t in ((given,) if given else ("\r\n", "\n"))]
    while True:
        for choice in choices:
            first = CsvScanner(choice).read(window.data, 0, window.has_ended)
            if first is not None and first.problem is None:
                return choice, first.values, first.end
        if window.has_ended:
            return choices[0], [], 0
        window.grow()


def read_rows(
    source: Source, file: ExportFile, schema: TableSchema, dialect: Dialect, part: Range = WHOLE
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file, or of a part of it; what is no row has its `problem`."""
    try:
        head = read_head(source, file, schema, dialect)
        source.seek(0)
        if file.format == "parquet":
            reader: ParquetReader | CsvReader | SqlReader = ParquetReader(source, schema, dialect)
        else:
            reader = _open(source, file, schema, head, part)
    except MalformedMessage as error:
        if part.start == 0:
            builder = BatchBuilder(len(list_stored(schema)))
            builder.add_problem(0, f"the file cannot be read: {error.reason}", b"")
            yield from builder.flush()
        return
    yield from reader.batches()


def _open(
    source: Source, file: ExportFile, schema: TableSchema, head: Head, part: Range
) -> CsvReader | SqlReader:
    window = open_window(source, file.compression, part.start, part.end)
    if file.format == "sql":
        return SqlReader(
            window, head.places, schema, head.dialect, in_rows=_starts_in_rows(window, part)
        )
    while part.start == 0 and len(window.data) < head.start and window.grow():
        pass
    if part.start == 0:
        window.drop(head.start)
    return CsvReader(window, head.places, schema, head.dialect)


def _starts_in_rows(window: Window, part: Range) -> bool:
    if part.start == 0:
        return False
    if not window.data:
        window.grow()
    return window.data.startswith(b"(")
