"""The list `[[changefeed.layout]]`: how the Delta tables of some tables are laid out.

Of several entries that select a table, the last one that has a setting decides on it.  A table that
none selects has what the lake chooses by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ticdc_assets.changefeed.sink_uri import list_choices, nearest
from ticdc_assets.changefeed.table_entries import read_entries
from ticdc_assets.changefeed.table_pattern import match_table, read_patterns
from ticdc_assets.safe_text import quote_given

BigintUnsigned = Literal["decimal", "bigint"]
_BIGINTS = ("decimal", "bigint")
_SETTINGS = ("bigint-unsigned", "not-null", "cluster-by")
_NAMES = ("tables", *_SETTINGS)
_FIELDS = ("bigint_unsigned", "not_null", "cluster_by")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The layout of the tables that patterns select; None is what an entry does not state."""

    tables: tuple[str, ...] = ()
    bigint_unsigned: BigintUnsigned | None = None
    not_null: bool | None = None
    # A column, as it is named upstream.
    cluster_by: str | None = None


def find_layout(layouts: Iterable[TableLayout], database: str, table: str) -> TableLayout:
    """Return what the entries say of a table together."""
    found = TableLayout()
    for each in layouts:
        if match_table(each.tables, database, table):
            stated = {name: value for name in _FIELDS if (value := getattr(each, name)) is not None}
            found = replace(found, **stated)
    return found


def read_layouts(entries: Any) -> tuple[TableLayout, ...]:
    """Read the list; raise a ValueError that begins with the entry's number and the name."""
    return read_entries(entries, "changefeed.layout", _read_layout)


def _read_layout(entry: Mapping[str, Any]) -> TableLayout:
    for name in entry:
        if name not in _NAMES:
            raise ValueError(f"{name} is not one of its settings{nearest(name, _NAMES)}")
    if not entry.keys() & set(_SETTINGS):
        raise ValueError(f"states nothing: set {list_choices(_SETTINGS)}, or remove it")
    bigints, not_null = entry.get("bigint-unsigned"), entry.get("not-null")
    if bigints is not None and bigints not in _BIGINTS:
        reason = f"bigint-unsigned must be {list_choices(_BIGINTS)}"
        raise ValueError(f"{reason}, not {quote_given(str(bigints))}")
    if not_null is not None and not isinstance(not_null, bool):
        raise ValueError("not-null must be true or false, without quotes")
    column = entry.get("cluster-by")
    if column is not None and (not isinstance(column, str) or not column):
        raise ValueError('cluster-by must be the name of one column, such as "created_at"')
    patterns = read_patterns(entry.get("tables", ["*.*"]))
    return TableLayout(patterns, cast(BigintUnsigned | None, bigints), not_null, column)
