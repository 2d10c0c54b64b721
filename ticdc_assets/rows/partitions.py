"""The rows of some partitions of a table, located as TiDB locates them."""

from collections.abc import Callable, Collection

import pyarrow as pa

from ticdc_assets.errors import CONTENT_ERRORS, TicdcError
from ticdc_assets.events import Partitioning, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.steps import EmptyPartitions, Exchange
from ticdc_assets.rows.columns import list_stored_columns
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.rows.table_rows import Rows
from ticdc_assets.schema.partition.function import Row
from ticdc_assets.schema.partition.locate import make_locator, make_strict_locator


def find_inside(
    rows: Rows, schema: TableSchema, step: EmptyPartitions | Exchange, names: Collection[str]
) -> pa.Array:
    """Return which rows of a partitioned table belong in some partitions.

    Raise a `TicdcError` if that of a row is uncertain; without rows, nothing is.
    """
    if not len(rows):
        return pa.array([], pa.bool_())
    locate = make_strict_locator(step.partitioning, schema, step.context)
    return _map_rows(rows, schema, step.partitioning, lambda row: locate(row) in names)


def has_misplaced_rows(rows: Rows, schema: TableSchema, step: Exchange) -> bool:
    """Return whether rows that an exchange puts into a partition may not belong there."""
    if not len(rows):
        return False
    try:
        locate = make_locator(step.partitioning, schema, step.context)
    except TicdcError:
        return True

    def is_misplaced(row: Row) -> bool:
        try:
            return locate(row) != step.partition
        except CONTENT_ERRORS:
            return True

    misplaced = _map_rows(rows, schema, step.partitioning, is_misplaced)
    return any(misplaced.to_pylist())


def _map_rows(
    rows: Rows, schema: TableSchema, partitioning: Partitioning, ask: Callable[[Row], bool]
) -> pa.Array:
    """Ask of every row by the columns that decide on its partition."""
    columns = [c for c in list_stored_columns(schema) if _may_decide(c.name, partitioning)]
    names = [column.name for column in columns]
    values = [read_stored(rows.columns[column.name], column.type) for column in columns]
    if not names:
        return pa.repeat(pa.scalar(ask({})), len(rows))
    answers: dict[tuple[object, ...], bool] = {}
    found = []
    for row in zip(*values, strict=True):
        answer = answers.get(row)
        if answer is None:
            answer = answers[row] = ask(dict(zip(names, row, strict=True)))
        found.append(answer)
    return pa.array(found, pa.bool_())


def _may_decide(name: str, partitioning: Partitioning) -> bool:
    folded = fold_name(name)
    return folded in map(fold_name, partitioning.columns) or folded in fold_name(
        partitioning.expression or ""
    )
