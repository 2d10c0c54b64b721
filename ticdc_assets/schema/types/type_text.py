"""Parsing a type's declaration, such as `bigint unsigned` or `enum('a','b')`."""

from typing import NoReturn

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.limits import find_excess
from ticdc_assets.schema.types.type_table import BINARY_TWINS, SYNONYMS, TYPES

_NATIONAL = ("nchar", "nvarchar", "national")


def parse_type(text: str) -> ColumnType:
    """Parse the declaration of a MySQL type; raise `InvalidValue` if it is not one.

    An attribute that the text omits is None.  NULL and NOT NULL after the type are skipped.
    """
    return _TypeScanner(text).read_type()


class _TypeScanner:
    """A scanner over one type declaration."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0

    def read_type(self) -> ColumnType:
        words = self._read_type_name()
        name = " ".join(words)
        if name in SYNONYMS:
            t = parse_type(SYNONYMS[name])
        elif name in TYPES:
            t = ColumnType(name)
        else:
            self._fail("unknown type")
        if words[0] in _NATIONAL:
            t = replace(t, charset="utf8")
        if self._take("<") and (
            t.name != "vector" or self._read_word() != "float" or not self._take(">")
        ):
            self._fail("cannot read the element type")
        if self._take("("):
            t = self._read_parameters(t)
        t = self._read_attributes(t)
        if t.charset == "binary" and t.name in BINARY_TWINS:
            t = replace(t, name=BINARY_TWINS[t.name], charset=None, collation=None)
        if excess := find_excess(t):
            self._fail(excess)
        return _fit_large_object(t)

    def _read_type_name(self) -> list[str]:
        """Read the longest type name: `char varying`, not `char`."""
        words: list[str] = []
        best: tuple[list[str], int] | None = None
        while len(words) < 3 and (word := self._read_word()):
            words = [*words, word]
            name = " ".join(words)
            if name in SYNONYMS or name in TYPES:
                best = words, self._offset
        if best is None:
            self._fail("unknown type")
        words, self._offset = best
        return words

    def _read_parameters(self, t: ColumnType) -> ColumnType:
        if t.name in ("enum", "set"):
            members = [self._read_string()]
            while self._take(","):
                members.append(self._read_string())
            self._expect(")")
            # MySQL removes trailing spaces from members.
            return replace(t, elements=tuple(member.rstrip(" ") for member in members))
        first = self._read_number()
        second = self._read_number() if self._take(",") else None
        self._expect(")")
        if t.name in ("datetime", "timestamp", "time"):
            return replace(t, decimals=first)
        if t.name == "float" and second is None:
            # The precision of FLOAT(p) only chooses between FLOAT and DOUBLE.
            return t if first <= 24 else replace(t, name="double")
        return replace(t, length=first, decimals=second)

    def _read_attributes(self, t: ColumnType) -> ColumnType:
        while word := self._read_word():
            if word == "unsigned":
                t = replace(t, unsigned=True)
            elif word == "zerofill":
                t = replace(t, zerofill=True, unsigned=True)
            elif word in ("charset", "character", "char"):
                if word != "charset" and self._read_word() != "set":
                    self._fail("expected CHARACTER SET")
                self._take("=")
                t = replace(t, charset=self._read_name())
            elif word == "collate":
                self._take("=")
                t = replace(t, collation=self._read_name())
            elif word == "byte":
                t = replace(t, charset="binary")
            elif word == "ascii":
                t = replace(t, charset="latin1")
            elif word == "unicode":
                t = replace(t, charset="ucs2")
            elif word == "not":
                if self._read_word() != "null":
                    self._fail("expected NOT NULL")
            elif word not in ("signed", "null", "binary"):
                self._fail(f"unexpected {word!r}")
        self._skip_blanks()
        if self._offset != len(self._text):
            self._fail("unexpected text after the type")
        return t

    def _skip_blanks(self) -> None:
        while self._offset < len(self._text) and self._text[self._offset].isspace():
            self._offset += 1

    def _take(self, symbol: str) -> bool:
        self._skip_blanks()
        if self._text.startswith(symbol, self._offset):
            self._offset += len(symbol)
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._fail(f"expected {symbol!r}")

    def _read_word(self) -> str:
        """Read a word in lower case; empty if there is none."""
        self._skip_blanks()
        start = self._offset
        while self._offset < len(self._text) and _is_word_char(self._text[self._offset]):
            self._offset += 1
        return self._text[start : self._offset].lower()

    def _read_number(self) -> int:
        word = self._read_word()
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            self._fail("expected a number")
        return int(word)

    def _read_name(self) -> str:
        """Read a charset or collation name, quoted or not."""
        self._skip_blanks()
        name = (
            self._read_string()
            if self._text[self._offset : self._offset + 1] in ("'", '"')
            else self._read_word()
        )
        if not name:
            self._fail("expected a name")
        return name.lower()

    def _read_string(self) -> str:
        """Read a string literal, with or without a charset introducer."""
        self._skip_blanks()
        if self._text.startswith("_", self._offset):
            self._read_word()
            self._skip_blanks()
        quote = self._text[self._offset : self._offset + 1]
        if quote not in ("'", '"'):
            self._fail("expected a string")
        self._offset += 1
        parts: list[str] = []
        while True:
            char = self._text[self._offset : self._offset + 1]
            self._offset += 1
            if not char:
                self._fail("unterminated string")
            if char == quote:
                if not self._text.startswith(quote, self._offset):
                    return "".join(parts)
                self._offset += 1
            elif char == "\\" and self._offset < len(self._text):
                char = self._text[self._offset]
                self._offset += 1
                char = _ESCAPES.get(char, char)
            parts.append(char)

    def _fail(self, reason: str) -> NoReturn:
        raise InvalidValue(f"type {self._text[:80]!r}: {reason}")


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def _fit_large_object(t: ColumnType) -> ColumnType:
    """Replace TEXT(n) or BLOB(n) by the smallest type of its family that holds n characters."""
    if t.name not in ("text", "blob") or t.length is None:
        return t
    # utf8mb4, the default charset, needs up to four bytes per character.
    size = t.length if t.name == "blob" else t.length * 4
    for prefix in ("tiny", "", "medium", "long"):
        row = TYPES[prefix + t.name]
        assert row.width is not None
        if size <= row.width:
            break
    return replace(t, name=row.name, length=None)
