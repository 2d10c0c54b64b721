"""The schema that types a row group, and what rows show of their columns themselves."""

from collections.abc import Callable

from msgspec.structs import replace

from ticdc_assets.errors import MissingSchema
from ticdc_assets.events import FilePosition, Op, RowChange, TableSchema
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import TypedRowGroup
from ticdc_assets.schema.inference import (
    adopt_observed_columns,
    find_contradiction,
    infer_schema,
)
from ticdc_assets.schema.reconciliation import find_unknown_column, reconcile
from ticdc_assets.schema.types.mysql_type import require_known_types
from ticdc_assets.stream.privacy import protect_schema, restore_schema
from ticdc_assets.stream.rules import StreamRules

# Finds the schema that a message or file stated for a schema version, at any time.
FindSchema = Callable[[str, str, int | None], TableSchema | None]
# Returns one row of a group.
SampleRow = Callable[[RowGroup], RowChange]
_MISREAD = (
    "its flags contradict the table, so its values have to be read in another way, which is not"
    " possible for those that [changefeed.privacy] has hashed or masked; load the table again"
)


class RowSchemas:
    """Finds the schemas of row groups; raises `MissingSchema` where nothing states the columns."""

    def __init__(self, rules: StreamRules, find_schema: FindSchema, sample: SampleRow) -> None:
        self._redecode = rules.redecode
        self._privacy = rules.privacy
        self._find_schema = find_schema
        self._sample = sample

    def find_first_schema(self, group: RowGroup) -> TableSchema:
        """Return the first schema of a table that only its rows mention."""
        schema = self._find_stated(group)
        if schema is None and group.observed is not None:
            # Another group's row may state the same columns; the sample gives their order.
            sample = replace(self._sample(group), key_columns=group.key_columns)
            schema = infer_schema(sample)
        if schema is None:
            raise _missing_schema(group)
        return schema

    def confirm_schema(self, schema: TableSchema, group: RowGroup) -> TableSchema:
        """Return a table's schema with what rows show of columns that DDLs did not state."""
        change = _example_row(group)
        known = restore_schema(schema)
        if self._redecode is not None:
            change = self._redecode(change, known)
        adopted = adopt_observed_columns(known, change, by_flags=self._redecode is not None)
        return schema if adopted is known else protect_schema(self._privacy, adopted)

    def type_group(self, schema: TableSchema, group: RowGroup) -> TypedRowGroup:
        """Return the group with the schema that its rows were written under.

        Rows that contradict it have a fault.
        """
        schema, unknown = restore_schema(schema), None
        if group.schema_version is not None and group.schema_version != schema.version:
            stated = self._find_stated(group)
            if stated is None:
                raise _missing_schema(group)
            unknown = find_unknown_column(schema, stated)
            schema = require_known_types(reconcile(schema, stated))
        example = _example_row(group)
        redecoded = self._redecode(example, schema) if self._redecode else example
        fault = find_contradiction(schema, redecoded, by_flags=self._redecode is not None)
        fault = unknown or fault
        schema, is_redecoded = protect_schema(self._privacy, schema), redecoded is not example
        if is_redecoded and any(column.rule in ("hash", "mask") for column in schema.columns):
            fault = fault or _MISREAD
        return TypedRowGroup(group, schema, is_redecoded, fault)

    def _find_stated(self, group: RowGroup) -> TableSchema | None:
        return self._find_schema(group.database, group.table, group.schema_version)


def _example_row(group: RowGroup) -> RowChange:
    """Return a row without values that states what the rows of a group state of their columns."""
    return RowChange(
        op=Op.INSERT,
        commit_ts=group.first_ts,
        database=group.database,
        table=group.table,
        position=FilePosition(""),
        ordering="commit_ts" if group.ordered_by_commit_ts else "milliseconds",
        schema_version=group.schema_version,
        observed=group.observed,
        key_columns=group.key_columns,
        member_names=group.member_names,
    )


def _missing_schema(group: RowGroup) -> MissingSchema:
    name = f"{group.database}.{group.table}"
    if group.schema_version is None:
        return MissingSchema(f"nothing states the columns of {name}")
    return MissingSchema(f"schema version {group.schema_version} of {name} has not been stated")
