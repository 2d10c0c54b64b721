"""Find the faults of all changefeeds of a file; loading it stops at the first one."""

from pathlib import Path
from typing import NamedTuple

from ticdc_assets.changefeed.declaration import (
    Changefeed,
    declare,
    declared_twice,
    load_changefeeds,
)
from ticdc_assets.changefeed.entry import ChangefeedEntry
from ticdc_assets.changefeed.toml import read_toml
from ticdc_assets.errors import ConfigError


class Declarations(NamedTuple):
    """The changefeeds that are declared as they should be, and what is wrong with the others."""

    changefeeds: list[Changefeed]
    faults: list[ConfigError]


def read_declarations(path: Path) -> Declarations:
    """Read a changefeeds.toml as far as it can be read."""
    try:
        return Declarations(list(load_changefeeds(path).values()), [])
    except ConfigError as error:
        first = error
    try:
        entries = read_toml(path).get("changefeed")
    except ConfigError:
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return Declarations([], [first])
    changefeeds: dict[str, Changefeed] = {}
    faults: list[ConfigError] = []
    for number, entry in enumerate(entries, 1):
        try:
            feed = declare(ChangefeedEntry(entry, path, number))
        except ConfigError as error:
            faults.append(error)
        else:
            if feed.id in changefeeds:
                faults.append(declared_twice(path, feed.id))
            changefeeds.setdefault(feed.id, feed)
    # A fault of the file, or of entries taken together, shows in none of them.
    return Declarations(list(changefeeds.values()), faults or [first])
