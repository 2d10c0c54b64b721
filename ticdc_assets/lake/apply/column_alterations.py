"""The ALTER TABLE actions that change a Delta table's columns and touch no row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.table_features import (
    COLUMN_MAPPING,
    TYPE_WIDENING,
    format_clustering,
    list_clustering_columns,
    list_needed_properties,
)
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.rows.column_moves import can_widen, map_columns
from ticdc_assets.rows.columns import DeltaColumn, fold_case, list_delta_columns
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.store.sql import quote_identifier, quote_literal


@dataclass(frozen=True)
class Alterations:
    """Actions in order, and the properties that the table needs before them."""

    needed: Sequence[Mapping[str, str]]
    actions: Sequence[str]


def list_alterations(
    before: TableSchema,
    steps: Sequence[ColumnChange],
    after: TableSchema,
    layout: Layout = PLAIN,
) -> Alterations:
    """List what takes the columns to those of a new schema; a converted column loses its values.

    The clustering becomes that of the layout.
    """
    was, wanted = (list_delta_columns(schema, layout) for schema in (before, after))
    moves = map_columns(before, steps, after)
    fitting = {column.name: column for column in wanted}
    moved = {
        column.name: fitting[moves[column.name]]
        for column in was
        if column.name in moves and can_widen(column.type, fitting[moves[column.name]].type)
    }
    gone = [column.name for column in was if column.name not in moved]
    renamed = {old: new.name for old, new in moved.items() if old != new.name}
    old_columns = {moved[column.name].name: column for column in was if column.name in moved}
    widened = [c for c in wanted if c.name in old_columns and old_columns[c.name].type != c.type]
    needed = list_needed_properties(wanted)
    if gone or renamed:
        needed.append(COLUMN_MAPPING)
    if widened:
        needed.append(TYPE_WIDENING)
    actions = []
    clusters = [list_clustering_columns(schema, layout) for schema in (before, after)]
    reclusters = bool(gone) or clusters[0] != clusters[1]
    if reclusters:
        actions.append("CLUSTER BY NONE")
    if gone:
        actions.append(f"DROP COLUMNS ({', '.join(map(quote_identifier, gone))})")
    actions += _rename(renamed)
    actions += [f"ALTER COLUMN {quote_identifier(c.name)} TYPE {c.type}" for c in widened]
    actions += _place([moved[column.name].name for column in was if column.name in moved], wanted)
    actions += [
        f"ALTER COLUMN {quote_identifier(c.name)} COMMENT {quote_literal(c.comment)}"
        for c in wanted
        if c.name in old_columns and old_columns[c.name].comment != c.comment
    ]
    if reclusters:
        actions.append(format_clustering(after, layout))
    return Alterations(needed, actions)


def _rename(names: Mapping[str, str]) -> Iterator[str]:
    """Rename columns, in cycles too."""
    waiting = dict(names)
    while waiting:
        taken = {fold_case(old) for old in waiting}
        free = next((old for old, new in waiting.items() if fold_case(new) not in taken), None)
        if free is None:
            old = next(iter(waiting))
            aside = f"{old}⌗aside"
            yield f"RENAME COLUMN {quote_identifier(old)} TO {quote_identifier(aside)}"
            waiting[aside] = waiting.pop(old)
            continue
        new = waiting.pop(free)
        yield f"RENAME COLUMN {quote_identifier(free)} TO {quote_identifier(new)}"


def _place(order: list[str], wanted: Sequence[DeltaColumn]) -> Iterator[str]:
    """Add missing columns, and put all of them into the wanted order."""
    for position, column in enumerate(wanted):
        where = f"AFTER {quote_identifier(wanted[position - 1].name)}" if position else "FIRST"
        name = quote_identifier(column.name)
        if column.name not in order:
            comment = quote_literal(column.comment)
            yield f"ADD COLUMNS ({name} {column.type} COMMENT {comment} {where})"
        elif order[position] == column.name:
            continue
        else:
            yield f"ALTER COLUMN {name} {where}"
            order.remove(column.name)
        order.insert(position, column.name)
