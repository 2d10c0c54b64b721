"""Which topic a table's rows go to, by the changefeed's dispatchers."""

from fnmatch import fnmatchcase

from ticdc_assets.changefeed import Changefeed

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 249


def topic_of(feed: Changefeed, database: str, table: str) -> str | None:
    """The topic of the first dispatcher whose matcher takes the table, else the default topic."""
    for dispatcher in feed.dispatchers:
        if _matches(dispatcher.matcher, database, table):
            if not dispatcher.topic:
                break
            name = dispatcher.topic.replace("{schema}", database).replace("{table}", table)
            return "".join(c if c in _ALLOWED else "_" for c in name)[:_LONGEST]
    return feed.topic


def _matches(patterns: tuple[str, ...], database: str, table: str) -> bool:
    """Whether the last pattern that speaks of the table takes it (`!` refuses it)."""
    for pattern in reversed(patterns):
        wanted = pattern.removeprefix("!").casefold().replace("`", "").replace('"', "")
        of_database, _, of_table = wanted.partition(".")
        names = ((database, of_database), (table, of_table))
        if all(fnmatchcase(name.casefold(), part) for name, part in names):
            return not pattern.startswith("!")
    return False
