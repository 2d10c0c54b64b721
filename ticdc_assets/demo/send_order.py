"""In which order a topic gets what happened between two watermarks.

TiCDC sends every table on its own: all rows of a table up to a statement go before it, those after
it behind it, but the rows of other tables know nothing of that statement and may be ahead of it.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from ticdc_assets.demo.change import Change, Ddl, RowChange


class Row(NamedTuple):
    """A row on its way."""

    ts: int
    change: RowChange


# Rows of one schema each, by the identity of that schema.
_Tables = dict[int, list[Row]]


def arranged(
    changes: Iterable[Change], random: Random, ahead: float
) -> Iterator[list[list[Row]] | Ddl]:
    """Give statements in order, and what goes between them: rows table by table, in some order."""
    stretches: list[_Tables] = [{}]
    ddls: list[Ddl] = []
    # In which stretch the rows of a schema may come first, and where the latest of them went.
    earliest: dict[int, int] = {}
    chosen: dict[tuple[int, int], int] = {}
    for change in changes:
        if isinstance(change, Ddl):
            ddls.append(change)
            stretches.append({})
            if change.after is not None:
                earliest[id(change.after)] = len(ddls)
            continue
        for row in change.rows:
            schema = id(row.table)
            place = chosen.get((schema, len(ddls)))
            if place is None:
                place, first = len(ddls), earliest.get(schema, 0)
                if first < place and random.random() < ahead:
                    place = first + int(random.random() * (place - first))
                chosen[schema, len(ddls)] = earliest[schema] = place
            stretches[place].setdefault(schema, []).append(Row(change.ts, row))
    for place, stretch in enumerate(stretches):
        tables = list(stretch.values())
        random.shuffle(tables)
        yield tables
        if place < len(ddls):
            yield ddls[place]
