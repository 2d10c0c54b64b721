"""The rules of `sink.dispatchers`: topic, partition and name of the tables that they match."""

import re
from dataclasses import dataclass

from ticdc_assets.changefeed.toml import ChangefeedToml


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """A rule that picks topic and partition for the tables it matches; "" is the default."""

    matcher: tuple[str, ...]
    partition: str = ""
    topic: str = ""
    # Whether it sends tables under other names than they have upstream (`target-schema`).
    renames: bool = False


def read_dispatchers(toml: ChangefeedToml) -> tuple[Dispatcher, ...]:
    """Read the rules in their order."""
    dispatchers = []
    for row in toml.rows("sink.dispatchers"):
        old, new = row.text("dispatcher") or "", row.text("partition") or ""
        if old and new:
            raise row.error("is the old name of partition: set only one of them", "dispatcher")
        renames = row.is_set("target-schema") or row.is_set("target-table")
        topic = row.text("topic") or ""
        if re.search(r"[{}]", re.sub(r"\{(schema|table)\}", "", topic)):
            raise row.error("knows the placeholders {schema} and {table} only", "topic")
        dispatchers.append(Dispatcher(row.texts("matcher"), new or old, topic, renames))
    return tuple(dispatchers)
