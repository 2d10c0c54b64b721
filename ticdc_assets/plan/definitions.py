"""How upstream defines the tables of which the changefeed sent no CREATE, each at one ts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.state import State
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.stream.ordering import OrderKey, Phase


class Definition(Struct, frozen=True, kw_only=True):
    """How upstream defined a table at `ts`; it counts from there on.

    It comes right behind the DDLs of its ts.
    """

    # Numbers the definitions of a changefeed, from 1.
    id: int
    ts: int
    schema: TableSchema
    read_at: datetime


class Wanted(Struct, frozen=True):
    """A table whose definition at a ts is wanted."""

    ts: int
    database: str
    table: str
    # The schema version that has this definition, if rows state one.
    version: int | None = None
    # The lake takes the table through all later events, so upstream has to keep what it was.
    is_followed: bool = False


def want_before(place: OrderKey, database: str, table: str, version: int | None = None) -> Wanted:
    """Want the definition that a table has just before a place in the order."""
    ts, phase = place
    return Wanted(ts if phase > Phase.DEFINITIONS else ts - 1, database, table, version)


def find_wanted(
    state: State, changes: Iterable[SchemaChange], first_rows: Iterable[Wanted]
) -> dict[TableKey, Wanted]:
    """Find the tables that lack a definition.

    One that is known lacks it from where it is applied to.  Of one that only new events show, it is
    wanted just before the first: one of `changes`, or what `first_rows` want.
    """
    wanted = {table_key(each.database, each.table): each for each in _find_known(state)}
    known = {key for key, _ in state.names}
    created: dict[TableKey, int] = {}
    first: dict[TableKey, list[Wanted]] = defaultdict(list)
    for change in changes:
        for database, table, is_new in _list_names(change):
            key = table_key(database, table)
            if is_new:
                created[key] = min(change.commit_ts, created.get(key, change.commit_ts))
            else:
                first[key].append(want_before((change.commit_ts, Phase.DDLS), database, table))
    for row in first_rows:
        first[table_key(row.database, row.table)].append(row)
    for key, events in first.items():
        earliest = min(events, key=lambda event: event.ts)
        if key not in known and created.get(key, earliest.ts + 1) > earliest.ts:
            wanted[key] = earliest
    return wanted


def _find_known(state: State) -> Iterator[Wanted]:
    for _, id in state.names:
        table = state.incarnations[id]
        if not table.lacks_definition:
            continue
        ts = max(table.stopped_ts or 0, table.created_ts) if table.is_stopped else state.ts
        if ts:
            name = table.schema.database, table.schema.table
            yield Wanted(ts, *name, is_followed=not table.is_stopped)


def _list_names(change: SchemaChange) -> Iterator[tuple[str, str, bool]]:
    """List the tables that a DDL creates, and those whose columns and partitions it depends on.

    Any other DDL on a table that the lake does not know leaves nothing in it.
    """
    try:
        statements = read_ddl(change.sql)
    except UnreadableDdl:
        return
    for statement in statements:
        names: list[tuple[ddl.Name, bool]] = []
        match statement:
            case ddl.CreateTable(name):
                names = [(name, True)]
            case ddl.CreateTableLike(name, source):
                names = [(name, True), (source, False)]
            case ddl.AlterTable(name, (ddl.ExchangePartition() as exchange,)):
                names = [(name, False), (exchange.table, False)]
        for named, is_new in names:
            yield named.database or change.database, named.table, is_new
