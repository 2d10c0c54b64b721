"""By which schema rows are read, and what they themselves say of their columns."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from ticdc_assets.errors import MissingSchema
from ticdc_assets.events import FilePosition, Op, RowChange, TableSchema
from ticdc_assets.plan.row_group import Seen
from ticdc_assets.plan.steps import Reading
from ticdc_assets.schema.inference import confirm, infer
from ticdc_assets.schema.stated import reconcile

# Finds the schema that was stated for a version of a table, whenever it was.
Stated = Callable[[str, str, int | None], TableSchema | None]
# Gives one of the rows that are alike.
Sample = Callable[[Seen], RowChange]


class Rules(Struct, frozen=True):
    """What the changefeed's settings say of how its events are to be taken."""

    declared_keys: Mapping[str, tuple[str, ...]] = {}
    # For a protocol whose rows are decoded by flags that may be stale.
    settle: Callable[[RowChange, TableSchema], RowChange] | None = None


class RowSchemas:
    """Finds the schemas of rows; raises `MissingSchema` where nothing has told their columns."""

    def __init__(self, rules: Rules, stated: Stated, sample: Sample) -> None:
        self._settle = rules.settle
        self._stated = stated
        self._sample = sample

    def first(self, seen: Seen) -> TableSchema:
        """The schema of a table that only its rows tell of."""
        schema = self._stated_for(seen)
        if schema is None and seen.observed is not None:
            schema = infer(self._sample(seen))
        if schema is None:
            raise MissingSchema(_unseen(seen))
        return schema

    def confirmed(self, schema: TableSchema, seen: Seen) -> TableSchema:
        """A table's schema with what rows show of its columns that statements did not."""
        change = _like(seen)
        if self._settle is not None:
            change = self._settle(change, schema)
        return confirm(schema, change, by_flags=self._settle is not None)

    def read_by(self, schema: TableSchema, seen: Seen) -> Reading:
        """The schema that rows of a table were written under."""
        if seen.schema_version is not None and seen.schema_version != schema.version:
            stated = self._stated_for(seen)
            if stated is None:
                raise MissingSchema(_unseen(seen))
            schema = reconcile(schema, stated)
        like = _like(seen)
        settled = self._settle(like, schema) if self._settle else like
        return Reading(seen, schema, settled is not like)

    def _stated_for(self, seen: Seen) -> TableSchema | None:
        return self._stated(seen.database, seen.table, seen.schema_version)


def _like(seen: Seen) -> RowChange:
    """A row that says what these rows say of their columns, without its values."""
    return RowChange(
        op=Op.INSERT,
        commit_ts=seen.first_ts,
        database=seen.database,
        table=seen.table,
        position=FilePosition(""),
        schema_version=seen.schema_version,
        observed=seen.observed,
        key_columns=seen.key_columns,
        member_names=seen.member_names,
    )


def _unseen(seen: Seen) -> str:
    name = f"{seen.database}.{seen.table}"
    if seen.schema_version is None:
        return f"nothing has told the columns of {name}"
    return f"schema version {seen.schema_version} of {name} has not been seen"
