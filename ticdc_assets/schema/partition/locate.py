"""Locating the partition of a row."""

from collections.abc import Callable, Sequence
from itertools import product

from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, Partitioning, TableSchema
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.partition.collation import POSSIBLE_COLLATIONS
from ticdc_assets.schema.partition.column import UNKNOWN_COLLATION, lacks_collation
from ticdc_assets.schema.partition.function import Row
from ticdc_assets.schema.partition.method import (
    LOCATORS,
    ContradictoryPartitions,
    Locate,
    PartitionedTable,
)

# TiDB keeps every row in a partition, so a row that none takes disproves what is known of them.
NO_PARTITION = (
    "no partition takes one of the rows, so the partitions or their collation are not those that"
    " TiDB has; if TiDB's default collation is another than declared, correct default-collation of"
    " the changefeed, then resume the table; else rebuild it"
)

# Columns of unknown collation, each of which multiplies the possibilities.
_MOST_UNKNOWN = 2


def make_locator(
    partitioning: Partitioning,
    schema: TableSchema,
    context: DdlContext = DdlContext(),  # noqa: B008 - it is frozen
) -> Locate:
    """Return the function that locates the partition of a row of this table.

    Where the collation of a text is unknown, a row has a partition only if it has the same one
    under every possible collation.
    """
    table = PartitionedTable(partitioning, _complete_collations(schema, context), context)
    if not partitioning.partitions:
        table.fail("the partitioning has no partitions")
    unknown = table.columns_of_unknown_collation()
    if unknown:
        return _locate_under_all_collations(table, unknown)
    return _locate_under_known_collations(table)


def make_strict_locator(
    partitioning: Partitioning, schema: TableSchema, context: DdlContext
) -> Callable[[Row], str]:
    """Return the function that locates rows TiDB has in this table: each is in some partition."""
    locate = make_locator(partitioning, schema, context)

    def locate_row(row: Row) -> str:
        name = locate(row)
        if name is None:
            raise InvalidValue(NO_PARTITION)
        return name

    return locate_row


# --- unknown collations ------------------------------------------------------


def _complete_collations(schema: TableSchema, context: DdlContext) -> TableSchema:
    """Return the schema with the declared collation on the columns for which none is stated."""
    if context.collation is None:
        return schema
    lacking = [column for column in schema.columns if lacks_collation(column)]
    return _with_collations(schema, lacking, (context.collation,) * len(lacking))


def _with_collations(
    schema: TableSchema, chosen: Sequence[Column], collations: Sequence[str]
) -> TableSchema:
    by_name = {c.name: name for c, name in zip(chosen, collations, strict=True)}
    columns = tuple(
        replace(c, type=replace(c.type, collation=by_name[c.name])) if c.name in by_name else c
        for c in schema.columns
    )
    return replace(schema, columns=columns)


def _locate_under_all_collations(table: PartitionedTable, unknown: Sequence[Column]) -> Locate:
    """Return the function that locates the rows whose partition no collation changes."""
    if len(unknown) > _MOST_UNKNOWN:
        table.fail(UNKNOWN_COLLATION)
    locators = []
    for collations in product(POSSIBLE_COLLATIONS, repeat=len(unknown)):
        schema = _with_collations(table.schema, unknown, collations)
        try:
            locators.append(_locate_under_known_collations(replace(table, schema=schema)))
        except ContradictoryPartitions:
            # TiDB would not have accepted these partitions.
            continue
        except UnsupportedDdl:
            if not locators:
                raise
            table.fail(UNKNOWN_COLLATION)
    if not locators:
        table.fail("the partition bounds do not ascend, or two partitions have the same value")

    def find(row: Row) -> str | None:
        first, *others = locators
        name = first(row)
        try:
            agreed = all(locate(row) == name for locate in others)
        except InvalidValue:
            agreed = False
        if not agreed:
            raise InvalidValue(UNKNOWN_COLLATION)
        return name

    return find


def _locate_under_known_collations(table: PartitionedTable) -> Locate:
    try:
        return LOCATORS[table.partitioning.kind](table)
    except InvalidValue as problem:
        raise UnsupportedDdl(str(problem), table.text) from None
