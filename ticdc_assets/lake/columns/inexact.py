"""The values that their Delta column cannot hold exactly: dates that are none, bytes not in UTF-8.

A current table keeps them in the map `_inexact`, from the first such value on: the name of the
Delta column, and the exact text.  While rows are worked on, `_inexact` is an array of the map's
entries, sorted by column, because maps cannot be compared; it is NULL where a row has none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.expressions import any_of, combine_pairwise
from ticdc_assets.lake.store.sql import quote_identifier, quote_literal
from ticdc_assets.rows.columns import INEXACT, DeltaColumn, list_delta_columns

MAP = "map<string, string>"
ENTRIES = "array<struct<key: string, value: string>>"
_TYPES = ("string", "date", "timestamp", "timestamp_ntz")

# Returns a column by its name: of a frame, of a struct.
GetColumn = Callable[[str], Column]


def can_be_inexact(column: DeltaColumn) -> bool:
    """Return whether a column may have values that it cannot hold exactly."""
    return column.type in _TYPES


def make_entries(texts: Mapping[str, tuple[Column, Column]]) -> Column:
    """Make the entries of a row: of some columns, whether the value is inexact, and its text."""
    if not texts:
        return F.lit(None).cast(ENTRIES)
    entries = (
        F.when(inexact, F.struct(F.lit(name).alias("key"), text.alias("value")))
        for name, (inexact, text) in sorted(texts.items())
    )
    is_needed = any_of(inexact for inexact, _ in texts.values())
    return F.when(is_needed, F.array_compact(F.array(*entries))).cast(ENTRIES)


def count_entries() -> Column:
    """Count the inexact values of a row."""
    return F.coalesce(F.array_size(INEXACT), F.lit(0))


def read_entries(rows: DataFrame) -> DataFrame:
    """Return the rows of a current table with their entries, whether it has the map or not."""
    entries = F.sort_array(F.map_entries(INEXACT)) if INEXACT in rows.columns else F.lit(None)
    return rows.withColumn(INEXACT, entries.cast(ENTRIES))


def get_exact_text(column: str, entries: Column) -> Column:
    """Return the exact text of a column; NULL where the column holds the value itself."""
    return F.map_from_entries(entries).getItem(column)


def identify(columns: Iterable[DeltaColumn], get: GetColumn) -> list[Column]:
    """Return what distinguishes the values of columns: each value, and its exact text."""
    found = []
    for column in columns:
        found.append(get(column.name))
        if can_be_inexact(column):
            found.append(get_exact_text(column.name, get(INEXACT)))
    return found


def has_value(column: DeltaColumn, get: GetColumn) -> Column:
    """Return whether a column is not NULL upstream."""
    return any_of(part.isNotNull() for part in identify([column], get))


def get_column(name: str) -> Column:
    """Return a column of the frame at hand."""
    return F.col(quote_identifier(name))


def get_from(rows: DataFrame) -> GetColumn:
    """Return the function that returns the columns of a frame."""
    return lambda name: rows[quote_identifier(name)]


def are_equal(left: Sequence[Column], right: Sequence[Column]) -> Column:
    """Return whether columns are equal pair by pair, NULLs included: a zero date is a NULL."""
    return combine_pairwise(
        and_, (one.eqNullSafe(other) for one, other in zip(left, right, strict=True))
    )


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


def move_entries(rows: DataFrame, moved: Mapping[str, str] | None) -> DataFrame:
    """Return rows with their entries under the new names of columns."""
    if moved is None:
        return rows
    stored = rows.withColumn(INEXACT, F.map_from_entries(INEXACT))
    return read_entries(stored.withColumn(INEXACT, F.expr(format_moved_map(moved))))
