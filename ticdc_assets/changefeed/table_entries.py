"""The entries of a list of tables in TOML, such as `[[changefeed.layout]]`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Entry = TypeVar("_Entry")


def read_entries(
    entries: Any, written: str, read: Callable[[Mapping[str, Any]], _Entry]
) -> tuple[_Entry, ...]:
    """Read each entry; raise a ValueError that begins with the number of the entry.

    `written` is how the owner writes an entry.
    """
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError(f"must be a list of tables, each written [[{written}]]")
    found = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(read(entry))
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from None
    return tuple(found)
