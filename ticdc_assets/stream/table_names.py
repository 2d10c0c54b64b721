"""What is known of a table's name that nothing in a stream has: the filter, and similar names."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.sink_uri import list_choices
from ticdc_assets.changefeed.table_pattern import find_pattern
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.stream.routing import passes_filter

_MOST_SIMILAR = 3
_LEAST_RATIO = 0.6


def split_name(name: str) -> list[tuple[str, str]]:
    """Return the databases and tables that `db.table` can name: names may contain dots."""
    parts = name.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names most like one, or an empty text."""
    ratios = {each: _compare(fold_name(name), fold_name(each)) for each in sorted(known)}
    similar = [each for each in ratios if ratios[each] >= _LEAST_RATIO]
    similar.sort(key=lambda each: -ratios[each])
    return f"; did you mean {list_choices(similar[:_MOST_SIMILAR])}?" if similar else ""


def _compare(one: str, other: str) -> float:
    """Return how similar two names are: as the less similar of database and table is.

    The same table in another database is similar, too.
    """
    pairs = tuple(zip(one.partition(".")[::2], other.partition(".")[::2], strict=True))
    database, table = (SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return max(_LEAST_RATIO, database) if table == 1 else min(database, table)


def explain_filter(feed: Changefeed, name: str) -> str | None:
    """Say which of a changefeed's rules keeps a table out of it; None if none does.

    The rules are about names upstream, which `target-schema` and `target-table` change.
    """
    pairs = split_name(name)
    if feed.renames_tables or not pairs or any(passes_filter(feed, *pair) for pair in pairs):
        return None
    rule = find_pattern(feed.filter_rules, *pairs[0])
    which = "no rule lets it through" if rule is None else f"the rule {rule!r}"
    return f"filter.rules keep it out of the changefeed: {which}"


def explain_absence(feed: Changefeed | None, name: str, known: Iterable[str]) -> str:
    """Say why nothing of a table may have been sent, and which tables have similar names."""
    filtered = None if feed is None else explain_filter(feed, name)
    return filtered or (
        f"the changefeed has sent nothing of a table of this name{suggest(name, known)}"
    )
