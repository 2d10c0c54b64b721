"""Order the changes between two watermarks as TiCDC sends them to a topic.

TiCDC sends every table independently: the rows of a table up to a DDL are sent before it and later
rows after it, but the rows of other tables may be sent before a DDL that precedes them.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from ticdc_assets.demo.change import Change, ChangedRow, Ddl


class SentRow(NamedTuple):
    """A row to send."""

    ts: int
    change: ChangedRow


# Rows by the identity of their schema.
_Tables = dict[int, list[SentRow]]


def arrange_changes(
    changes: Iterable[Change], random: Random, ahead: float
) -> Iterator[list[list[SentRow]] | Ddl]:
    """Yield DDLs in order and, between them, rows table by table in random order."""
    stretches: list[_Tables] = [{}]
    ddls: list[Ddl] = []
    # The first stretch that may hold rows of a schema, and the stretch of its latest rows.
    earliest: dict[int, int] = {}
    chosen: dict[tuple[int, int], int] = {}
    for change in changes:
        if isinstance(change, Ddl):
            ddls.append(change)
            stretches.append({})
            for begun in change.after, change.exchanged and change.exchanged.after:
                if begun is not None:
                    earliest[id(begun)] = len(ddls)
            continue
        for row in change.rows:
            schema = id(row.table)
            place = chosen.get((schema, len(ddls)))
            if place is None:
                place, first = len(ddls), earliest.get(schema, 0)
                if first < place and random.random() < ahead:
                    place = first + int(random.random() * (place - first))
                chosen[schema, len(ddls)] = earliest[schema] = place
            stretches[place].setdefault(schema, []).append(SentRow(change.ts, row))
    for place, stretch in enumerate(stretches):
        tables = list(stretch.values())
        random.shuffle(tables)
        yield tables
        if place < len(ddls):
            yield ddls[place]
