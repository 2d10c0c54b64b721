"""What a DDL statement says, once read.

Plain frozen values: names as they were written (no database filled in), columns and indexes in the
words of `events.table_schema`.  What a statement does to a table is decided elsewhere, never here.
"""

from typing import Literal

from msgspec import Struct

from ticdc_assets.events import Column, Index, Partition, Partitioning


class Name(Struct, frozen=True):
    """A table's name; `database` is None where the statement leaves it out."""

    table: str
    database: str | None = None


class First(Struct, frozen=True):
    """Before every other column."""


class After(Struct, frozen=True):
    """Directly behind the named column."""

    column: str


Position = First | After


# Actions of ALTER TABLE, in the order they are written.


class AddColumn(Struct, frozen=True):
    column: Column
    position: Position | None = None
    if_not_exists: bool = False


class AddIndex(Struct, frozen=True):
    """A new index; a primary key's columns become NOT NULL with it.

    An index that the statement does not name is called after its first column here; where the table
    has that name already, TiDB adds `_2`, `_3`, … (`indexes.find_free_name`).
    """

    index: Index
    if_not_exists: bool = False


class DropColumn(Struct, frozen=True):
    name: str
    if_exists: bool = False


class DropIndex(Struct, frozen=True):
    name: str
    if_exists: bool = False


class DropPrimaryKey(Struct, frozen=True):
    pass


class RenameColumn(Struct, frozen=True):
    old: str
    new: str


class ModifyColumn(Struct, frozen=True):
    """MODIFY and CHANGE: `column` replaces the one named `old_name` (MODIFY: the same name)."""

    old_name: str
    column: Column
    position: Position | None = None
    if_exists: bool = False


class SetDefault(Struct, frozen=True):
    """The default of rows to come; None and no expression: there is none, or it is NULL.

    A literal stands here as SQL has it, because its column's type, which decides what it means, is
    not in the statement: `default.resolve_default` brings it to the row-image convention.
    """

    name: str
    default: str | None = None
    is_expression: bool = False
    # `bytes`: of a hexadecimal or bit literal, as hexadecimal digits.
    literal: Literal["text", "number", "bytes"] = "text"


class RenameTo(Struct, frozen=True):
    name: Name


class RenameIndex(Struct, frozen=True):
    old: str
    new: str


class ConvertCharset(Struct, frozen=True):
    """Every text column's charset changes; a charset of None is the database's own."""

    charset: str | None
    collation: str | None = None


class AddPartitions(Struct, frozen=True):
    """New partitions, or `count` more of a table cut by hash or key."""

    partitions: tuple[Partition, ...] = ()
    count: int | None = None


class DropPartitions(Struct, frozen=True):
    names: tuple[str, ...]


class TruncatePartitions(Struct, frozen=True):
    """Rows of these partitions go; None stands for all of them."""

    names: tuple[str, ...] | None


class ExchangePartition(Struct, frozen=True):
    """Rows of the partition and of the table change places."""

    partition: str
    table: Name


class ReorganizePartitions(Struct, frozen=True):
    """The named partitions become those of `into`; no row is lost."""

    names: tuple[str, ...]
    into: tuple[Partition, ...]


class PartitionBy(Struct, frozen=True):
    partitioning: Partitioning


class RemovePartitioning(Struct, frozen=True):
    pass


class CoalescePartitions(Struct, frozen=True):
    """`count` partitions fewer of a table cut by hash or key."""

    count: int


class ChangesNothing(Struct, frozen=True):
    """An action without effect on rows or columns; `kind` names it in lower case."""

    kind: str


Action = (
    AddColumn
    | AddIndex
    | DropColumn
    | DropIndex
    | DropPrimaryKey
    | RenameColumn
    | ModifyColumn
    | SetDefault
    | RenameTo
    | RenameIndex
    | ConvertCharset
    | AddPartitions
    | DropPartitions
    | TruncatePartitions
    | ExchangePartition
    | ReorganizePartitions
    | PartitionBy
    | RemovePartitioning
    | CoalescePartitions
    | ChangesNothing
)


# Statements.


class CreateDatabase(Struct, frozen=True):
    name: str
    charset: str | None = None
    collation: str | None = None
    if_not_exists: bool = False


class DropDatabase(Struct, frozen=True):
    name: str


class AlterDatabase(Struct, frozen=True):
    """Options of a database; `name` is None where the statement means the current one."""

    name: str | None
    charset: str | None = None
    collation: str | None = None


class CreateTable(Struct, frozen=True):
    name: Name
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    partitioning: Partitioning | None = None
    charset: str | None = None
    collation: str | None = None
    if_not_exists: bool = False


class CreateTableLike(Struct, frozen=True):
    name: Name
    source: Name
    if_not_exists: bool = False


class DropTables(Struct, frozen=True):
    names: tuple[Name, ...]


class TruncateTable(Struct, frozen=True):
    name: Name


class RenameTables(Struct, frozen=True):
    """(old, new) pairs, carried out one after the other."""

    pairs: tuple[tuple[Name, Name], ...]


class AlterTable(Struct, frozen=True):
    """ALTER TABLE, CREATE INDEX and DROP INDEX; no actions at all is legal."""

    name: Name
    actions: tuple[Action, ...] = ()


class CreateView(Struct, frozen=True):
    name: Name


class DropViews(Struct, frozen=True):
    names: tuple[Name, ...]


class RecoverTable(Struct, frozen=True):
    """RECOVER TABLE and FLASHBACK TABLE; `name` is None for RECOVER TABLE BY JOB."""

    name: Name | None
    new_name: Name | None = None


class RecoverDatabase(Struct, frozen=True):
    name: str
    new_name: str | None = None


class NoTableEffect(Struct, frozen=True):
    """A statement that touches no table's rows or columns; `kind` names it in lower case."""

    kind: str


Statement = (
    CreateDatabase
    | DropDatabase
    | AlterDatabase
    | CreateTable
    | CreateTableLike
    | DropTables
    | TruncateTable
    | RenameTables
    | AlterTable
    | CreateView
    | DropViews
    | RecoverTable
    | RecoverDatabase
    | NoTableEffect
)
