"""The dialect of a storage sink's CSV files, and the dialects that do not state every value.

TiCDC quotes every text and doubles the quote character in it; numbers, booleans and NULL are bare.
Without a quote character it escapes, in texts only, backslashes, line breaks and whole delimiters;
NULL is the bare null string.  A dialect in which two different rows are written as the same bytes
cannot be read without guessing, so it is an error.
"""

import re
from dataclasses import dataclass
from typing import Literal

from ticdc_assets.changefeed.settings import Settings

BinaryEncoding = Literal["base64", "hex"]

_BINARY_ENCODINGS: tuple[BinaryEncoding, ...] = ("base64", "hex")
# The characters of what TiCDC writes bare: numbers and booleans.
_BARE = frozenset("0123456789+-.eE" + "true" + "false")
_LINE_BREAKS = frozenset("\r\n")
# A null string that some text is escaped to: a backslash escapes only itself, `r` and `n`, because
# the null string has no character of the delimiter.
_ESCAPED_TEXT = re.compile(r"(?:[^\\\r\n]|\\[\\rn])*")
_COMPLETE_ESCAPES = re.compile(r"(?:[^\\]|\\.)*", re.DOTALL)
_LOST = "may give two rows the same bytes, since {}; set {}, in the changefeed as well"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the CSV files of a storage sink are written."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    terminator: str = "\r\n"
    include_commit_ts: bool = False
    output_old_value: bool = False
    binary_encoding: BinaryEncoding = "base64"
    field_header: bool = False
    handle_key: bool = False


def read_dialect(settings: Settings) -> CsvDialect:
    """Read the dialect that the settings give."""
    return CsvDialect(
        delimiter=settings.raw_text("sink.csv.delimiter", ","),
        quote=settings.raw_text("sink.csv.quote", '"'),
        null=settings.raw_text("sink.csv.null", "\\N"),
        terminator=settings.text("sink.terminator", "\r\n"),
        include_commit_ts=settings.flag("sink.csv.include-commit-ts"),
        output_old_value=settings.flag("sink.csv.output-old-value"),
        binary_encoding=settings.one_of("sink.csv.binary-encoding-method", _BINARY_ENCODINGS),
        field_header=settings.flag("sink.csv.output-field-header"),
        handle_key=settings.flag("sink.csv.output-handle-key"),
    )


def find_fault(dialect: CsvDialect) -> tuple[str, str] | None:
    """Return the setting that TiCDC does not accept, or that makes rows ambiguous, and why."""
    return _find_invalid(dialect) or _find_ambiguous(dialect)


def _find_invalid(dialect: CsvDialect) -> tuple[str, str] | None:
    """Apply TiCDC's own rules.  Servers before 7.6 limit the delimiter differently, or not."""
    if not dialect.delimiter:
        return "delimiter", "must not be empty"
    if len(dialect.quote.encode()) > 1:
        return "quote", "must be one ASCII character or empty"
    for name, text in (("delimiter", dialect.delimiter), ("quote", dialect.quote)):
        if _LINE_BREAKS & set(text):
            return name, "must not contain a line break"
    if dialect.quote and dialect.quote in dialect.delimiter:
        return "delimiter", "must not contain the quote character"
    return None


def _find_ambiguous(dialect: CsvDialect) -> tuple[str, str] | None:
    delimiter, quote, null = dialect.delimiter, dialect.quote, dialect.null
    terminator = dialect.terminator or "\r\n"
    for name, text in (("delimiter", delimiter), ("terminator", terminator)):
        if set(text) <= _BARE:
            return name, _lost("numbers may contain it", "another one")
    if quote and (quote in _BARE or quote in terminator):
        return "quote", _lost("values or line ends may contain it", "another one")
    if set(delimiter) & set(terminator):
        return "delimiter", _lost("it has a character of sink.terminator", "another one")
    if set(null) & {*delimiter, *terminator, *quote}:
        reason = "it has a character of the delimiter, the terminator or the quote"
        return "null", _lost(reason, "another null string")
    if null in ("true", "false") or (null and set(null) <= _BARE):
        return "null", _lost("numbers may be written like it", "another null string")
    return None if quote else _find_ambiguous_unquoted(delimiter, null, terminator)


def _find_ambiguous_unquoted(delimiter: str, null: str, terminator: str) -> tuple[str, str] | None:
    another = "sink.csv.quote"
    if not _COMPLETE_ESCAPES.fullmatch(null):
        return "null", _lost("it escapes the delimiter after it", "\\N, or sink.csv.quote")
    if _ESCAPED_TEXT.fullmatch(null):
        return "null", _lost("a text may be equal to it", "\\N, or sink.csv.quote")
    if not _LINE_BREAKS & set(terminator):
        return "terminator", _lost("texts may contain it", another)
    if not delimiter.isascii() or set("\\rn") & set(delimiter):
        reason = "its escapes in texts may mean something else"
        return "delimiter", _lost(reason, another)
    if any(delimiter.startswith(delimiter[start:]) for start in range(1, len(delimiter))):
        # Of "a|" and "b" between "||" there remains "a|||b", as of "a" and "|b".
        return "delimiter", _lost("it begins as it ends, and so may a text beside it", another)
    return None


def _lost(why: str, remedy: str) -> str:
    return _LOST.format(why, remedy)
