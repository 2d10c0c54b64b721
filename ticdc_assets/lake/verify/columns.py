"""Match the columns of a current table with those of the table upstream."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue, TicdcError
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.columns.types import list_delta_columns, list_stored_columns
from ticdc_assets.lake.upstream.snapshot import UpstreamSnapshot
from ticdc_assets.lake.upstream.sql import quote_text
from ticdc_assets.lake.verify.canonical import ComparedColumn
from ticdc_assets.lake.verify.side import Comparison
from ticdc_assets.schema.types.mysql_type import describe, parse_type

# Kinds whose texts are the same: MariaDB says LONGTEXT of JSON.
_TEXTS = ("text", "enum", "set", "json")


class NotComparable(TicdcError):
    """The tables of the two sides cannot be compared row by row."""


@dataclass(frozen=True)
class Match:
    """What can be compared of a table, and the columns that cannot be."""

    comparison: Comparison
    left_out: tuple[str, ...]


def match_columns(schema: TableSchema, upstream: UpstreamSnapshot) -> Match:
    """Match columns by name; raise `NotComparable` if one side has others, or other types."""
    theirs = _read_columns(schema, upstream)
    if not theirs:
        raise NotComparable("upstream has no such table, or the user may not read it")
    columns = list_stored_columns(schema)
    ours = {fold_name(column.name) for column in columns}
    if missing := [name for name, _ in theirs.values() if fold_name(name) not in ours]:
        raise NotComparable(f"the lake lacks columns that upstream has: {', '.join(missing)}")
    if extra := [column.name for column in columns if fold_name(column.name) not in theirs]:
        raise NotComparable(f"upstream lacks columns that the lake has: {', '.join(extra)}")
    compared, left_out = [], []
    for column, delta in zip(columns, list_delta_columns(schema), strict=True):
        name, type = theirs[fold_name(column.name)]
        kind, lake_kind = describe(type).kind, describe(column.type).kind
        if kind != lake_kind and not (kind in _TEXTS and lake_kind in _TEXTS):
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


def _read_columns(
    schema: TableSchema, upstream: UpstreamSnapshot
) -> dict[str, tuple[str, ColumnType]]:
    """Read the names and types of the columns that have data, by folded name."""
    rows = upstream.query(
        "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, EXTRA FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = {quote_text(schema.database)}"
        f" AND TABLE_NAME = {quote_text(schema.table)} ORDER BY ORDINAL_POSITION"
    )
    columns = {}
    for name, declared, charset, extra in _decode(rows):
        if "VIRTUAL" in extra.upper():
            continue
        try:
            type = parse_type(declared)
        except InvalidValue as error:
            raise NotComparable(f"column {name}: {error.reason}") from None
        columns[fold_name(name)] = (name, replace(type, charset=charset or None))
    return columns


def _decode(rows: Sequence[tuple[bytes | None, ...]]) -> list[tuple[str, str, str, str]]:
    return [
        (name, declared, charset, extra)
        for name, declared, charset, extra in (
            [(value or b"").decode(errors="surrogateescape") for value in row] for row in rows
        )
    ]
