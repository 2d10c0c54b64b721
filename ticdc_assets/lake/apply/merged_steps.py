"""Steps without those that no Delta table shows, so that rows are brought in by fewer commits.

An index or a comment cuts a table's events as any other DDL does, and changes nothing of its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.types import DeltaColumn, list_delta_columns
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import Alter, ApplyRows, TableStep, TypedRowGroup
from ticdc_assets.schema.catalog import TableKey, table_key


@dataclass(frozen=True)
class _Shape:
    """All of a schema that its Delta table shows."""

    columns: tuple[DeltaColumn, ...]
    key: tuple[str, ...]


def merge_steps(before: TableSchema, steps: Sequence[TableStep]) -> list[TableStep]:
    """The steps of a table that had the schema `before`, as few as they can be."""
    shape = _shape(before)
    kept: list[TableStep] = []
    for step in steps:
        if isinstance(step, Alter) and not step.steps and _shape(step.schema) == shape:
            continue
        last = kept[-1] if kept else None
        if (
            isinstance(step, ApplyRows)
            and isinstance(last, ApplyRows)
            and _name(last) == _name(step)
        ):
            kept[-1] = ApplyRows(step.schema, last.low, step.high, _joined(last, step))
        else:
            kept.append(step)
        shape = _shape(step.schema)
    return kept


def _name(rows: ApplyRows) -> TableKey:
    """The name that events have: a rename changes nothing but that."""
    return table_key(rows.schema.database, rows.schema.table)


def _shape(schema: TableSchema) -> _Shape:
    return _Shape(tuple(list_delta_columns(schema)), schema.key)


def _joined(one: ApplyRows, other: ApplyRows) -> tuple[TypedRowGroup, ...]:
    """The row_groups of both; rows that are told apart by nothing are read by the newer schema."""
    newest = {_told_by(reading.group): reading for reading in (*one.row_groups, *other.row_groups)}
    seen = {reading.group: None for reading in (*one.row_groups, *other.row_groups)}
    return tuple(replace(newest[_told_by(each)], group=each) for each in seen)


def _told_by(group: RowGroup) -> tuple[object, ...]:
    return group.schema_version, group.observed, group.member_names
