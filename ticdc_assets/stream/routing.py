"""Which topic a table's rows go to, by the changefeed's dispatchers.

Matchers are written as TiDB's tools all write table filters: `database.table`, where each part is a
name with the wildcards `*`, `?` and `[a-z]`, a quoted name, or a regular expression between
slashes; `!` in front refuses, and of several patterns the last that fits decides.
"""

import re
from functools import lru_cache

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 249
_PLACEHOLDER = re.compile(r"(\{schema\}|\{table\})")

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
# TiCDC minds the case of letters only where case-sensitive is set, and no two names of one TiDB
# differ in nothing else.
_FLAGS = re.IGNORECASE | re.DOTALL


def find_topic(feed: Changefeed, database: str, table: str) -> str | None:
    """The topic of the first dispatcher whose matcher takes the table, else the default topic."""
    for dispatcher in feed.dispatchers:
        if _takes(dispatcher.matcher, database, table):
            if not dispatcher.topic:
                break
            return _topic(dispatcher.topic, database, table)
    return feed.topic


def _topic(expression: str, database: str, table: str) -> str:
    names = {"{schema}": database, "{table}": table}
    parts = _PLACEHOLDER.split(expression)
    topic = "".join(_FORBIDDEN.sub("_", names[p]) if p in names else p for p in parts)
    # Kafka has no topics of these two names.
    return topic.replace(".", "_") if topic in (".", "..") else topic[:_LONGEST]


def _takes(patterns: tuple[str, ...], database: str, table: str) -> bool:
    for pattern in reversed(patterns):
        of_database, of_table = _read(pattern)
        if of_database.search(database) and of_table.search(table):
            return not pattern.startswith("!")
    return False


@lru_cache(maxsize=1024)
def _read(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Read `database.table`, each part as a regular expression."""
    try:
        of_database, dot = _part(pattern, pattern.startswith("!"))
        of_table, end = _part(pattern, dot + 1)
        if pattern[dot : dot + 1] != "." or end != len(pattern):
            raise ValueError("it must be database.table")
        return re.compile(of_database, _FLAGS), re.compile(of_table, _FLAGS)
    except (ValueError, re.error) as error:
        reason = f"matcher {pattern!r} cannot be read: {error}"
        raise ConfigError(reason, setting="sink.dispatchers") from None


def _part(pattern: str, start: int) -> tuple[str, int]:
    """Read one part from `start`: its regular expression, and where it ends."""
    regex = _REGEX.match(pattern, start)
    if regex is not None:
        return regex[1], regex.end()
    expression, end = "", start
    while token := _TOKEN.match(pattern, end):
        expression += _expression(token)
        end = token.end()
    if end == start:
        raise ValueError(f"there is no name at {pattern[start:]!r}")
    return rf"\A{expression}\Z", end


def _expression(token: re.Match[str]) -> str:
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
