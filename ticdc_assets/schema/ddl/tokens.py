"""The words of a DDL text.

sqlglot's MySQL tokenizer cuts the text; here its tokens become words, names, literals and symbols,
and executable comments (`/*!50100 … */`, `/*T![ttl] … */`) lose their wrapping.  What the words
mean is decided elsewhere.
"""

from enum import Enum
from typing import NamedTuple

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from ticdc_assets.errors import UnreadableDdl


class Kind(Enum):
    WORD = "word"
    NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    HEX = "hexadecimal literal"
    BIT = "bit literal"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    kind: Kind
    # Without quotes and escapes; the digits of numbers, hexadecimal and bit literals.
    text: str
    # What keywords are compared with: words in upper case, symbols; empty for all others.
    key: str
    # Where it lies in the statement; `end` is behind the last character.
    start: int
    end: int

    @property
    def data(self) -> bytes:
        """The bytes of a hexadecimal or bit literal."""
        base, digits_a_byte = (16, 2) if self.kind is Kind.HEX else (2, 8)
        return int(self.text or "0", base).to_bytes(-(-len(self.text) // digits_a_byte), "big")


_COMMENT_OPEN = "/*!"
_FEATURE_OPEN = "/*T!"


class _Tokenizer(MySQL.Tokenizer):
    """Only cuts: no keyword of sqlglot's, no statement that it would swallow whole."""

    KEYWORDS = {  # noqa: RUF012 - how sqlglot wants it
        _COMMENT_OPEN: TokenType.BLOCK_START,
        _FEATURE_OPEN: TokenType.BLOCK_START,
        "*/": TokenType.BLOCK_END,
    }
    COMMANDS = set()  # noqa: RUF012


class _LiteralTokenizer(_Tokenizer):
    """Backslashes in strings stand for themselves."""

    STRING_ESCAPES = ["'", '"']  # noqa: RUF012


_KINDS = {
    TokenType.VAR: Kind.WORD,
    TokenType.IDENTIFIER: Kind.NAME,
    TokenType.STRING: Kind.STRING,
    TokenType.NATIONAL_STRING: Kind.STRING,
    TokenType.NUMBER: Kind.NUMBER,
    TokenType.HEX_STRING: Kind.HEX,
    TokenType.BIT_STRING: Kind.BIT,
}

# MySQL writes the version in front of an executable comment's text with five or six digits.
_VERSION_DIGITS = (5, 6)


def tokenize(sql: str) -> list[Token]:
    """Cut a DDL text; raise `UnreadableDdl` when it cannot be."""
    if "\\" not in sql:
        return _scan(sql, _Tokenizer)
    # TiCDC prints statements anew from their parse tree and doubles quotes, but not backslashes:
    # in such a text they stand for themselves, in what a user typed they escape.
    try:
        tokens = _scan(sql, _LiteralTokenizer)
    except UnreadableDdl:
        return _scan(sql, _Tokenizer)
    return tokens if _is_printed_by_tidb(sql, tokens) else _scan(sql, _Tokenizer)


def _scan(sql: str, tokenizer: type[_Tokenizer]) -> list[Token]:
    try:
        cut = tokenizer(dialect="mysql").tokenize(sql)
    except SqlglotError as error:
        raise UnreadableDdl(f"cannot be cut into words ({error})", sql) from None
    tokens: list[Token] = []
    comments = 0
    at = 0
    while at < len(cut):
        token = cut[at]
        at += 1
        if token.token_type is TokenType.BLOCK_START:
            comments += 1
            at = _skip_comment_head(cut, at)
        elif token.token_type is TokenType.BLOCK_END:
            comments -= 1
            if comments < 0:
                raise UnreadableDdl("'*/' without a comment", sql)
        else:
            tokens.append(_convert_token(token, sql))
    if comments:
        raise UnreadableDdl("comment without an end", sql)
    return tokens


def _skip_comment_head(cut: list[SqlglotToken], at: int) -> int:
    """Skip the version or the `[feature,…]` that stands directly behind a comment's opening."""
    if at == len(cut) or cut[at].start != cut[at - 1].end + 1:
        return at
    first = cut[at]
    if first.token_type is TokenType.NUMBER and len(first.text) in _VERSION_DIGITS:
        return at + 1
    if cut[at - 1].text == _FEATURE_OPEN and first.token_type is TokenType.L_BRACKET:
        while at < len(cut) and cut[at].token_type is not TokenType.R_BRACKET:
            at += 1
        return at + 1
    return at


def _convert_token(token: SqlglotToken, sql: str) -> Token:
    start, end = token.start, token.end + 1
    kind = _KINDS.get(token.token_type, Kind.SYMBOL)
    text = token.text
    if kind is Kind.NUMBER and text[-1] in "eE":
        # `1e` is a name that begins with a digit.
        kind = Kind.WORD
    if kind is Kind.NAME and sql[start] != "`":
        # What turned out not to be a hexadecimal or bit literal.
        kind, text = Kind.WORD, sql[start:end]
    if kind is Kind.WORD:
        return Token(kind, text, text.upper(), start, end)
    return Token(kind, text, text if kind is Kind.SYMBOL else "", start, end)


def _is_printed_by_tidb(sql: str, tokens: list[Token]) -> bool:
    """Is this TiDB's own print: keywords in upper case, names in back quotes, typed strings?"""
    before = ""
    for token in tokens:
        if token.kind is Kind.WORD:
            # Values of options keep their case.
            if token.text != token.key and before not in ("=", "COLLATE"):
                return False
        elif token.kind is Kind.STRING and (before == "DEFAULT" or sql[token.start] != "'"):
            return False
        before = token.key
    return True
