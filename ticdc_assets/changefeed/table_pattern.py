"""Patterns that select tables, in the table filter syntax of TiDB's tools.

A pattern is `database.table`, where each part is a name with the wildcards `*`, `?` and `[a-z]`, a
quoted name, or a regular expression between slashes.  A leading `!` excludes tables.  If several
patterns match, the last one decides.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

_REGEX = re.compile(r"/((?:[^/\\]|\\.)+)/", re.DOTALL)
_TOKEN = re.compile(
    r"""
      (?P<plain>[^][.\\/`"*?!@#]+)
    | (?P<wildcard>[*?])
    | \\(?P<escaped>.)
    | `(?P<back_quoted>(?:[^`]|``)+)`
    | "(?P<quoted>(?:[^"]|"")+)"
    | \[(?P<but>!?)(?P<one_of>(?:[^]\\]|\\.)+)\]
    """,
    re.DOTALL | re.VERBOSE,
)
# TiCDC matches case only with case-sensitive = true; in one TiDB no two names differ in case alone,
# so ignoring case is always right.
_FLAGS = re.IGNORECASE | re.DOTALL
_NO_TABLES = 'tables must be a list of patterns such as ["shop.*", "!shop.tmp"]'


def match_table(patterns: Sequence[str], database: str, table: str) -> bool:
    """Return whether patterns select a table; raise `ValueError` for what is no pattern."""
    pattern = find_pattern(patterns, database, table)
    return pattern is not None and not pattern.startswith("!")


def find_pattern(patterns: Sequence[str], database: str, table: str) -> str | None:
    """Return the pattern that decides whether a table is selected; None if none matches it."""
    for pattern in reversed(patterns):
        of_database, of_table = parse_pattern(pattern)
        if of_database.search(database) and of_table.search(table):
            return pattern
    return None


def read_patterns(patterns: Any) -> tuple[str, ...]:
    """Read the setting `tables` of an entry; raise `ValueError` if it is no list of patterns."""
    are_texts = isinstance(patterns, list) and all(isinstance(each, str) for each in patterns)
    if not are_texts or not patterns:
        raise ValueError(_NO_TABLES)
    for pattern in patterns:
        try:
            parse_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"tables: {error}") from None
    return tuple(patterns)


@lru_cache(maxsize=1024)
def parse_pattern(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Parse `database.table` into one regular expression per part, or raise `ValueError`."""
    try:
        of_database, dot = _parse_part(pattern, pattern.startswith("!"))
        of_table, end = _parse_part(pattern, dot + 1)
        if pattern[dot : dot + 1] != "." or end != len(pattern):
            raise ValueError("expected database.table")
        return re.compile(of_database, _FLAGS), re.compile(of_table, _FLAGS)
    except (ValueError, re.error) as error:
        raise ValueError(f"{pattern!r} cannot be parsed: {error}") from None


def _parse_part(pattern: str, start: int) -> tuple[str, int]:
    """Parse one part from `start` into its regular expression; return where it ends, too."""
    regex = _REGEX.match(pattern, start)
    if regex is not None:
        return regex[1], regex.end()
    expression, end = "", start
    while token := _TOKEN.match(pattern, end):
        expression += _translate_token(token)
        end = token.end()
    if end == start:
        raise ValueError(f"expected a name at {pattern[start:]!r}")
    return rf"\A{expression}\Z", end


def _translate_token(token: re.Match[str]) -> str:
    match token.lastgroup, token[token.lastgroup or 0]:
        case "wildcard", sign:
            return ".*" if sign == "*" else "."
        case "back_quoted", text:
            return re.escape(text.replace("``", "`"))
        case "quoted", text:
            return re.escape(text.replace('""', '"'))
        case "one_of", text:
            letters = (c if c == "-" else re.escape(c) for c in re.sub(r"\\(.)", r"\1", text))
            return f"[{'^' * bool(token['but'])}{''.join(letters)}]"
        case _, text:
            return re.escape(text)
