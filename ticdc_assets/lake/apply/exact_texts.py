"""The exact texts of inexact values, which a current table keeps in the map `_inexact`, in Spark.

The map has the names of Delta columns, and appears in a table with its first such value.
"""

from collections.abc import Mapping

from ticdc_assets.events import TableSchema
from ticdc_assets.rows.columns import INEXACT, DeltaColumn, list_delta_columns
from ticdc_assets.store.sql import quote_identifier, quote_literal

MAP = "map<string, string>"
_TYPES = ("string", "date", "timestamp", "timestamp_ntz")


def can_be_inexact(column: DeltaColumn) -> bool:
    """Return whether a column may have values that it cannot hold exactly."""
    return column.type in _TYPES


def list_moved(before: TableSchema, moves: Mapping[str, str]) -> dict[str, str] | None:
    """List the columns that may have entries, with their new names; None if none has another.

    `moves` maps the columns of a schema to those after a DDL, and lacks those that it drops.
    """
    names = [column.name for column in list_delta_columns(before) if can_be_inexact(column)]
    moved = {name: moves[name] for name in names if name in moves}
    return None if all(moved.get(name) == name for name in names) else moved


def format_moved_map(moved: Mapping[str, str]) -> str:
    """Format as SQL the map of a row after its columns have moved."""
    if not moved:
        return f"CAST(NULL AS {MAP})"
    new_names = ", ".join(quote_literal(name) for pair in moved.items() for name in pair)
    kept = quote_identifier(INEXACT)
    return (
        f"CASE WHEN exists(map_keys({kept}), k -> map({new_names})[k] IS NOT NULL)"
        f" THEN map_from_entries(filter(transform(map_entries({kept}),"
        f" e -> struct(map({new_names})[e.key] AS key, e.value AS value)),"
        f" e -> e.key IS NOT NULL)) END"
    )
