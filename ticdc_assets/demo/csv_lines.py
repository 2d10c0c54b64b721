"""CSV lines of a storage sink, in any dialect."""

from base64 import b64encode
from collections.abc import Callable

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.demo.change import ChangedRow, RowTexts, row_columns
from ticdc_assets.demo.column_type import BINARY, FLOATS, INTEGERS
from ticdc_assets.demo.number import exponent_form
from ticdc_assets.events import TableSchema

_BARE = INTEGERS | {"year", "bit"}


class CsvLines:
    """Writes the rows of one table version."""

    def __init__(self, schema: TableSchema, dialect: CsvDialect) -> None:
        self._dialect = dialect
        columns = row_columns(schema)
        self._columns = [_make_column_writer(column.type.name, dialect) for column in columns]
        quote = _make_quoter(dialect)
        names = dialect.delimiter.join((quote(schema.table), quote(schema.database)))
        self._heads = {op: quote(op) + dialect.delimiter + names for op in "IUD"}
        self.header = self._header(schema) if dialect.field_header else ""

    def __call__(self, change: ChangedRow, commit_ts: int, build_ms: int = 0) -> str:
        """Return the line of a row; an update with old values is two lines."""
        _, old, new, _ = change
        if old is None:
            assert new is not None
            return self._line("I", commit_ts, "false", new)
        if new is None:
            return self._line("D", commit_ts, "false", old)
        if not self._dialect.output_old_value:
            return self._line("U", commit_ts, "false", new)
        return self._line("D", commit_ts, "true", old) + self._line("I", commit_ts, "true", new)

    def _line(self, op: str, commit_ts: int, is_update: str, row: RowTexts) -> str:
        dialect = self._dialect
        cells = [self._heads[op]]
        if dialect.include_commit_ts:
            cells.append(str(commit_ts))
        if dialect.output_old_value:
            cells.append(is_update)
        null = dialect.null
        for text, write in zip(row, self._columns, strict=True):
            cells.append(null if text is None else text if write is None else write(text))
        return dialect.delimiter.join(cells) + dialect.terminator

    def _header(self, schema: TableSchema) -> str:
        names = ["operation", "table", "schema"]
        names += ["commit-ts"] * self._dialect.include_commit_ts
        names += ["is-update"] * self._dialect.output_old_value
        cells = [f"ticdc-meta${name}" for name in names]
        cells += [column.name for column in row_columns(schema)]
        return self._dialect.delimiter.join(cells) + self._dialect.terminator


def _make_quoter(dialect: CsvDialect) -> Callable[[str], str]:
    quote = dialect.quote
    if quote:
        doubled = quote * 2

        def quoted(text: str) -> str:
            if quote in text:
                text = text.replace(quote, doubled)
            return f"{quote}{text}{quote}"

        return quoted
    whole = "".join("\\" + char for char in dialect.delimiter)

    def escaped(text: str) -> str:
        text = text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
        return text.replace(dialect.delimiter, whole)

    return escaped


def _make_column_writer(name: str, dialect: CsvDialect) -> Callable[[str], str] | None:
    """Return how values of a type are written; None if unchanged."""
    if name in _BARE:
        return None
    if name in FLOATS:
        return exponent_form
    quote = _make_quoter(dialect)
    if name not in BINARY:
        return quote
    if dialect.binary_encoding == "hex":
        return quote
    return lambda text: quote(b64encode(bytes.fromhex(text)).decode("ascii"))
