"""What an erasure is of: a row, where its events and its rows are, and how they state its key."""

from collections.abc import Mapping
from dataclasses import dataclass

from ticdc_assets.erase.key_match import KeyColumns
from ticdc_assets.log.erasures import Place


@dataclass(frozen=True)
class Target:
    """A row that is to be erased, under all names of its table."""

    database: str
    table: str
    # The texts of its key, as `show` prints them.
    texts: tuple[str, ...]
    # By incarnation, the columns that the key had in its tables.
    tables: Mapping[str, KeyColumns]
    places: tuple[Place, ...]
    # The texts of the key in row images; a protocol may write another one than `show`.
    forms: frozenset[tuple[str | None, ...]]
    # Of the newest event of the row that has arrived; 0 without one.
    newest_ts: int
    # Texts of its values by which a search of bytes recognizes it.
    values: tuple[str, ...] = ()
