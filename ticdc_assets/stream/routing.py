"""Find what a changefeed does with a table by its name: whether it sends it, and to which topic.

Matchers use the table filter syntax of TiDB's tools: `database.table`, where each part is a name
with the wildcards `*`, `?` and `[a-z]`, a quoted name, or a regular expression between slashes.  A
leading `!` excludes tables.  If several patterns match, the last one decides.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError

_ALLOWED = "[A-Za-z0-9._-]"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
# The longest topic name that Kafka allows.
_MAX_TOPIC_LENGTH = 249
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
# TiCDC matches case only with case-sensitive = true; in one TiDB no two names differ in case alone,
# so ignoring case is always right.
_FLAGS = re.IGNORECASE | re.DOTALL


# Kafka's own topics, which an expression that begins with a placeholder matches too.
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def list_topics(feed: Changefeed, existing: Iterable[str]) -> list[str]:
    """List the topics that a changefeed may write to.

    Those are its default topic, whether it exists or not, and every existing topic that an
    expression of its dispatchers can name.
    """
    expressions = [dispatcher.topic for dispatcher in feed.dispatchers if dispatcher.topic]
    found = {
        topic
        for topic in existing
        if topic not in _INTERNAL and any(_can_name(one, topic) for one in expressions)
    }
    return sorted(found | ({feed.topic} if feed.topic else set()))


def _can_name(expression: str, topic: str) -> bool:
    parts = _PLACEHOLDER.split(expression)
    pattern = "".join(
        f"{_ALLOWED}*" if _PLACEHOLDER.fullmatch(part) else re.escape(part) for part in parts
    )
    if re.fullmatch(pattern, topic):
        return True
    # A long name is cut off, so its end is missing.
    return len(topic) == _MAX_TOPIC_LENGTH and topic.startswith(parts[0])


def find_topic(feed: Changefeed, database: str, table: str) -> str | None:
    """Return the topic of the first dispatcher that matches the table, else the default topic."""
    for dispatcher in feed.dispatchers:
        if _matches(dispatcher.matcher, database, table, "sink.dispatchers"):
            if not dispatcher.topic:
                break
            return _expand_topic(dispatcher.topic, database, table)
    return feed.topic


def passes_filter(feed: Changefeed, database: str, table: str) -> bool:
    """Return whether the changefeed's filter lets a table through."""
    rules = feed.filter_rules
    return not rules or _matches(rules, database, table, "filter.rules")


def _expand_topic(expression: str, database: str, table: str) -> str:
    names = {"{schema}": database, "{table}": table}
    parts = _PLACEHOLDER.split(expression)
    topic = "".join(_FORBIDDEN.sub("_", names[p]) if p in names else p for p in parts)
    # Kafka does not allow these two names.
    return topic.replace(".", "_") if topic in (".", "..") else topic[:_MAX_TOPIC_LENGTH]


def _matches(patterns: tuple[str, ...], database: str, table: str, setting: str) -> bool:
    for pattern in reversed(patterns):
        of_database, of_table = _parse_pattern(pattern, setting)
        if of_database.search(database) and of_table.search(table):
            return not pattern.startswith("!")
    return False


@lru_cache(maxsize=1024)
def _parse_pattern(pattern: str, setting: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Parse `database.table` into one regular expression per part."""
    try:
        of_database, dot = _parse_part(pattern, pattern.startswith("!"))
        of_table, end = _parse_part(pattern, dot + 1)
        if pattern[dot : dot + 1] != "." or end != len(pattern):
            raise ValueError("expected database.table")
        return re.compile(of_database, _FLAGS), re.compile(of_table, _FLAGS)
    except (ValueError, re.error) as error:
        reason = f"matcher {pattern!r} cannot be parsed: {error}"
        raise ConfigError(reason, setting=setting) from None


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
