"""Scan a DDL text with sqlglot's MySQL tokenizer.

Executable comments (`/*!50100 … */`, `/*T![ttl] … */`) lose their delimiters, so that readers see
the SQL inside.
"""

import re
from itertools import islice

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.schema.ddl.tokens import Kind, Token

_COMMENT_OPEN = "/*!"
_FEATURE_OPEN = "/*T!"


class _Tokenizer(MySQL.Tokenizer):
    """Scans without sqlglot's keywords and without statements that it keeps as one token."""

    KEYWORDS = {  # noqa: RUF012 - as sqlglot declares it
        _COMMENT_OPEN: TokenType.BLOCK_START,
        _FEATURE_OPEN: TokenType.BLOCK_START,
        "*/": TokenType.BLOCK_END,
    }
    COMMANDS = set()  # noqa: RUF012


class _LiteralTokenizer(_Tokenizer):
    """Scans strings in which a backslash is an ordinary character."""

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

# Several times as many as the statement for the largest table has; scanning them takes seconds.
_MAX_TOKENS = 200_000
# About one token: a literal or quoted name, a word, or another character.
_PIECE = re.compile(r"""'[^']*+'|"[^"]*+"|`[^`]*+`|\w++|[^\w\s]""")

# An executable comment starts with a MySQL version of five or six digits.
_VERSION_DIGITS = (5, 6)


def scan(sql: str) -> list[Token]:
    """Return the tokens of a text; raise `UnreadableDdl` if that is impossible."""
    if len(sql) > _MAX_TOKENS and next(islice(_PIECE.finditer(sql), _MAX_TOKENS, None), None):
        raise UnreadableDdl(f"the statement has more than {_MAX_TOKENS:,} words and signs", sql)
    if "\\" not in sql:
        return _scan(sql, _Tokenizer)
    # TiCDC prints statements from their parse tree and doubles quotes but not backslashes.  In such
    # a text a backslash is an ordinary character; in a text that a user typed it is an escape.
    try:
        tokens = _scan(sql, _LiteralTokenizer)
    except UnreadableDdl:
        return _scan(sql, _Tokenizer)
    return tokens if _is_printed_by_tidb(sql, tokens) else _scan(sql, _Tokenizer)


def _scan(sql: str, tokenizer: type[_Tokenizer]) -> list[Token]:
    try:
        scanned = tokenizer(dialect="mysql").tokenize(sql)
    except SqlglotError as error:
        raise UnreadableDdl(f"the text cannot be split into tokens ({error})", sql) from None
    tokens: list[Token] = []
    open_comments = 0
    position = 0
    while position < len(scanned):
        token = scanned[position]
        position += 1
        if token.token_type is TokenType.BLOCK_START:
            open_comments += 1
            position = _skip_comment_head(scanned, position)
        elif token.token_type is TokenType.BLOCK_END:
            open_comments -= 1
            if open_comments < 0:
                raise UnreadableDdl("'*/' without a comment", sql)
        else:
            tokens.append(_convert_token(token, sql))
    if open_comments:
        raise UnreadableDdl("a comment has no end", sql)
    return tokens


def _skip_comment_head(tokens: list[SqlglotToken], position: int) -> int:
    """Skip the version or the `[feature,…]` directly after the start of an executable comment."""
    if position == len(tokens) or tokens[position].start != tokens[position - 1].end + 1:
        return position
    first = tokens[position]
    if first.token_type is TokenType.NUMBER and len(first.text) in _VERSION_DIGITS:
        return position + 1
    if tokens[position - 1].text == _FEATURE_OPEN and first.token_type is TokenType.L_BRACKET:
        while position < len(tokens) and tokens[position].token_type is not TokenType.R_BRACKET:
            position += 1
        return position + 1
    return position


def _convert_token(token: SqlglotToken, sql: str) -> Token:
    start, end = token.start, token.end + 1
    kind = _KINDS.get(token.token_type, Kind.SYMBOL)
    text = token.text
    if kind is Kind.NUMBER and text[-1] in "eE":
        # `1e` is a name that starts with a digit.
        kind = Kind.WORD
    if kind is Kind.NAME and sql[start] != "`":
        # sqlglot marks an invalid hexadecimal or bit literal as a name.
        kind, text = Kind.WORD, sql[start:end]
    if kind is Kind.WORD:
        return Token(kind, text, text.upper(), start, end)
    return Token(kind, text, text if kind is Kind.SYMBOL else "", start, end)


def _is_printed_by_tidb(sql: str, tokens: list[Token]) -> bool:
    """Whether TiDB printed the text: upper-case keywords, single quotes, charset introducers."""
    previous = ""
    for token in tokens:
        if token.kind is Kind.WORD:
            # The values of options keep their case.
            if token.text != token.key and previous not in ("=", "COLLATE"):
                return False
        elif token.kind is Kind.STRING and (previous == "DEFAULT" or sql[token.start] != "'"):
            return False
        previous = token.key
    return True
