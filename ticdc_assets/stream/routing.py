"""Find what a changefeed does with a table by its name: whether it sends it, and to which topic."""

import re
from collections.abc import Iterable

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.errors import ConfigError

_ALLOWED = "[A-Za-z0-9._-]"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
# The longest topic name that Kafka allows.
_MAX_TOPIC_LENGTH = 249
_PLACEHOLDER = re.compile(r"(\{schema\}|\{table\})")

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
    try:
        return match_table(patterns, database, table)
    except ValueError as error:
        raise ConfigError(f"matcher {error}", setting=setting) from None
