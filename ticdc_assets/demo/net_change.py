"""The row changes of a transaction as TiCDC sends them: one per row, in its order, some split."""

from collections.abc import Callable, Iterable

from ticdc_assets.demo.change import ChangedRow, RowTexts, row_columns
from ticdc_assets.events import TableSchema

Moves = Callable[[RowTexts, RowTexts], bool]


def make_move_test(schema: TableSchema) -> Moves:
    """Return the test whether an update changes a unique index: TiCDC splits such updates."""
    unique = {name for index in schema.indexes if index.unique for name in index.columns}
    places = [place for place, c in enumerate(row_columns(schema)) if c.name in unique]
    return lambda old, new: any(old[place] != new[place] for place in places)


def arrange_rows(changes: Iterable[ChangedRow], moves: Moves) -> list[ChangedRow]:
    """Order the changes of one table: deletes, updates, inserts, and what splits insert again."""
    deletes: list[ChangedRow] = []
    updates: list[ChangedRow] = []
    inserts: list[ChangedRow] = []
    split: list[ChangedRow] = []
    for change in changes:
        table, old, new, partition = change
        if old is None:
            inserts.append(change)
        elif new is None:
            deletes.append(change)
        elif moves(old, new):
            deletes.append(ChangedRow(table, old, None, partition))
            split.append(ChangedRow(table, None, new, partition))
        else:
            updates.append(change)
    return deletes + updates + inserts + split
