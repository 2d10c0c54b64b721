"""Match the columns of a current table with those of the table upstream."""

from dataclasses import dataclass

from ticdc_assets.errors import CONTENT_ERRORS, TicdcError, describe_content_error
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import list_delta_columns, list_stored_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.upstream.ddl_jobs import find_unfinished, read_table_id
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import (
    RowsUnreadable,
    TableUnreadable,
    UpstreamError,
    UpstreamSnapshot,
)
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.side import Comparison

# Kinds whose texts are the same: MariaDB says LONGTEXT of JSON.
TEXTS = ("text", "enum", "set", "json")
_UNFINISHED = (
    "it differs at this ts, at which TiDB is in the middle of a DDL of it, and readers see a part"
    " of that before its commit ts: verify it again after the next window: {}"
)
_KEY_HIDDEN = (
    "its key has columns of which the lake keeps only hashes ([changefeed.privacy]), so rows that"
    " are not the lake's cannot be found by it: {}"
)


class NotComparable(TicdcError):
    """The tables of the two sides cannot be compared row by row."""


class KeyHidden(TicdcError):
    """The lake has only hashes of the key, by which the rows of both sides are found."""


@dataclass(frozen=True)
class Match:
    """What can be compared of a table, and the columns that cannot be."""

    comparison: Comparison
    left_out: tuple[str, ...]


def match_columns(schema: TableSchema, upstream: UpstreamSnapshot) -> Match:
    """Match columns by name; raise `NotComparable` if one side has others, or other types."""
    theirs = _read_columns(schema, upstream)
    private = {fold_name(c.name): c.name for c in schema.columns if c.rule is not None}
    require_key(schema)
    theirs = {name: column for name, column in theirs.items() if name not in private}
    columns = [c for c in list_stored_columns(schema) if c.rule is None]
    ours = {fold_name(column.name) for column in columns}
    if missing := [name for name, _ in theirs.values() if fold_name(name) not in ours]:
        raise NotComparable(f"the lake lacks columns that upstream has: {', '.join(missing)}")
    if extra := [column.name for column in columns if fold_name(column.name) not in theirs]:
        raise NotComparable(f"upstream lacks columns that the lake has: {', '.join(extra)}")
    compared, left_out = [], [*private.values()]
    deltas = {delta.column: delta for delta in list_delta_columns(schema)}
    for column in columns:
        delta = deltas[column.name]
        name, type = theirs[fold_name(column.name)]
        kind, lake_kind = describe(type).kind, describe(column.type).kind
        if kind != lake_kind and not (kind in TEXTS and lake_kind in TEXTS):
            raise NotComparable(f"column {name} is {type.name} upstream, {column.type.name} here")
        if kind == "vector":
            # No server prints their numbers as another does.
            left_out.append(name)
        else:
            compared.append(ComparedColumn(name, type, delta, column.type))
    by_name = {fold_name(column.name): column for column in compared}
    key = tuple(by_name[fold_name(name)] for name in schema.key if fold_name(name) in by_name)
    if len(key) < len(schema.key):
        raise NotComparable("its key has a column that cannot be compared")
    lead = key[0] if key and key[0].kind == "integer" else None
    found = Comparison(schema.database, schema.table, tuple(compared), key, lead)
    return Match(found, tuple(left_out))


def require_key(schema: TableSchema) -> None:
    """Raise `KeyHidden` if the lake has only hashes of the key."""
    columns = (schema.column(name) for name in schema.key)
    hidden = [column.name for column in columns if column is not None and column.rule == "hash"]
    if hidden:
        raise KeyHidden(_KEY_HIDDEN.format(", ".join(hidden)))


def explain_unfinished(schema: TableSchema, upstream: UpstreamSnapshot) -> str | None:
    """Say which DDL upstream may show a part of that comes later in the changefeed, if one."""
    if not upstream.is_tidb:
        return None
    try:
        unfinished = find_unfinished(upstream.query)
    except (TableUnreadable, RowsUnreadable):
        # The user may not read which DDL there is.
        return None
    database, table = schema.database, schema.table
    id = read_table_id(upstream.query, database, table) if unfinished else None
    found = (each.sql for each in unfinished if each.concerns(database, table, id))
    return next(map(_UNFINISHED.format, found), None)


def _read_columns(
    schema: TableSchema, upstream: UpstreamSnapshot
) -> dict[str, tuple[str, ColumnType]]:
    """Read the names and types of the columns that have data, by folded name."""
    try:
        definition = read_definition(upstream.query, schema.database, schema.table)
    except TableUnreadable:
        raise NotComparable("upstream has no such table, or the user may not read it") from None
    except UpstreamError:
        # Not of this table: the server is lost.
        raise
    except CONTENT_ERRORS as error:
        raise NotComparable(describe_content_error(error)) from None
    columns = list_stored_columns(definition)
    return {fold_name(column.name): (column.name, column.type) for column in columns}
