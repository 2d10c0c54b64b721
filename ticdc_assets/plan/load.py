"""A load as the plan sees it: a table that begins with the rows that upstream had at one ts."""

import re
from datetime import datetime

from msgspec import Struct

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.state import incarnation_id

_SUFFIX = "-load"


class Load(Struct, frozen=True, kw_only=True):
    """A table's rows at `ts`, read outside of the changefeed and written to a Delta table.

    They begin an incarnation of their own, whatever the lake knew of the table before: events up to
    `ts` are part of them, later ones follow.
    """

    # Numbers the loads of a changefeed, from 1.
    id: int
    ts: int
    incarnation: str
    schema: TableSchema
    # The Delta version of the incarnation's table that has the rows, and nothing else.
    version: int
    rows: int
    # Rows that could not be read.
    quarantined: int
    # Where the rows came from: an export, or the upstream database; without credentials.
    origin: str
    loaded_at: datetime


def name_loaded_incarnation(schema: TableSchema, ts: int) -> str:
    """Name the incarnation that a load at a ts begins: the lake adds a suffix per attempt."""
    return incarnation_id(schema.database, schema.table, ts) + _SUFFIX


def is_loaded(incarnation: str) -> bool:
    """Return whether a load began an incarnation, or wanted to."""
    return re.search(rf"{_SUFFIX}-[0-9a-f]+\Z", incarnation) is not None
