"""What happens to one table in a window, as data: an engine carries it out on rows."""

from msgspec import Struct

from ticdc_assets.events import Partitioning, TableSchema
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.stream.ordering import OrderKey


class TypedRowGroup(Struct, frozen=True):
    """Rows that are alike, and the schema that they are read by.

    With `redecode`, they were decoded by flags that the schema contradicts.
    """

    group: RowGroup
    schema: TableSchema
    redecode: bool = False


class ApplyRows(Struct, frozen=True):
    """Row events beyond `low`, up to and including `high`; `schema` is the table's then."""

    schema: TableSchema
    low: OrderKey
    high: OrderKey
    row_groups: tuple[TypedRowGroup, ...]

    @property
    def inserts_only(self) -> bool:
        """Whether every event is a whole new row."""
        return all(
            r.group.inserts == r.group.rows and not r.group.key_only for r in self.row_groups
        )


class Alter(Struct, frozen=True):
    """Existing rows go through the steps; then `schema` holds.

    `recut` says that every row has been put into the partition it belongs in.
    """

    schema: TableSchema
    steps: tuple[ColumnChange, ...]
    commit_ts: int
    sql: str
    recut: bool = False


class EmptyPartitions(Struct, frozen=True):
    """Rows that `partitioning` puts into the named partitions are gone; then `schema` holds."""

    schema: TableSchema
    partitioning: Partitioning
    names: tuple[str, ...]
    commit_ts: int
    sql: str


class Exchange(Struct, frozen=True):
    """One partition's rows, and all rows of the other table, change places.

    The same on both sides: `partitioned` tells which side this is.  The other table's rows are
    those after the first `other_steps` of its own steps.
    """

    schema: TableSchema
    partitioned: bool
    partitioning: Partitioning
    partition: str
    # The partitioned table, as it was before.
    cut_by: TableSchema
    other: str
    other_steps: int
    commit_ts: int
    sql: str


TableStep = ApplyRows | Alter | EmptyPartitions | Exchange


class TableWork(Struct, frozen=True):
    """All that one table goes through in a window, from the schema it had before it."""

    incarnation: str
    before: TableSchema
    is_new: bool
    steps: tuple[TableStep, ...]

    @property
    def after(self) -> TableSchema:
        """The schema that the table has when all is done."""
        return self.steps[-1].schema if self.steps else self.before


class SchemaVersion(Struct, frozen=True, kw_only=True):
    """What a DDL, or the first rows, made of a table: a line of its schema's history."""

    incarnation: str
    schema: TableSchema
    valid_from: int
    came_from: str
    ddl_type: str = ""
    sql: str = ""
    # The end of the table: nothing is valid from here on.
    ends: bool = False
