"""A cursor over the words of a DDL text: the steps every reader is made of.

Parentheses are paired once, so no reader needs recursion and no nesting is too deep.  What is not
as a reader asks is an `UnreadableDdl`.
"""

from collections.abc import Iterator

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.schema.ddl.statement import Name
from ticdc_assets.schema.ddl.tokens import Kind, Token, tokenize


class Cursor:
    """Walks over the tokens up to `stop`; behind them it sees only the end."""

    def __init__(
        self, sql: str, tokens: list[Token], partners: dict[int, int], at: int, stop: int
    ) -> None:
        self.sql = sql
        self.at = at
        self.stop = stop
        self._tokens = tokens
        self._partners = partners

    @classmethod
    def over(cls, sql: str) -> "Cursor":
        """A cursor over a whole DDL text; raise `UnreadableDdl` when it cannot be cut."""
        tokens = tokenize(sql)
        return cls(sql, tokens, _partners(sql, tokens), 0, len(tokens))

    def statements(self) -> "Iterator[Cursor]":
        """Take all that is left, cut at its semicolons; empty statements are none."""
        start = self.at
        for at in range(self.at, self.stop):
            if self._tokens[at].key == ";":
                if start < at:
                    yield self.within(start, at)
                start = at + 1
        if start < self.stop:
            yield self.within(start, self.stop)

    def within(self, at: int, stop: int) -> "Cursor":
        """A cursor of its own over a part of the tokens."""
        return Cursor(self.sql, self._tokens, self._partners, at, stop)

    def error(self, reason: str) -> UnreadableDdl:
        return UnreadableDdl(reason, self.sql)

    def unexpected(self, expected: str) -> UnreadableDdl:
        found = self.token
        text = self.sql[found.start : found.end]
        shown = "the end" if found.kind is Kind.END else repr(text[:40])
        return self.error(f"expected {expected}, found {shown}")

    @property
    def token(self) -> Token:
        return self.peek()

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        if at < self.stop:
            return self._tokens[at]
        return Token(Kind.END, "", "", len(self.sql), len(self.sql))

    def ended(self) -> bool:
        return self.at >= self.stop

    def sees(self, *keys: str) -> bool:
        """Are these keywords and symbols next?"""
        if self.at + len(keys) > self.stop:
            return False
        for at, key in enumerate(keys, self.at):  # noqa: SIM110 - every reader's every step
            if self._tokens[at].key != key:
                return False
        return True

    def sees_any(self, *keys: str) -> bool:
        return self.token.key in keys

    def take(self, *keys: str) -> bool:
        """Step over these keywords and symbols if they are next."""
        if self.sees(*keys):
            self.at += len(keys)
            return True
        return False

    def take_any(self, *keys: str) -> str:
        """Step over one of these and say which; empty if none is next."""
        key = self.token.key
        if key in keys:
            self.at += 1
            return key
        return ""

    def expect(self, *keys: str) -> None:
        for key in keys:
            if not self.take(key):
                raise self.unexpected(key)

    def next(self) -> Token:
        """Take any token but the end."""
        token = self.token
        if token.kind is Kind.END:
            raise self.unexpected("more")
        self.at += 1
        return token

    # Names

    def name(self) -> str:
        """Take a name, quoted or not; double quotes are ANSI_QUOTES' where a name must stand."""
        token = self.token
        is_name = token.kind in (Kind.NAME, Kind.WORD) or (
            token.kind is Kind.STRING and self.sql[token.start] == '"'
        )
        if not is_name or not token.text:
            raise self.unexpected("a name")
        self.at += 1
        return token.text

    def table(self) -> Name:
        """Take a table's name, with or without its database."""
        first = self.name()
        return Name(self.name(), first) if self.take(".") else Name(first)

    def column(self) -> str:
        """Take a column's name; the table's in front of it says nothing new."""
        name = self.name()
        while self.take("."):
            name = self.name()
        return name

    def names(self) -> tuple[str, ...]:
        """Take names with commas between them."""
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def tables(self) -> tuple[Name, ...]:
        tables = [self.table()]
        while self.take(","):
            tables.append(self.table())
        return tuple(tables)

    # Literals

    def integer(self) -> int:
        """Take a whole number."""
        token = self.token
        if token.kind is not Kind.NUMBER or not token.text.isdecimal() or len(token.text) > 20:
            raise self.unexpected("a number")
        self.at += 1
        return int(token.text)

    def take_introducer(self) -> str | None:
        """Step over the `_charset` in front of a literal if there is one, and name the charset."""
        token = self.token
        is_introducer = token.kind is Kind.WORD and token.text.startswith("_")
        if not is_introducer or self.peek(1).kind not in (Kind.STRING, Kind.HEX, Kind.BIT):
            return None
        self.at += 1
        return token.text[1:].lower()

    def string(self) -> str:
        """Take a string; strings side by side are one, as in SQL."""
        self.take_introducer()
        if self.token.kind is not Kind.STRING:
            raise self.unexpected("a string")
        parts = [self.next().text]
        while self.token.kind is Kind.STRING:
            parts.append(self.next().text)
        return "".join(parts)

    def word_or_string(self) -> str:
        """Take what an option may have as its value: a word, a name or a string."""
        return self.next().text if self.token.kind is Kind.STRING else self.name()

    # Parentheses

    def inside(self) -> "Cursor":
        """Take what is in the parentheses that begin here, as a cursor over it."""
        if not self.sees("("):
            raise self.unexpected("'('")
        close = self._partners[self.at]
        part = self.within(self.at + 1, close)
        self.at = close + 1
        return part

    def skip(self) -> None:
        """Step over one token, or over everything in parentheses if they begin here."""
        if self.sees("("):
            self.inside()
        else:
            self.next()

    def items(self) -> "list[Cursor]":
        """Take all that is left, cut at its outer commas."""
        parts: list[Cursor] = []
        start = self.at
        while not self.ended():
            if self.sees(","):
                parts.append(self.within(start, self.at))
                start = self.at + 1
            self.skip()
        parts.append(self.within(start, self.at))
        return parts

    def text(self) -> str:
        """Take all that is left, as it is written."""
        if self.ended():
            raise self.unexpected("an expression")
        first, last = self._tokens[self.at], self._tokens[self.stop - 1]
        self.at = self.stop
        return self.sql[first.start : last.end]

    def unwrapped(self) -> "Cursor":
        """The same without parentheses around all of it."""
        start, stop = self.at, self.stop
        while stop - start > 2 and self._tokens[start].key == "(":
            if self._partners[start] != stop - 1:
                break
            start, stop = start + 1, stop - 1
        return self.within(start, stop)

    def skip_all(self) -> None:
        self.at = self.stop

    def expect_end(self) -> None:
        if not self.ended():
            raise self.unexpected("the end")


def _partners(sql: str, tokens: list[Token]) -> dict[int, int]:
    """Find where each parenthesis closes."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.key == "(":
            opened.append(at)
        elif token.key == ")":
            if not opened:
                raise UnreadableDdl("')' without '('", sql)
            partners[opened.pop()] = at
        elif opened and token.key == ";":
            break
    if opened:
        raise UnreadableDdl("'(' without ')'", sql)
    return partners
