"""Match the columns of a table with those of a copy; say of the others why not."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ticdc_assets.errors import CONTENT_ERRORS, describe_content_error
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import DeltaColumn, list_delta_columns, list_stored_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.upstream.definition import read_definition
from ticdc_assets.upstream.snapshot import TableUnreadable, UpstreamError
from ticdc_assets.verify.batch_side import ReadColumn
from ticdc_assets.verify.batches import RowSource, SqlTable
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.columns import TEXTS, NotComparable, require_key
from ticdc_assets.verify.copy_values import Incomparable, choose_reading
from ticdc_assets.verify.original import OriginalTable
from ticdc_assets.verify.side import Comparison

_NO_COLUMN = "the copy has no such column"
_EXTRA = "only the copy has it"
_PRIVATE = "[changefeed.privacy] has the rule {} for it"
_NO_KEY = "its key has columns that cannot be compared: {}"


@dataclass(frozen=True)
class CopyMatch:
    """What is compared, how each side is read, and which columns are left out, with the reasons.

    `ours` is what the original has chosen; `theirs` is empty if the database with the copy computes
    the sums.
    """

    comparison: Comparison
    ours: Mapping[ComparedColumn, Any]
    theirs: Mapping[ComparedColumn, ReadColumn]
    left_out: tuple[str, ...]


# A column as it is compared, how ours is read, and how theirs is.
_Pair = tuple[ComparedColumn, Any, ReadColumn | None]


def match_batches(ours: OriginalTable, theirs: RowSource) -> CopyMatch:
    """Match with the columns of batches, each by its type upstream."""
    names = list(theirs.columns)

    def match(column: Column, name: str, delta: DeltaColumn, alias: str) -> _Pair:
        reading = choose_reading(column.type, theirs.columns[name], alias)
        compared = ComparedColumn(column.name, column.type, delta, column.type)
        read_ours = ours.read_as(column, column.type, alias)
        return compared, read_ours, ReadColumn(name, alias, reading)

    pairs, left_out = _match(ours.schema, names, match)
    read = {compared: reading for compared, _, reading in pairs if reading is not None}
    name = ours.schema.database, ours.schema.table
    comparison = _compare(ours.schema, pairs, left_out, name)
    return CopyMatch(comparison, {c: o for c, o, _ in pairs}, read, tuple(left_out))


def match_sql(ours: OriginalTable, theirs: SqlTable) -> CopyMatch:
    """Match with the columns of a table that a server of MySQL's protocol defines."""
    name = theirs.database, theirs.table
    try:
        definition = read_definition(theirs.snapshot.query, *name)
    except TableUnreadable:
        raise NotComparable("the copy has no such table, or the user may not read it") from None
    except UpstreamError:
        # Not of this table: the server is lost.
        raise
    except CONTENT_ERRORS as error:
        raise NotComparable(describe_content_error(error)) from None
    columns = {column.name: column.type for column in list_stored_columns(definition)}

    def match(column: Column, name: str, delta: DeltaColumn, alias: str) -> _Pair:
        type = columns[name]
        kind, lake_kind = describe(type).kind, describe(column.type).kind
        if kind == "vector" or (kind != lake_kind and not (kind in TEXTS and lake_kind in TEXTS)):
            raise Incomparable(f"{column.type.name} upstream, {type.name} in the copy")
        compared = ComparedColumn(name, type, delta, column.type)
        read_as = type
        if kind == "json":
            # The server hashes the text as it is.
            read_as = ColumnType("longtext")
        elif kind == "float":
            read_as = column.type
        return compared, ours.read_as(column, read_as, alias), None

    pairs, left_out = _match(ours.schema, list(columns), match)
    comparison = _compare(ours.schema, pairs, left_out, name)
    return CopyMatch(comparison, {c: o for c, o, _ in pairs}, {}, tuple(left_out))


def _match(
    schema: TableSchema,
    names: Iterable[str],
    match: Callable[[Column, str, DeltaColumn, str], _Pair],
) -> tuple[list[_Pair], list[str]]:
    """Match columns by name, whatever their case; return also why others are left out."""
    require_key(schema)
    named = list(names)
    folded = {fold_name(name): name for name in named} | {name: name for name in named}
    deltas = {delta.column: delta for delta in list_delta_columns(schema)}
    pairs: list[_Pair] = []
    # Whatever the copy has of them: what differs is written into the lake, with its values.
    private = {c.name: _PRIVATE.format(c.rule) for c in schema.columns if c.rule is not None}
    left_out = [f"{name}: {reason}" for name, reason in private.items()]
    matched = {folded.get(name, folded.get(fold_name(name))) for name in private}
    for number, column in enumerate(list_stored_columns(schema)):
        if column.rule is not None:
            continue
        name = folded.get(column.name, folded.get(fold_name(column.name)))
        matched.add(name)
        try:
            if name is None:
                raise Incomparable(_NO_COLUMN)
            pairs.append(match(column, name, deltas[column.name], f"c{number}"))
        except Incomparable as error:
            left_out.append(f"{column.name}: {error}")
    left_out += [f"{name}: {_EXTRA}" for name in named if name not in matched]
    return pairs, left_out


def _compare(
    schema: TableSchema, pairs: Iterable[_Pair], left_out: Iterable[str], name: tuple[str, str]
) -> Comparison:
    columns = tuple(compared for compared, _, _ in pairs)
    by_name = {fold_name(column.delta.column): column for column in columns}
    if lacking := [each for each in schema.key if fold_name(each) not in by_name]:
        reasons = [text for text in left_out if text.startswith(tuple(f"{n}: " for n in lacking))]
        raise NotComparable(_NO_KEY.format("; ".join(reasons)))
    if not columns:
        raise NotComparable("it has no column that can be compared")
    key = tuple(by_name[fold_name(each)] for each in schema.key)
    return Comparison(*name, columns, key, None)
