"""Reading a type's text, such as `bigint unsigned` or `enum('a','b')`, by a small hand scanner."""

from typing import NoReturn

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.type_table import BINARY_TWINS, SYNONYMS, TYPES

_NATIONAL = ("nchar", "nvarchar", "national")


def parse_type(text: str) -> ColumnType:
    """Parse a MySQL type text.

    An attribute that the text omits is None; NULL and NOT NULL after the type are skipped.
    """
    return _TypeText(text).read()


class _TypeText:
    """A hand scanner over one type text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> ColumnType:
        words = self._name_words()
        spelled = " ".join(words)
        if spelled in SYNONYMS:
            t = parse_type(SYNONYMS[spelled])
        elif spelled in TYPES:
            t = ColumnType(spelled)
        else:
            self._fail("unknown type")
        if words[0] in _NATIONAL:
            t = replace(t, charset="utf8")
        if self._take("<") and (
            t.name != "vector" or self._word() != "float" or not self._take(">")
        ):
            self._fail("cannot read the element type")
        if self._take("("):
            t = self._parameters(t)
        t = self._attributes(t)
        if t.charset == "binary" and t.name in BINARY_TWINS:
            t = replace(t, name=BINARY_TWINS[t.name], charset=None, collation=None)
        return _fit_large_object(t)

    def _name_words(self) -> list[str]:
        """Take as many words as make the longest type name."""
        words: list[str] = []
        best: tuple[list[str], int] | None = None
        while len(words) < 3 and (word := self._word()):
            words = [*words, word]
            spelled = " ".join(words)
            if spelled in SYNONYMS or spelled in TYPES:
                best = words, self._at
        if best is None:
            self._fail("unknown type")
        words, self._at = best
        return words

    def _parameters(self, t: ColumnType) -> ColumnType:
        if t.name in ("enum", "set"):
            members = [self._string()]
            while self._take(","):
                members.append(self._string())
            self._expect(")")
            # MySQL deletes trailing blanks of members.
            return replace(t, elements=tuple(member.rstrip(" ") for member in members))
        first = self._number()
        second = self._number() if self._take(",") else None
        self._expect(")")
        if t.name in ("datetime", "timestamp", "time"):
            return replace(t, decimals=first)
        if t.name == "float" and second is None:
            # FLOAT(p) only chooses between the two widths.
            return t if first <= 24 else replace(t, name="double")
        return replace(t, length=first, decimals=second)

    def _attributes(self, t: ColumnType) -> ColumnType:
        while word := self._word():
            if word == "unsigned":
                t = replace(t, unsigned=True)
            elif word == "zerofill":
                t = replace(t, zerofill=True, unsigned=True)
            elif word in ("charset", "character", "char"):
                if word != "charset" and self._word() != "set":
                    self._fail("expected CHARACTER SET")
                self._take("=")
                t = replace(t, charset=self._name())
            elif word == "collate":
                self._take("=")
                t = replace(t, collation=self._name())
            elif word == "byte":
                t = replace(t, charset="binary")
            elif word == "ascii":
                t = replace(t, charset="latin1")
            elif word == "unicode":
                t = replace(t, charset="ucs2")
            elif word == "not":
                if self._word() != "null":
                    self._fail("expected NOT NULL")
            elif word not in ("signed", "null", "binary"):
                self._fail(f"unexpected {word!r}")
        self._skip_blanks()
        if self._at != len(self._text):
            self._fail("unexpected text behind the type")
        return t

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _take(self, symbol: str) -> bool:
        self._skip_blanks()
        if self._text.startswith(symbol, self._at):
            self._at += len(symbol)
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._fail(f"expected {symbol!r}")

    def _word(self) -> str:
        """Take a word, lower-case; empty if there is none."""
        self._skip_blanks()
        start = self._at
        while self._at < len(self._text) and _is_word_char(self._text[self._at]):
            self._at += 1
        return self._text[start : self._at].lower()

    def _number(self) -> int:
        word = self._word()
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            self._fail("expected a number")
        return int(word)

    def _name(self) -> str:
        """Take a charset or collation name, quoted or not."""
        self._skip_blanks()
        name = self._string() if self._text[self._at : self._at + 1] in ("'", '"') else self._word()
        if not name:
            self._fail("expected a name")
        return name.lower()

    def _string(self) -> str:
        """Take a string literal, with or without a charset introducer."""
        self._skip_blanks()
        if self._text.startswith("_", self._at):
            self._word()
            self._skip_blanks()
        quote = self._text[self._at : self._at + 1]
        if quote not in ("'", '"'):
            self._fail("expected a string")
        self._at += 1
        parts: list[str] = []
        while True:
            char = self._text[self._at : self._at + 1]
            self._at += 1
            if not char:
                self._fail("string without an end")
            if char == quote:
                if not self._text.startswith(quote, self._at):
                    return "".join(parts)
                self._at += 1
            elif char == "\\" and self._at < len(self._text):
                char = self._text[self._at]
                self._at += 1
                char = _ESCAPES.get(char, char)
            parts.append(char)

    def _fail(self, reason: str) -> NoReturn:
        raise InvalidValue(f"type {self._text[:80]!r}: {reason}")


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def _fit_large_object(t: ColumnType) -> ColumnType:
    """TEXT(n) and BLOB(n) stand for the smallest type of the family that holds n characters."""
    if t.name not in ("text", "blob") or t.length is None:
        return t
    # utf8mb4, unless the text says otherwise, needs four bytes a character.
    size = t.length if t.name == "blob" else t.length * 4
    for prefix in ("tiny", "", "medium", "long"):
        row = TYPES[prefix + t.name]
        assert row.width is not None
        if size <= row.width:
            break
    return replace(t, name=row.name, length=None)
