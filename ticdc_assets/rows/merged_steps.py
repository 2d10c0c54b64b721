"""Drop the steps that change nothing in a Delta table, so that rows take fewer commits.

An index or a table comment ends a segment as any DDL does, and changes neither rows nor columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import Alter, ApplyRows, HandOver, TableStep, TableWork, TypedRowGroup
from ticdc_assets.rows.columns import DeltaColumn, list_delta_columns
from ticdc_assets.schema.catalog import TableKey, table_key


@dataclass(frozen=True)
class _Shape:
    """What a Delta table shows of its schema."""

    columns: tuple[DeltaColumn, ...]
    key: tuple[str, ...]


def merge_steps(before: TableSchema, steps: Sequence[TableStep]) -> list[TableStep]:
    """Return the steps of a table with the schema `before`, with adjacent segments joined."""
    shape = _shape(before)
    kept: list[TableStep] = []
    for step in steps:
        if _shows_nothing(step, shape):
            continue
        last = kept[-1] if kept else None
        if isinstance(step, ApplyRows) and isinstance(last, ApplyRows) and _adjoins(last, step):
            joined = _join_groups(last, step)
            kept[-1] = replace(step, low=last.low, row_groups=joined)
        else:
            kept.append(step)
        shape = _shape(step.schema)
    return kept


def _shows_nothing(step: TableStep, shape: _Shape) -> bool:
    """Whether a step of a table with this shape changes neither its rows nor its Delta table."""
    if isinstance(step, HandOver):
        return not step.receives
    is_plain = isinstance(step, Alter) and not step.steps and not step.repartitions
    return is_plain and _shape(step.schema) == shape


def _adjoins(one: ApplyRows, other: ApplyRows) -> bool:
    """Whether rows are found as one segment: by the name that events have, in one range.

    Between two segments, another table may have had the name.  Unique keys find the old rows of a
    table without a key.
    """
    same_range = one.high == other.low and _name(one) == _name(other)
    same_archive = (one.is_archived, one.keeps_deleted) == (other.is_archived, other.keeps_deleted)
    return same_range and same_archive and one.schema.unique_keys == other.schema.unique_keys


def _name(rows: ApplyRows) -> TableKey:
    return table_key(rows.schema.database, rows.schema.table)


def _shape(schema: TableSchema) -> _Shape:
    return _Shape(tuple(list_delta_columns(schema)), schema.key)


def _join_groups(one: ApplyRows, other: ApplyRows) -> tuple[TypedRowGroup, ...]:
    """Return the row groups of both; rows that nothing distinguishes get the newer schema."""
    newest = {_identity(typed.group): typed for typed in (*one.row_groups, *other.row_groups)}
    seen = {typed.group: None for typed in (*one.row_groups, *other.row_groups)}
    return tuple(replace(newest[_identity(each)], group=each) for each in seen)


def _identity(group: RowGroup) -> tuple[object, ...]:
    return group.schema_version, group.observed, group.member_names


def changes_table(work: TableWork) -> bool:
    """Whether the steps of a table that exists change its rows, columns or layout."""
    return work.is_laid_out_anew or bool(merge_steps(work.before, work.steps))
