"""The names whose rows wait for tables that stopped, or would wait, had no load replaced them."""

from collections import defaultdict
from typing import NamedTuple

import pyarrow.compute as pc

from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import OpenTables


class Stopped(NamedTuple):
    """A name whose rows wait, between two commit ts, for a table that stopped.

    Or would wait, had a load not replaced the table.
    """

    name: str
    after_ts: int
    through_ts: int
    is_replaced: bool


def list_stopped_tables(state: State) -> list[Incarnation]:
    """Return the tables that are stopped, or were when they were dropped."""
    tables = state.incarnations.values()
    return [table for table in tables if table.is_stopped or table.status_before_drop is not None]


def list_stopped_names(opened: OpenTables, state: State) -> list[Stopped]:
    """Return names with the commit ts after which, and up to which, their rows wait."""
    stopped = [
        Stopped(make_table_name(u.database, u.table) or "", u.stopped_ts, state.ts, False)
        for u in state.unknown_tables
    ]
    tables = list_stopped_tables(state)
    if not tables:
        return stopped
    ids = [table.id for table in tables]
    called = opened.read(
        *("schema_history", "incarnation", "database", "table", "valid_from", "valid_to"),
        where=pc.field("incarnation").isin(ids),
    )
    names = defaultdict(list)
    for row in called.to_pylist():
        name = make_table_name(row["database"], row["table"]) or ""
        through = state.ts if row["valid_to"] is None else row["valid_to"]
        if through > row["valid_from"] or row["valid_to"] is None:
            names[row["incarnation"]].append((name, row["valid_from"], through))
    for table in tables:
        since, end = table.stopped_ts or 0, table.dropped_ts or state.ts
        own = make_table_name(table.schema.database, table.schema.table) or ""
        lives = names[table.id] or [(own, 0, end)]
        first = min(lives, key=lambda life: life[1])
        for life in lives:
            # Rows of the first life may be older than what is known of the table.
            low = since if life is first else max(since, life[1])
            end_of_life = min(end, life[2])
            stopped.append(Stopped(life[0], low, end_of_life, table.is_replaced))
    return stopped
