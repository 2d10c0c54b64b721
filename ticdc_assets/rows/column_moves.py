"""What becomes of a table's Delta columns when DDLs change its columns."""

from collections.abc import Iterable, Sequence

from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import list_delta_columns, measure_decimal
from ticdc_assets.schema.conversion.convert import backfill, only_widens
from ticdc_assets.schema.effect import (
    ColumnAdded,
    ColumnChange,
    ColumnConverted,
    ColumnDropped,
    ColumnRenamed,
)
from ticdc_assets.schema.types.mysql_type import map_to_delta_type


def map_columns(
    before: TableSchema, steps: Sequence[ColumnChange], after: TableSchema
) -> dict[str, str]:
    """Map the Delta columns of a schema to those after column changes."""
    was = {column.column: column.name for column in list_delta_columns(before)}
    will_be = {column.column: column.name for column in list_delta_columns(after)}
    folded_names = {fold_name(name): name for name in will_be}
    moves = {}
    for old, new in _follow_columns(was, steps).items():
        spelt = new if new in will_be else folded_names.get(fold_name(new))
        if spelt is not None:
            moves[was[old]] = will_be[spelt]
    return moves


def _follow_columns(columns: Iterable[str], steps: Sequence[ColumnChange]) -> dict[str, str]:
    """Map columns to those that they are after steps."""
    now = {name: name for name in columns}
    for step in steps:
        back = {new: old for old, new in now.items()}
        match step:
            case ColumnDropped(name) if name in back:
                del now[back[name]]
            case ColumnRenamed(old, new) if old in back:
                # Rows may have shown the new name already: one column is left.
                now.pop(back.get(new, ""), None)
                now[back[old]] = new
    return now


def can_widen(old: str, new: str) -> bool:
    """Whether Delta can widen a type without rewriting rows."""
    whole = ("tinyint", "smallint", "int", "bigint")
    if old in whole and new in whole:
        return whole.index(old) <= whole.index(new)
    if old.startswith("decimal") and new.startswith("decimal"):
        (wide, scale), (wider, finer) = measure_decimal(old), measure_decimal(new)
        return finer >= scale and wider - finer >= wide - scale
    return old == new


def takes_new_files(steps: Iterable[ColumnChange]) -> bool:
    """Whether files of before have other names or types than the columns after steps.

    Delta maps and widens these; readers of Iceberg find columns by their names in files, and not
    all of them widen the types there.
    """
    for step in steps:
        match step:
            case ColumnDropped() | ColumnRenamed():
                return True
            case ColumnConverted(_, old, new):
                if map_to_delta_type(old) != map_to_delta_type(new):
                    return True
    return False


def _changes_texts(old: ColumnType, new: ColumnType) -> bool:
    """Whether stored texts are of another scale: those of decimals that no type of Delta holds."""
    is_text = map_to_delta_type(new) == "string"
    return new.name == "decimal" and is_text and old.decimals != new.decimals


def keeps_values(steps: Sequence[ColumnChange], ts: int) -> bool:
    """Whether steps keep the values of every row; raise `TicdcError` for an impossible step."""
    for step in steps:
        match step:
            case ColumnAdded(column, zone) if backfill(column, ts, zone) is not None:
                return False
            case ColumnConverted(_, old, new) if not (
                only_widens(old, new)
                and can_widen(map_to_delta_type(old), map_to_delta_type(new))
                and not _changes_texts(old, new)
            ):
                return False
    return True
