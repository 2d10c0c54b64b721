"""The list `[[changefeed.archive]]`: which deletes of which tables are kept as rows.

Of several entries that select a table, the last one decides.  Tables that none selects have the
rows that they have upstream, and no others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ticdc_assets.changefeed.sink_uri import list_choices, nearest
from ticdc_assets.changefeed.table_entries import read_entries
from ticdc_assets.changefeed.table_pattern import match_table, read_patterns
from ticdc_assets.safe_text import quote_given

# "rows"            DELETE, whoever runs it: a person, a program, a TTL job
# "truncate"        TRUNCATE TABLE
# "drop-partition"  DROP PARTITION and TRUNCATE PARTITION
Deletes = Literal["rows", "truncate", "drop-partition"]
ALL_DELETES: tuple[Deletes, ...] = get_args(Deletes)
_NAMES = ("tables", "deletes")


@dataclass(frozen=True, slots=True)
class TableArchive:
    """Which deletes of the tables that patterns select are kept as rows."""

    tables: tuple[str, ...]
    deletes: tuple[Deletes, ...] = ALL_DELETES


def find_kept_deletes(
    archives: Iterable[TableArchive], database: str, table: str
) -> tuple[Deletes, ...]:
    """Return which deletes of a table are kept."""
    found: tuple[Deletes, ...] = ()
    for each in archives:
        if match_table(each.tables, database, table):
            found = each.deletes
    return found


def read_archives(entries: Any) -> tuple[TableArchive, ...]:
    """Read the list; raise a ValueError that begins with the entry's number and the name."""
    return read_entries(entries, "changefeed.archive", _read_archive)


def _read_archive(entry: Mapping[str, Any]) -> TableArchive:
    for name in entry:
        if name not in _NAMES:
            raise ValueError(f"{name} is not one of its settings{nearest(name, _NAMES)}")
    if "tables" not in entry:
        raise ValueError('tables is missing: name tables, such as ["shop.sessions", "log.*"]')
    return TableArchive(read_patterns(entry["tables"]), _read_deletes(entry))


def _read_deletes(entry: Mapping[str, Any]) -> tuple[Deletes, ...]:
    deletes = entry.get("deletes", [*ALL_DELETES])
    if not isinstance(deletes, list) or not deletes:
        raise ValueError('deletes must be a list such as ["rows", "drop-partition"]')
    for name in deletes:
        if name not in ALL_DELETES:
            choices = list_choices(ALL_DELETES)
            raise ValueError(f"deletes may have {choices}, not {quote_given(str(name))}")
    return tuple(name for name in ALL_DELETES if name in deletes)
