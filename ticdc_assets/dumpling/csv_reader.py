"""Read CSV files of Dumpling: block by block, and row by row where a block is not ordinary."""

from collections.abc import Iterator

import pyarrow as pa

from ticdc_assets.dumpling.columnar import ColumnarReader, Disproof, Notation
from ticdc_assets.dumpling.csv_scanner import ESCAPES, CsvScanner
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.rows import (
    BatchBuilder,
    Converter,
    RowAdder,
    ScannedRow,
    list_stored,
)
from ticdc_assets.dumpling.source import Window
from ticdc_assets.events import TableSchema

# Of these kinds Dumpling writes values without quotes; of all others, only NULL has none.
_BARE = frozenset({"integer", "float", "decimal"})


class CsvReader:
    """Reads the rows of a file, or of a range of it, as batches."""

    def __init__(
        self, window: Window, places: list[int | None], schema: TableSchema, dialect: Dialect
    ) -> None:
        stored = list_stored(schema)
        self._window = window
        self._scanner = CsvScanner(dialect)
        converters = [Converter(c, dialect, encoded=True) for c in stored]
        self._builder = BatchBuilder(len(stored))
        self._adder = RowAdder(self._builder, places, converters, _BARE)
        # By places in a row: the columns whose values have quotes.
        self._quoted: list[str | None] = [
            None
            if place is None or not dialect.quote or converters[place].kind in _BARE
            else stored[place].name
            for place in places
        ]
        quote, separator = dialect.quote.encode(), dialect.separator.encode()
        self._columnar: ColumnarReader | None = None
        if len(quote) == len(separator) == 1 and (quote + separator).isascii() and places:
            escapes = {k: v for k, v in ESCAPES.items() if k != b"\\"}
            notation = Notation(
                opening=b"",
                separator=separator,
                closing=b"",
                joint=self._scanner.terminator,
                quote=quote,
                null=dialect.null.encode(),
                escapes=escapes if dialect.escape_backslash else None,
                is_sql=False,
            )
            self._columnar = ColumnarReader(notation, places, converters)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        window = self._window
        while window.data or window.grow():
            end = self._find_end()
            batch = self._read_block(end) if end else None
            if batch is not None:
                yield batch
                window.drop(end)
                continue
            position = 0
            while position < len(window.data):
                record = self._scanner.read(window.data, position, window.has_ended)
                if record is None:
                    break
                raw = window.data[position : record.end]
                self._adder.add(self._check(record), window.offset + position, raw)
                position = record.end
                if self._builder.is_full:
                    yield from self._builder.flush()
            window.drop(position)
            yield from self._builder.flush()
            if window.data:
                window.grow()
        if window.problem is not None:
            self._builder.add_problem(window.offset, window.problem, b"")
        yield from self._builder.flush()

    def _check(self, record: ScannedRow) -> ScannedRow:
        """Return a row, with a problem if a value that is not NULL lacks its quotes."""
        for value, quoted, name in zip(record.values, record.quoted, self._quoted, strict=False):
            if name is not None and value is not None and not quoted:
                reason = (
                    f"the value of {name!r} is neither in quotes nor NULL: is the export written"
                    " with another --csv-null-value?"
                )
                return record._replace(problem=reason)
        return record

    def _find_end(self) -> int:
        """Return the end of the last whole row in the window, as far as quotes tell; or 0."""
        data, terminator = self._window.data, self._scanner.terminator
        end = data.rfind(terminator) + len(terminator)
        if self._columnar is None or end < len(terminator):
            return 0
        notation = self._columnar.notation
        if notation.escapes is None:
            quotes = data.count(notation.quote, 0, end)
            while quotes % 2:
                # The terminator is in a text.
                before = data.rfind(terminator, 0, end - len(terminator))
                if before < 0:
                    return 0
                before += len(terminator)
                quotes -= data.count(notation.quote, before, end)
                end = before
        return end

    def _read_block(self, end: int) -> pa.RecordBatch | None:
        if self._columnar is None:
            return None
        try:
            return self._columnar.read(
                self._window.data[:end], self._window.offset, self._adder.quoted
            )
        except Disproof:
            return None
