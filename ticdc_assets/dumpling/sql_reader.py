"""Read SQL files of Dumpling: block by block, and row by row where a block is not ordinary."""

import re
from collections.abc import Iterator

import pyarrow as pa
from msgspec.structs import replace

from ticdc_assets.dumpling.columnar import ColumnarReader, Disproof, Notation
from ticdc_assets.dumpling.columns import FileColumns
from ticdc_assets.dumpling.dialect import Dialect, find_zone
from ticdc_assets.dumpling.rows import BatchBuilder, Converter, RowAdder, list_stored
from ticdc_assets.dumpling.source import Window
from ticdc_assets.dumpling.sql_scanner import (
    ESCAPES,
    RowScanner,
    Statement,
    read_statement,
)
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import TableSchema

# Of these kinds Dumpling writes values without quotes.
_BARE = frozenset({"integer", "float", "decimal", "binary", "bit"})
_BLANKS = re.compile(rb"\s*+")
# Fewer bytes are read faster one row after the other.
LEAST_BLOCK = 4096
_END_OF_STATEMENT, _END_OF_ROW = b");\n", b"),\n"

# A place in the window, and the rows that were read up to it.
Step = tuple[int, pa.RecordBatch | None]


class SqlReader:
    """Reads the rows of a file, or of a range of it, as batches."""

    # Parameters: a file, and what its head says.
    def __init__(
        self,
        window: Window,
        places: list[int | None],
        schema: TableSchema,
        dialect: Dialect,
        *,
        in_rows: bool,
    ) -> None:
        """`in_rows`: the range starts within an INSERT statement."""
        self._window = window
        self._schema = schema
        self._dialect = dialect
        self._scanner = RowScanner(dialect)
        self._builder = BatchBuilder(len(list_stored(schema)))
        # Where the reader is: outside of rows, before a row, or behind one.
        self._place = "before" if in_rows else "outside"
        # Up to this offset, rows are read one by one.
        self._scanned_until = 0
        self._prepared_for: tuple[list[int | None], Dialect] | None = None
        self._prepare(places)

    def _prepare(self, places: list[int | None]) -> None:
        """Get ready for rows with these columns."""
        if (places, self._dialect) == self._prepared_for:
            return
        self._prepared_for = (places, self._dialect)
        stored = list_stored(self._schema)
        converters = [Converter(c, self._dialect, encoded=False) for c in stored]
        self._adder = RowAdder(self._builder, places, converters, _BARE)
        letters = b"0nrZtb"
        escapes = {letter: ESCAPES[letter] for n in letters if (letter := bytes([n]))}
        escapes[b'"'] = b'"'
        notation = Notation(
            opening=b"(",
            separator=b",",
            closing=b")",
            joint=b",\n",
            quote=b"'",
            null=b"NULL",
            escapes=escapes if self._dialect.escape_backslash else None,
            is_sql=True,
        )
        self._columnar = ColumnarReader(notation, places, converters)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        window, builder = self._window, self._builder
        position = 0
        while True:
            step = self._step(position)
            if step is not None:
                position, batch = step
                if batch is not None:
                    yield from builder.flush()
                    yield batch
                elif builder.is_full:
                    yield from builder.flush()
                continue
            window.drop(position)
            position = 0
            if window.has_ended:
                break
            window.grow()
        problem = window.problem
        if problem is None and self._place != "outside" and not window.is_cut:
            problem = "the file ends in an INSERT statement"
        if problem is not None:
            builder.add_problem(window.offset, problem, b"")
        yield from builder.flush()

    def _step(self, position: int) -> Step | None:
        """Read a block of rows, a row, or what is between them; None if more data is needed."""
        data = self._window.data
        blanks = _BLANKS.match(data, position)
        position = blanks.end() if blanks else position
        if position == len(data):
            return None
        sign = data[position : position + 1]
        if self._place == "before" and sign == b"(":
            return self._read_block(position) or self._read_row(position)
        if self._place == "behind" and sign in (b",", b";"):
            self._place = "before" if sign == b"," else "outside"
            return position + 1, None
        self._place = "outside"
        return self._read_statement(position)

    def _read_block(self, position: int) -> Step | None:
        window = self._window
        if window.offset + position < self._scanned_until:
            return None
        end = window.data.find(_END_OF_STATEMENT, position)
        if end < 0:
            end = window.data.rfind(_END_OF_ROW, position)
        if end - position < LEAST_BLOCK:
            self._scanned_until = window.offset + (len(window.data) if end < 0 else end)
            return None
        block = window.data[position : end + 1]
        try:
            batch = self._columnar.read(block, window.offset + position, self._adder.quoted)
        except Disproof:
            self._scanned_until = window.offset + end
            return None
        self._place = "behind"
        return end + 1, batch

    def _read_row(self, position: int) -> Step | None:
        window = self._window
        row = self._scanner.read(window.data, position, window.has_ended)
        if row is None:
            return None
        self._adder.add(row, window.offset + position, window.data[position : row.end])
        if row.problem is None:
            self._place = "behind"
        else:
            # The next row, or the end of the statement or of the file, follows.
            next_sign = window.data[row.end : row.end + 1]
            self._place = {b"\n": "before", b";": "behind"}.get(next_sign, "outside")
        return row.end, None

    def _read_statement(self, position: int) -> Step | None:
        window = self._window
        statement = read_statement(window.data, position, window.has_ended)
        if statement is None:
            return None
        problem = statement.problem
        try:
            dialect = apply_setting(statement, self._dialect)
            if statement.is_insert:
                columns = FileColumns(self._schema)
                names = statement.names
                self._dialect = dialect
                self._prepare(columns.assume() if names is None else columns.find(names))
                self._place = "before"
            self._dialect = dialect
        except MalformedMessage as error:
            problem = error.reason
        if problem is not None:
            raw = window.data[position : statement.end]
            self._builder.add_problem(window.offset + position, problem, raw)
        return statement.end, None


def apply_setting(statement: Statement, dialect: Dialect) -> Dialect:
    """Return the dialect behind a SET statement."""
    if statement.time_zone is None:
        return dialect
    return replace(dialect, time_zone=find_zone(statement.time_zone))
