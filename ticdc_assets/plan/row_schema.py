"""By which schema rows are read, and what they themselves say of their columns."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from ticdc_assets.errors import MissingSchema
from ticdc_assets.events import FilePosition, Op, RowChange, TableSchema
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.plan.steps import TypedRowGroup
from ticdc_assets.schema.inference import infer_schema, merge_observed_columns
from ticdc_assets.schema.reconciliation import reconcile

# Finds the schema that was stated for a version of a table, whenever it was.
FindSchema = Callable[[str, str, int | None], TableSchema | None]
# Gives one of the rows that are alike.
SampleRow = Callable[[RowGroup], RowChange]


class StreamRules(Struct, frozen=True):
    """What the changefeed's settings say of how its events are to be taken."""

    declared_keys: Mapping[str, tuple[str, ...]] = {}
    # For a protocol whose rows are decoded by flags that may be stale.
    redecode: Callable[[RowChange, TableSchema], RowChange] | None = None


class RowSchemas:
    """Finds the schemas of rows; raises `MissingSchema` where nothing has told their columns."""

    def __init__(self, rules: StreamRules, stated: FindSchema, sample: SampleRow) -> None:
        self._redecode = rules.redecode
        self._stated = stated
        self._sample = sample

    def first(self, group: RowGroup) -> TableSchema:
        """The schema of a table that only its rows tell of."""
        schema = self._stated_for(group)
        if schema is None and group.observed is not None:
            schema = infer_schema(self._sample(group))
        if schema is None:
            raise MissingSchema(_unseen(group))
        return schema

    def confirmed(self, schema: TableSchema, group: RowGroup) -> TableSchema:
        """A table's schema with what rows show of its columns that statements did not."""
        change = _like(group)
        if self._redecode is not None:
            change = self._redecode(change, schema)
        return merge_observed_columns(schema, change, by_flags=self._redecode is not None)

    def read_by(self, schema: TableSchema, group: RowGroup) -> TypedRowGroup:
        """The schema that rows of a table were written under."""
        if group.schema_version is not None and group.schema_version != schema.version:
            stated = self._stated_for(group)
            if stated is None:
                raise MissingSchema(_unseen(group))
            schema = reconcile(schema, stated)
        like = _like(group)
        redecoded = self._redecode(like, schema) if self._redecode else like
        return TypedRowGroup(group, schema, redecoded is not like)

    def _stated_for(self, group: RowGroup) -> TableSchema | None:
        return self._stated(group.database, group.table, group.schema_version)


def _like(group: RowGroup) -> RowChange:
    """A row that says what these rows say of their columns, without its values."""
    return RowChange(
        op=Op.INSERT,
        commit_ts=group.first_ts,
        database=group.database,
        table=group.table,
        position=FilePosition(""),
        schema_version=group.schema_version,
        observed=group.observed,
        key_columns=group.key_columns,
        member_names=group.member_names,
    )


def _unseen(group: RowGroup) -> str:
    name = f"{group.database}.{group.table}"
    if group.schema_version is None:
        return f"nothing has told the columns of {name}"
    return f"schema version {group.schema_version} of {name} has not been group"
