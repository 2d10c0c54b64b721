"""What happens to one table in a window, as data: an engine takes rows through the steps."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ticdc_assets.events import Partitioning, TableSchema
from ticdc_assets.plan.layout import PLAIN, Layout, is_written_anew
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.stream.ordering import OrderKey


class TypedRowGroup(Struct, frozen=True):
    """A row group and the schema that types its rows.

    `redecode` says that the rows were decoded by flags which that schema contradicts; `fault`, why
    all of them go to the quarantine.
    """

    group: RowGroup
    schema: TableSchema
    redecode: bool = False
    fault: str | None = None


class ApplyRows(Struct, frozen=True):
    """Apply the row events after `low`, up to and including `high`; the table has `schema`.

    `is_archived`: it may have rows that were deleted and are kept.  `keeps_deleted`: so are those
    that these events delete.
    """

    schema: TableSchema
    low: OrderKey
    high: OrderKey
    row_groups: tuple[TypedRowGroup, ...]
    is_archived: bool = False
    keeps_deleted: bool = False

    @property
    def inserts_only(self) -> bool:
        """Whether every event is a whole new row."""
        return all(
            r.group.inserts == r.group.rows and not r.group.key_only for r in self.row_groups
        )

    @property
    def is_ordered_by_commit_ts(self) -> bool:
        """Whether every event states its commit ts."""
        return all(r.group.ordered_by_commit_ts for r in self.row_groups)


class Alter(Struct, frozen=True):
    """Take existing rows through column changes; then the table has `schema`.

    `repartitions` says that the DDL put every row into the partition it belongs in.
    """

    schema: TableSchema
    steps: tuple[ColumnChange, ...]
    commit_ts: int
    sql: str
    repartitions: bool = False


class EmptyPartitions(Struct, frozen=True):
    """Delete the rows that `partitioning` puts into the named partitions.

    `keeps_deleted`: they are kept as deleted rows.
    """

    schema: TableSchema
    partitioning: Partitioning
    names: tuple[str, ...]
    commit_ts: int
    sql: str
    context: DdlContext
    keeps_deleted: bool = False


class Exchange(Struct, frozen=True):
    """Swap the rows of one partition with all rows of another table.

    Both tables have this step; `partitioned` says on which side this one is.  The rows that come
    in are the other table's after the first `other_steps` of its own steps.
    """

    schema: TableSchema
    partitioned: bool
    partitioning: Partitioning
    partition: str
    # The partitioned table's schema before the exchange.
    schema_before: TableSchema
    other: str
    other_steps: int
    commit_ts: int
    sql: str
    context: DdlContext


class HandOver(Struct, frozen=True):
    """Give the kept rows of a table that TRUNCATE ends to the one that begins.

    Both tables have this step; `receives` says on which side this one is.  The rows are those of
    the other table after the first `other_steps` of its own steps; with `keeps_deleted`, the rows
    that TRUNCATE deletes are among them.  Rows that are there upstream stay where they are.
    """

    schema: TableSchema
    receives: bool
    other: str
    other_steps: int
    commit_ts: int
    keeps_deleted: bool


TableStep = ApplyRows | Alter | EmptyPartitions | Exchange | HandOver


def may_keep_rows(step: TableStep) -> bool:
    """Whether a table may have kept rows after a step that it did not have before."""
    match step:
        case ApplyRows() | EmptyPartitions():
            return step.keeps_deleted
        case HandOver():
            return step.receives
    return False


def is_repartitioned(before: TableSchema, after: TableSchema) -> bool:
    """Whether rows choose their partitions in another way, whichever partitions there are."""
    return _describe_partitioning(before) != _describe_partitioning(after)


def _describe_partitioning(schema: TableSchema) -> tuple[object, ...]:
    by = schema.partitioning
    return () if by is None else (by.kind, by.expression, by.columns)


class TableWork(Struct, frozen=True):
    """All steps of one table in a window, and the schema and the layout it starts with."""

    incarnation: str
    before: TableSchema
    is_new: bool
    steps: tuple[TableStep, ...]
    layout_before: Layout = PLAIN
    layout: Layout = PLAIN

    @property
    def is_laid_out_anew(self) -> bool:
        """Whether the layout takes writing all rows again."""
        return is_written_anew(self.before, self.layout_before, self.layout)

    @property
    def event_names(self) -> set[tuple[str, str]]:
        """The database and table that the events of the table state."""
        groups = (t.group for s in self.steps if isinstance(s, ApplyRows) for t in s.row_groups)
        return {(group.database, group.table) for group in groups}

    @property
    def after(self) -> TableSchema:
        """The table's schema after all steps."""
        return self.steps[-1].schema if self.steps else self.before

    @property
    def event_count(self) -> int:
        """How many row events the table gets, those included that come to nothing."""
        rows = (step for step in self.steps if isinstance(step, ApplyRows))
        return sum(group.rows for group in {t.group for step in rows for t in step.row_groups})


def list_partners(work: TableWork) -> list[str]:
    """List the tables with which a table exchanges rows, or to which it hands some over."""
    steps = (step for step in work.steps if isinstance(step, Exchange | HandOver))
    return list(dict.fromkeys(step.other for step in steps))


def group_by_exchange(work: Mapping[str, TableWork], ids: Iterable[str]) -> Iterator[list[str]]:
    """Put tables together that exchange rows or hand some over, with those that `ids` lacks."""
    waiting = dict.fromkeys(ids)
    while waiting:
        group = [next(iter(waiting))]
        for id in group:
            waiting.pop(id, None)
            # A table without columns has no rows, and no work.
            others = (other for other in list_partners(work[id]) if other in work)
            group += [other for other in others if other not in group]
        yield group


class SchemaVersion(Struct, frozen=True):
    """A table's schema from one ts on: an entry of the schema history."""

    incarnation: str
    schema: TableSchema
    valid_from: int
    origin: str
    ddl_type: str = ""
    sql: str = ""
    # The table ends here.
    ends: bool = False
