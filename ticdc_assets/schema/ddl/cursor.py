"""A cursor over the tokens of a DDL text, from which every reader is built.

Rules: `next_is` looks, `accept` consumes optional tokens, `expect` and `read` consume what must
stand there and otherwise raise `UnreadableDdl`.  Parentheses are matched once, up front, so readers
need no recursion and the nesting depth has no limit.
"""

from collections.abc import Iterator

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.schema.ddl.statement import Name
from ticdc_assets.schema.ddl.tokens import Kind, Token, tokenize


class Cursor:
    """A position in a range of tokens; behind the range it sees only the end."""

    def __init__(
        self, sql: str, tokens: list[Token], closings: dict[int, int], start: int, end: int
    ) -> None:
        self.sql = sql
        self.position = start
        self.end = end
        self._tokens = tokens
        # The position of the closing parenthesis, by that of the opening one.
        self._closings = closings

    @classmethod
    def over(cls, sql: str) -> "Cursor":
        """Return a cursor over a whole DDL text; raise `UnreadableDdl` if it has no tokens."""
        tokens = tokenize(sql)
        return cls(sql, tokens, _match_parentheses(sql, tokens), 0, len(tokens))

    def split_statements(self) -> "Iterator[Cursor]":
        """Return a cursor per statement; semicolons separate statements, empty ones are skipped."""
        start = self.position
        for position in range(self.position, self.end):
            if self._tokens[position].key == ";":
                if start < position:
                    yield self.slice(start, position)
                start = position + 1
        if start < self.end:
            yield self.slice(start, self.end)

    def slice(self, start: int, end: int) -> "Cursor":
        """Return another cursor over a part of the tokens."""
        return Cursor(self.sql, self._tokens, self._closings, start, end)

    # Errors

    def error(self, reason: str) -> UnreadableDdl:
        """Return the error for a clause that the reader does not support."""
        return UnreadableDdl(reason, self.sql)

    def unexpected(self, expected: str) -> UnreadableDdl:
        """Return the error for a token other than the expected one."""
        token = self.token
        text = self.sql[token.start : token.end]
        found = "the end" if token.kind is Kind.END else repr(text[:40])
        return self.error(f"expected {expected}, found {found}")

    # Looking ahead

    @property
    def token(self) -> Token:
        """The next token."""
        return self.peek()

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or the one that many tokens ahead of it."""
        position = self.position + ahead
        if position < self.end:
            return self._tokens[position]
        return Token(Kind.END, "", "", len(self.sql), len(self.sql))

    def at_end(self) -> bool:
        """Whether all tokens are consumed."""
        return self.position >= self.end

    def next_is(self, *keys: str) -> bool:
        """Whether these keywords and symbols come next."""
        if self.position + len(keys) > self.end:
            return False
        for position, key in enumerate(keys, self.position):
            if self._tokens[position].key != key:
                return False
        return True

    def next_is_any(self, *keys: str) -> bool:
        """Whether one of these keywords and symbols comes next."""
        return self.token.key in keys

    # Keywords and symbols

    def accept(self, *keys: str) -> bool:
        """Consume these keywords and symbols if they come next."""
        if self.next_is(*keys):
            self.position += len(keys)
            return True
        return False

    def accept_any(self, *keys: str) -> str:
        """Consume one of these keywords and return it; return "" if none comes next."""
        key = self.token.key
        if key in keys:
            self.position += 1
            return key
        return ""

    def expect(self, *keys: str) -> None:
        """Consume these keywords and symbols."""
        for key in keys:
            if not self.accept(key):
                raise self.unexpected(key)

    def expect_end(self) -> None:
        """Raise `UnreadableDdl` if tokens are left."""
        if not self.at_end():
            raise self.unexpected("the end")

    def advance(self) -> Token:
        """Consume any one token."""
        token = self.token
        if token.kind is Kind.END:
            raise self.unexpected("more")
        self.position += 1
        return token

    # Names

    def read_name(self) -> str:
        """Read a name, quoted or not; double quotes quote a name as under ANSI_QUOTES."""
        token = self.token
        is_name = token.kind in (Kind.NAME, Kind.WORD) or (
            token.kind is Kind.STRING and self.sql[token.start] == '"'
        )
        if not is_name or not token.text:
            raise self.unexpected("a name")
        self.position += 1
        return token.text

    def read_table_name(self) -> Name:
        """Read a table's name, with or without its database."""
        first = self.read_name()
        return Name(self.read_name(), first) if self.accept(".") else Name(first)

    def read_column_name(self) -> str:
        """Read a column's name; drop a table's name before it."""
        name = self.read_name()
        while self.accept("."):
            name = self.read_name()
        return name

    def read_names(self) -> tuple[str, ...]:
        """Read names separated by commas."""
        names = [self.read_name()]
        while self.accept(","):
            names.append(self.read_name())
        return tuple(names)

    def read_table_names(self) -> tuple[Name, ...]:
        """Read table names separated by commas."""
        tables = [self.read_table_name()]
        while self.accept(","):
            tables.append(self.read_table_name())
        return tuple(tables)

    # Literals

    def read_integer(self) -> int:
        """Read an unsigned integer."""
        token = self.token
        if token.kind is not Kind.NUMBER or not token.text.isdecimal() or len(token.text) > 20:
            raise self.unexpected("a number")
        self.position += 1
        return int(token.text)

    def accept_introducer(self) -> str | None:
        """Consume a `_charset` introducer before a literal, if there is one; return the charset."""
        token = self.token
        is_introducer = token.kind is Kind.WORD and token.text.startswith("_")
        if not is_introducer or self.peek(1).kind not in (Kind.STRING, Kind.HEX, Kind.BIT):
            return None
        self.position += 1
        return token.text[1:].lower()

    def read_string(self) -> str:
        """Read a string; adjacent strings are one, as in SQL."""
        self.accept_introducer()
        if self.token.kind is not Kind.STRING:
            raise self.unexpected("a string")
        parts = [self.advance().text]
        while self.token.kind is Kind.STRING:
            parts.append(self.advance().text)
        return "".join(parts)

    def read_word_or_string(self) -> str:
        """Read the value of an option: a word, a name or a string."""
        return self.advance().text if self.token.kind is Kind.STRING else self.read_name()

    # Parentheses

    def read_group(self) -> "Cursor":
        """Consume a group in parentheses; return a cursor over its content."""
        if not self.next_is("("):
            raise self.unexpected("'('")
        closing = self._closings[self.position]
        content = self.slice(self.position + 1, closing)
        self.position = closing + 1
        return content

    def skip_item(self) -> None:
        """Consume one token, or a whole group in parentheses."""
        if self.next_is("("):
            self.read_group()
        else:
            self.advance()

    def split_at_commas(self) -> "list[Cursor]":
        """Consume the rest; return a cursor per item between the outer commas."""
        items: list[Cursor] = []
        start = self.position
        while not self.at_end():
            if self.next_is(","):
                items.append(self.slice(start, self.position))
                start = self.position + 1
            self.skip_item()
        items.append(self.slice(start, self.position))
        return items

    def strip_parentheses(self) -> "Cursor":
        """Return a cursor over the same tokens without the parentheses around all of them."""
        start, end = self.position, self.end
        while end - start > 2 and self._tokens[start].key == "(":
            if self._closings[start] != end - 1:
                break
            start, end = start + 1, end - 1
        return self.slice(start, end)

    # The rest

    def read_rest(self) -> str:
        """Consume the rest; return its SQL."""
        if self.at_end():
            raise self.unexpected("an expression")
        first, last = self._tokens[self.position], self._tokens[self.end - 1]
        self.position = self.end
        return self.sql[first.start : last.end]

    def skip_rest(self) -> None:
        """Consume the rest."""
        self.position = self.end


def _match_parentheses(sql: str, tokens: list[Token]) -> dict[int, int]:
    """Find the closing parenthesis of each opening one."""
    closings: dict[int, int] = {}
    openings: list[int] = []
    for position, token in enumerate(tokens):
        if token.key == "(":
            openings.append(position)
        elif token.key == ")":
            if not openings:
                raise UnreadableDdl("')' without '('", sql)
            closings[openings.pop()] = position
        elif openings and token.key == ";":
            break
    if openings:
        raise UnreadableDdl("'(' without ')'", sql)
    return closings
