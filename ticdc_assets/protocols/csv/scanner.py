"""The notation of CSV data files: bytes to records, and fields to values or NULL.

This is the specification that the columnar reader is proven against; it does not know what the
fields mean.  With a quote character, text is quoted and only the quote itself is doubled:
delimiters and line ends inside it are literal, and `"\\N"` is text where a bare `\\N` is NULL.
Without one, a backslash escapes itself, CR, LF and every character of the delimiter.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ticdc_assets.changefeed import CsvDialect

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


class Record(NamedTuple):
    """One record and its offsets; `problem` says why it has no fields."""

    fields: list[bytes | None]
    start: int
    end: int
    problem: str | None = None


class Scanner:
    """Splits data of one dialect into records, and finds the next one after damage."""

    def __init__(self, dialect: CsvDialect, most_fields: int) -> None:
        quote = dialect.quote.encode()
        self._quote, self._doubled = quote, quote * 2
        self._null = dialect.null.encode()
        self._most_fields = most_fields
        self._plain = {b"\\": b"\\", b"r": b"\r", b"n": b"\n"}
        self._plain |= {bytes([byte]): bytes([byte]) for byte in dialect.delimiter.encode()}
        grammar = _Grammar(dialect)
        self._field = re.compile(grammar.field, re.DOTALL)
        self._rest_of_record = re.compile(grammar.rest_of_record, re.DOTALL)
        self._before_record = re.compile(grammar.before_record)

    def records(self, data: bytes, start: int) -> Iterator[Record]:
        """Split data into records, from the start of one to the end of the data."""
        while start < len(data):
            record = self._record(data, start)
            yield record
            start = record.end

    def _record(self, data: bytes, start: int) -> Record:
        match_field = self._field.match
        null, quote, doubled = self._null, self._quote, self._doubled
        fields: list[bytes | None] = []
        position = start
        while match := match_field(data, position):
            text, bare, more = match.groups()
            if text is not None:
                fields.append(text.replace(doubled, quote) if doubled in text else text)
            elif bare == null:
                fields.append(None)
            elif quote or b"\\" not in bare:
                fields.append(bare)
            else:
                plain = self._unescape(bare)
                if plain is None:
                    break
                fields.append(plain)
            position = match.end()
            if more is None:
                return Record(fields, start, position)
            if len(fields) == self._most_fields:
                rest = self._rest_of_record.match(data, position)
                if rest is None:
                    break
                problem = f"the record has more than {self._most_fields} fields"
                return Record([], start, rest.end(), problem)
        number = len(fields) + 1
        problem = f"field {number}, at byte {position} of the file, breaks the rules of the dialect"
        return self._broken(data, start, problem)

    def _broken(self, data: bytes, start: int, problem: str) -> Record:
        """Skip a broken record; the next one starts where a first field follows a terminator."""
        found = self._before_record.search(data, start)
        if found is None:
            return Record([], start, len(data), f"{problem}; no record starts after it")
        return Record([], start, found.end(), problem)

    def _unescape(self, bare: bytes) -> bytes | None:
        plain = self._plain
        try:
            return _ESCAPED.sub(lambda match: plain[match[1]], bare)
        except KeyError:
            return None


class _Grammar:
    """The dialect as regular expressions.

    All quantifiers are possessive: no field can end in two ways, and hostile data must cost neither
    stack nor backtracking.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        delimiter, terminator = dialect.delimiter.encode(), dialect.terminator.encode()
        ends = re.escape(delimiter[:1] + terminator[:1])
        d, t, q = re.escape(delimiter), re.escape(terminator), re.escape(dialect.quote.encode())
        # The first byte of a delimiter or terminator that is not followed by the rest of it.
        other = rb"(?!%b|%b)[%b]" % (d, t, ends)
        if q:
            text = rb"[^%b]*+(?:%b%b[^%b]*+)*+" % (q, q, q, q)
            bare = rb"[^%b%b]*+(?:%b[^%b%b]*+)*+" % (q, ends, other, q, ends)
            first_field = rb"%b[IUD]%b%b%b" % (q, q, d, q)
        else:
            text = rb"(?!)"
            bare = rb"[^\\%b]*+(?:(?:\\.|%b)[^\\%b]*+)*+" % (ends, other, ends)
            first_field = rb"[IUD]%b" % d
        either = rb"(?:%b%b%b|%b)" % (q, text, q, bare)
        self.field = rb"(?:%b(%b)%b|(%b))(?:(%b)|%b)" % (q, text, q, bare, d, t)
        self.rest_of_record = rb"(?:%b%b)*+%b%b" % (either, d, either, t)
        self.before_record = rb"%b(?=%b)" % (t, first_field)
