"""The notation of Dumpling's CSV files: bytes to records.

Texts are quoted, unless Dumpling got an empty delimiter; numbers and NULL are not.  With backslash
escapes, NUL, CR, LF, the backslash and the quote's first character are escaped (without quotes: the
separator's); without, the quote is doubled.
"""

import re

from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.dumpling.rows import ScannedRow

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
ESCAPES = {b"0": b"\0", b"r": b"\r", b"n": b"\n", b"\\": b"\\"}
OTHER_DIALECT = "is it written with other --csv options or --escape-backslash?"


class CsvScanner:
    """Splits data of one dialect into records: the specification of the notation."""

    def __init__(self, dialect: Dialect) -> None:
        self.terminator = (dialect.terminator or "\r\n").encode()
        self._null = dialect.null.encode()
        self._quote = dialect.quote.encode()
        self._escapes: dict[bytes, bytes] | None = None
        if dialect.escape_backslash:
            special = (self._quote or dialect.separator.encode())[:1]
            self._escapes = {**ESCAPES, special: special}
        s, t = re.escape(dialect.separator.encode()), re.escape(self.terminator)
        q, first = re.escape(self._quote), re.escape(self._quote[:1])
        ends = re.escape(dialect.separator.encode()[:1] + self.terminator[:1] + self._quote[:1])
        escape = rb"\\." if dialect.escape_backslash else rb"(?!)"
        not_escape = rb"\\" if dialect.escape_backslash else b""
        # The first byte of a sign that is not followed by the rest of it.
        other = rb"(?!%b|%b%b)[%b]" % (s, t, b"|" + q if q else b"", ends)
        bare = rb"[^%b%b]*+(?:(?:%b|%b)[^%b%b]*+)*+" % (
            *(not_escape, ends, escape, other),
            *(not_escape, ends),
        )
        if not q:
            text = rb"(?!)"
        elif dialect.escape_backslash:
            text = rb"[^\\\n%b]*+(?:(?:\\.|(?!%b)%b)[^\\\n%b]*+)*+" % (first, q, first, first)
        else:
            text = rb"[^%b]*+(?:(?:%b%b|(?!%b)%b)[^%b]*+)*+" % (first, q, q, q, first, first)
        self._field = re.compile(
            rb"(?:%b(%b)%b|(%b))(?:(%b)|%b)" % (q, text, q, bare, s, t), re.DOTALL
        )
        signs = re.escape(dialect.separator.encode() + self.terminator)
        self._open_text = re.compile(rb"%b%b(?:\\|%b[%b]*+)?\Z" % (q, text, q, signs), re.DOTALL)

    def read(self, data: bytes, start: int, has_ended: bool) -> ScannedRow | None:
        """Read the record at a place; None if it may go on behind the data."""
        values: list[bytes | None] = []
        quoted: list[bool] = []
        position = start
        while match := self._field.match(data, position):
            text, bare, more = match.groups()
            value = None if bare == self._null else self._unescape(bare if text is None else text)
            if value is None and bare != self._null:
                return self._break(data, start, position, len(values))
            values.append(value)
            quoted.append(text is not None)
            position = match.end()
            if more is None:
                return ScannedRow(values, quoted, position)
        may_go_on = self._open_text.match(data, position) if self._quote else None
        if not has_ended and (may_go_on or data.find(self.terminator, position) < 0):
            return None
        return self._break(data, start, position, len(values))

    def _break(self, data: bytes, start: int, position: int, fields: int) -> ScannedRow:
        end = data.find(self.terminator, position)
        if end < 0:
            return ScannedRow([], [], len(data), "the file ends in this row")
        reason = f"value {fields + 1} breaks the rules of the dialect: {OTHER_DIALECT}"
        return ScannedRow([], [], end + len(self.terminator), reason)

    def _unescape(self, text: bytes) -> bytes | None:
        if self._escapes is None:
            return text.replace(self._quote * 2, self._quote) if self._quote else text
        if b"\\" not in text:
            return text
        escapes = self._escapes
        try:
            return _ESCAPED.sub(lambda match: escapes[match[1]], text)
        except KeyError:
            return None
