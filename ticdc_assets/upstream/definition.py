"""How upstream defines a table: its SHOW CREATE TABLE, by the reader of all DDL."""

from collections.abc import Callable, Sequence

from ticdc_assets.dumpling.table_schema import read_table_schema
from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.upstream.ddl_jobs import find_unfinished, read_table_id
from ticdc_assets.upstream.snapshot import Row, UpstreamRows
from ticdc_assets.upstream.sql import quote

_LONGEST_NAME = 64


def read_definition(
    query: Callable[[str], Sequence[Row]],
    database: str,
    table: str,
    catalog: SchemaCatalog | None = None,
) -> TableSchema:
    """Read the schema of a table, with an empty catalog if that has settings.

    Raise `InvalidValue` or another error of its content if it cannot be read, or what the query
    raises.
    """
    for name in (database, table):
        if not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
            raise InvalidValue(f"{name[:80]!r} is not the name of a table or database")
    rows = query(f"SHOW CREATE TABLE {quote(database)}.{quote(table)}")
    if not rows or len(rows[0]) < 2 or rows[0][1] is None:
        raise MalformedMessage(f"the server does not show how to create {table[:80]!r}")
    # It states charset and collation, whatever those of the database are.
    schema = read_table_schema(database, table, None, rows[0][1], catalog or SchemaCatalog())
    return require_known_types(schema)


def read_definition_at(upstream: UpstreamRows, database: str, table: str, ts: int) -> TableSchema:
    """Read the schema that a table has in its changefeed at a TSO, as `read_definition` does.

    A DDL that is not finished then has done nothing yet, whatever readers see of it.
    """
    upstream.read_at(ts)
    unfinished = find_unfinished(upstream.query)
    now = read_table_id(upstream.query, database, table) if unfinished else None
    for statement in unfinished:
        upstream.read_at(statement.start_ts)
        before = read_table_id(upstream.query, database, table)
        if any(statement.concerns(database, table, id) for id in (now, before)):
            return read_definition(upstream.query, database, table)
        upstream.read_at(ts)
    return read_definition(upstream.query, database, table)
