"""How upstream defines the tables of which the changefeed sent no CREATE, each at one ts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import SchemaChange, TableSchema
from ticdc_assets.plan.state import State
from ticdc_assets.schema.catalog import TableKey, key_of, table_key
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.name_resolution import list_renames
from ticdc_assets.stream.ordering import OrderKey, Phase

# What leaves a table that was there before.
_LEAVING = (ddl.AlterTable, ddl.RenameTables, ddl.TruncateTable)


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
    wanted at the first: what `first_rows` want, or one of `changes`, which needs it or states the
    table's schema.
    """
    wanted = {table_key(each.database, each.table): each for each in _find_known(state)}
    known = {key for key, _ in state.names}
    created: dict[TableKey, int] = {}
    first: dict[TableKey, list[Wanted]] = defaultdict(list)
    changes = list(changes)
    for each in _find_stated(known, changes):
        first[table_key(each.database, each.table)].append(each)
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
    """List the tables that a DDL creates, and those whose columns and partitions it depends on."""
    for statement in _read(change):
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


def _find_stated(known: Collection[TableKey], changes: Sequence[SchemaChange]) -> Iterator[Wanted]:
    """Want the definition of each table that a DDL leaves in the lake, by the schema it states.

    Without one, a DDL on a table that the lake does not know leaves nothing.  The definition comes
    behind the DDL, of which readers may see a part before its ts: but for TRUNCATE, which shows at
    its ts alone, and begins a table that lacks no row and is not defined any more.
    """
    # A known table has its definition under its later names, too.
    known = set(known)
    # Of the renames of one ts, one may give a name that another one takes away again.
    taken: set[tuple[int, TableKey]] = set()
    found: list[Wanted] = []
    for change in sorted(changes, key=lambda change: change.commit_ts):
        for statement in _read(change):
            olds = {
                table_key(old.database or change.database, old.table)
                for old, _ in list_renames(statement)
            }
            taken |= {(change.commit_ts, old) for old in olds}
            was_known = known & olds
            known -= olds
            if change.schema is None:
                continue
            key = key_of(change.schema)
            if isinstance(statement, _LEAVING) and not was_known and key not in known:
                empties = isinstance(statement, ddl.TruncateTable)
                phase = Phase.DDLS if empties else Phase.AFTER_DDLS
                name = change.schema.database, change.schema.table
                found.append(want_before((change.commit_ts, phase), *name))
            known.add(key)
    for each in found:
        if (each.ts, table_key(each.database, each.table)) not in taken:
            yield each


def _read(change: SchemaChange) -> Sequence[ddl.Statement]:
    try:
        return read_ddl(change.sql)
    except UnreadableDdl:
        return ()
