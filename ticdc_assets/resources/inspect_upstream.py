"""Inspect the declared database upstream: it answers, and lets its user read the tables."""

from collections.abc import Iterator, Sequence

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso import compose
from ticdc_assets.resources.finding import Finding, blame, note
from ticdc_assets.resources.upstream import UpstreamDatabase, find_upstream
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.routing import passes_filter
from ticdc_assets.upstream.ddl_jobs import explain_hidden_jobs
from ticdc_assets.upstream.snapshot import RowsUnreadable, TableUnreadable, UpstreamRows
from ticdc_assets.upstream.sql import SYSTEM_DATABASES, decode, quote

_GRANT = "grant the user SELECT on the tables of the changefeed"
_OTHER = "grant the user SELECT on them, or declare the database that the changefeed reads"
# How many tables `check` reads, and how many a message names.
_MOST_READ, _MOST_NAMED = 100, 5
_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND LOWER(TABLE_SCHEMA) NOT IN ({}) ORDER BY 1, 2"
)
# A moment ago, by the clock of the server.
_MOMENT = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 2000"

_Name = tuple[str, str]


def inspect_upstream(feed: Changefeed, root: str) -> list[Finding]:
    """Read the tables of a changefeed upstream, no row of them; [] if it declares no database."""
    if feed.upstream is None:
        return []
    database = find_upstream(feed)
    try:
        with database.open_rows() as rows:
            return list(_inspect(feed, database, rows, _list_lake_tables(Lake(root, feed.id))))
    except ConfigError as error:
        return [blame("failure", "upstream", error, changefeed=feed.id)]


def _inspect(
    feed: Changefeed,
    database: UpstreamDatabase,
    rows: UpstreamRows,
    of_lake: dict[TableKey, str],
) -> Iterator[Finding]:
    place, server = database.upstream.address, "TiDB" if rows.is_tidb else "MySQL or MariaDB"
    if rows.is_tidb:
        # Before tables are listed: one that is younger cannot be read there.
        ((moment,),) = rows.query(_MOMENT)
        rows.read_at(compose(int(moment or 0)))
    listed = ", ".join(f"'{name}'" for name in SYSTEM_DATABASES)
    seen = [(decode(row[0]), decode(row[1])) for row in rows.query(_TABLES.format(listed))]
    tables = [name for name in seen if passes_filter(feed, *name)]
    if not tables:
        reason = f"{server} at {place} shows this user no table that the changefeed sends"
        error = ConfigError(reason, setting=database.place("user"))
        yield blame("failure", "upstream", error, _GRANT, feed.id)
        return
    if rows.is_tidb and (hidden := explain_hidden_jobs(rows.query)) is not None:
        error = ConfigError(hidden, setting=database.place("user"))
        yield blame("warning", "upstream", error, changefeed=feed.id)
    unreadable = list(_find_unreadable(rows, tables[:_MOST_READ]))
    if unreadable:
        error = ConfigError(f"cannot read {_name(unreadable)}", setting=database.place("user"))
        yield blame("failure", "upstream", error, _GRANT, feed.id)
    known = {table_key(*name) for name in seen}
    missing = [name for key, name in of_lake.items() if key not in known]
    if missing:
        reason = f"{server} at {place} does not show this user {_name(missing)} of the lake"
        error = ConfigError(reason, setting=database.place("user"))
        yield blame("warning", "upstream", error, _OTHER, feed.id)
    if not unreadable:
        count = f"{len(tables):,} tables"
        if len(tables) > _MOST_READ:
            count += f", of which {_MOST_READ} were read"
        yield note("upstream", f"{server} at {place} shows this user {count}", feed.id)


def _find_unreadable(rows: UpstreamRows, tables: Sequence[_Name]) -> Iterator[str]:
    for database, table in tables:
        try:
            rows.query(f"SELECT 1 FROM {quote(database)}.{quote(table)} LIMIT 0")
        except (TableUnreadable, RowsUnreadable):
            yield f"{database}.{table}"


def _list_lake_tables(lake: Lake) -> dict[TableKey, str]:
    """List the tables that the lake keeps up to date; none if it cannot be read."""
    reader = LakeReader(lake)
    try:
        columns = ["database", "table", "status"]
        found = reader.read(reader.open("tables"), columns).to_pylist()
    except ConfigError:
        # `inspect_lake` says so.
        return {}
    return {
        table_key(row["database"], row["table"]): f"{row['database']}.{row['table']}"
        for row in found
        if row["status"] != "dropped"
    }


def _name(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - _MOST_NAMED:,} more" if len(tables) > _MOST_NAMED else ""
    return ", ".join(tables[:_MOST_NAMED]) + more
