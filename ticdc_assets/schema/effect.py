"""What a DDL does, as data: to names, to schemas and to the rows that are already there.

An engine (the reference model, the lake) carries effects out in the order given; it needs to know
nothing about SQL.  Only what changes existing rows or names is said; schemas are whole.
"""

from msgspec import Struct

from ticdc_assets.events import Column, ColumnType, Partitioning, TableSchema

# Steps: what happens to every row of an altered table, one after the other.


class ColumnAdded(Struct, frozen=True):
    """Rows without it get `conversion.convert.backfill(column)`; it is never a virtual column."""

    column: Column


class ColumnDropped(Struct, frozen=True):
    name: str


class ColumnRenamed(Struct, frozen=True):
    old: str
    new: str


class ColumnConverted(Struct, frozen=True):
    """Values go through `conversion.convert.convert`; no row messages are sent for this."""

    name: str
    old: ColumnType
    new: ColumnType


ColumnChange = ColumnAdded | ColumnDropped | ColumnRenamed | ColumnConverted


class TableCreated(Struct, frozen=True):
    schema: TableSchema


class TableDropped(Struct, frozen=True):
    database: str
    table: str


class TableTruncated(Struct, frozen=True):
    schema: TableSchema


class TableRenamed(Struct, frozen=True):
    """Rows move as they are from the old name to `schema`'s."""

    old_database: str
    old_table: str
    schema: TableSchema


class TableAltered(Struct, frozen=True):
    """`schema` afterwards; no steps when rows stay as they are."""

    schema: TableSchema
    steps: tuple[ColumnChange, ...] = ()


class PartitionsEmptied(Struct, frozen=True):
    """Rows that `partitioning` puts into these partitions are gone; then `schema` holds."""

    schema: TableSchema
    partitioning: Partitioning
    names: tuple[str, ...]


class PartitionExchanged(Struct, frozen=True):
    """Rows of one partition and all rows of the other table change places."""

    schema: TableSchema
    partitioning: Partitioning
    partition: str
    other: TableSchema


class TableRecovered(Struct, frozen=True):
    """A table dropped or truncated under the old name is back under `schema`'s.

    `ago` counts the tables that went under the old name, from the last one back: 1 is the last.
    """

    old_database: str
    old_table: str
    schema: TableSchema
    ago: int = 1


class TablePaused(Struct, frozen=True):
    """From here on the table cannot be kept right; a person must decide."""

    database: str
    table: str
    reason: str


class AllTablesPaused(Struct, frozen=True):
    """No table can be told safe from this statement."""

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
