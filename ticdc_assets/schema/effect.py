"""Effects: what a DDL does to names, schemas and existing rows, as data.

An engine (the reference model, the lake) executes effects in the order given and needs to know no
SQL.  Every effect carries whole schemas, as they are after the DDL.  A DDL that changes neither
rows nor names has no effect.
"""

from datetime import tzinfo

from msgspec import Struct

from ticdc_assets.events import Column, ColumnType, Partition, Partitioning, TableSchema
from ticdc_assets.schema.ddl_context import DdlContext

# Column changes: what every row of an altered table goes through, in order.


class ColumnAdded(Struct, frozen=True):
    """Existing rows get `conversion.convert.backfill(column)`.  Never a virtual column.

    `zone` is the time zone of the default, None if it is unknown.
    """

    column: Column
    zone: tzinfo | None = None

    @property
    def assumes_utc(self) -> bool:
        """Whether the values depend on a time zone that is unknown."""
        column = self.column
        is_literal = column.default is not None and not column.default_is_expression
        depends = column.type.name == "timestamp" and is_literal
        return depends and self.zone is None and not str(column.default).startswith("0000-00-00")


class ColumnDropped(Struct, frozen=True):
    """Existing rows lose the column."""

    name: str


class ColumnRenamed(Struct, frozen=True):
    """Existing rows keep their values under the new name."""

    old: str
    new: str


class ColumnConverted(Struct, frozen=True):
    """Existing values go through `conversion.convert.convert_value`; TiCDC sends no rows for it.

    `zone` is the time zone of the DDL's session, None if it is unknown.
    """

    name: str
    old: ColumnType
    new: ColumnType
    zone: tzinfo | None = None

    @property
    def assumes_utc(self) -> bool:
        """Whether the values depend on a time zone that is unknown."""
        return self.zone is None and (self.old.name == "timestamp") != (
            self.new.name == "timestamp"
        )


ColumnChange = ColumnAdded | ColumnDropped | ColumnRenamed | ColumnConverted


class TableCreated(Struct, frozen=True):
    """A new, empty table."""

    schema: TableSchema


class TableDropped(Struct, frozen=True):
    """The table is gone; `TableRecovered` may bring it back."""

    database: str
    table: str


class TableTruncated(Struct, frozen=True):
    """All rows are gone; `TableRecovered` may bring them back under another name.

    `ends_pause` says that the table needs no pause any more: its columns are certain, and TiCDC
    replicates it.
    """

    schema: TableSchema
    ends_pause: bool = False


class TableRenamed(Struct, frozen=True):
    """The table moves from the old name to that of `schema`; rows are unchanged."""

    old_database: str
    old_table: str
    schema: TableSchema


class TableAltered(Struct, frozen=True):
    """The table has a new schema; without column changes its rows are unchanged."""

    schema: TableSchema
    column_changes: tuple[ColumnChange, ...] = ()


# One partition with every row: all partitions of a table, whatever is known of them.
ALL_ROWS = Partitioning("hash", (Partition("ALL"),), expression="0")


class PartitionsEmptied(Struct, frozen=True):
    """The rows that `partitioning` places in the named partitions are gone."""

    schema: TableSchema
    partitioning: Partitioning
    names: tuple[str, ...]
    context: DdlContext = DdlContext()


class PartitionExchanged(Struct, frozen=True):
    """The rows of one partition and all rows of `other` change places."""

    schema: TableSchema
    partitioning: Partitioning
    partition: str
    other: TableSchema
    context: DdlContext = DdlContext()


class TableRecovered(Struct, frozen=True):
    """A table dropped or truncated under the old name is back, under the name of `schema`.

    `drops_ago` tells which one: 1 is the table dropped last under the old name.
    """

    old_database: str
    old_table: str
    schema: TableSchema
    drops_ago: int = 1


class TablePaused(Struct, frozen=True):
    """The DDL could not be applied to this table; a person must decide.

    `contradicts` says that it is of another schema than the known one.
    """

    database: str
    table: str
    reason: str
    contradicts: bool = False


class AllTablesPaused(Struct, frozen=True):
    """The DDL could not be applied, and it may affect any table."""

    reason: str


Effect = (
    TableCreated
    | TableDropped
    | TableTruncated
    | TableRenamed
    | TableAltered
    | PartitionsEmptied
    | PartitionExchanged
    | TableRecovered
    | TablePaused
    | AllTablesPaused
)
