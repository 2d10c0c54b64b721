"""DDL statements as values.

Names are as written, without a database filled in; indexes are those of `events.table_schema`.  A
column is as declared: its type may depend on the charset of its table, which may be its database's.
`columns.resolve_column` makes a `Column` of it once that is known.
"""

from typing import Literal

from msgspec import Struct

from ticdc_assets.events import Charset, ColumnType, Index, Partition, Partitioning


class Name(Struct, frozen=True):
    """A table's name; `database` is None if the statement does not qualify the name."""

    table: str
    database: str | None = None


class Default(Struct, frozen=True):
    """A DEFAULT clause as written; None that is no expression means no default, or NULL.

    The literal is SQL: its meaning depends on the column's type.  `default.convert_default`
    converts it to the row-image convention.
    """

    text: str | None = None
    is_expression: bool = False
    # `bytes` is a hexadecimal or bit literal; its text is hexadecimal digits.
    literal: Literal["text", "number", "bytes"] = "text"


class DeclaredColumn(Struct):
    """A column as declared, with what makes its keys."""

    name: str
    type: ColumnType
    # `CHAR(n) BINARY` means the binary collation of the column's charset.
    binary_collation: bool = False
    nullable: bool = True
    default: Default = Default()
    generated: Literal["virtual", "stored"] | None = None
    comment: str = ""
    primary: bool = False
    unique: bool = False


class First(Struct, frozen=True):
    """The position before all other columns."""


class After(Struct, frozen=True):
    """The position directly after the named column."""

    column: str


Position = First | After


# Actions of ALTER TABLE.


class AddColumn(Struct, frozen=True):
    column: DeclaredColumn
    position: Position | None = None
    if_not_exists: bool = False


class AddIndex(Struct, frozen=True):
    """A new index; the columns of a primary key become NOT NULL.

    An index without a name gets that of its first column.  If the table already has such an index,
    TiDB appends `_2`, `_3`, … (`indexes.find_free_name`).
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
    """MODIFY and CHANGE: `column` replaces the column `old_name`; MODIFY keeps the name."""

    old_name: str
    column: DeclaredColumn
    position: Position | None = None
    if_exists: bool = False


class SetDefault(Struct, frozen=True):
    """A new default, for future rows only."""

    name: str
    default: Default = Default()


class RenameTo(Struct, frozen=True):
    name: Name


class RenameIndex(Struct, frozen=True):
    old: str
    new: str


class ConvertCharset(Struct, frozen=True):
    """A new charset for every text column; None stands for the database's default charset."""

    charset: Charset | None


class SetOptions(Struct, frozen=True):
    """A new comment of the table, or a new charset of it for columns of later DDLs."""

    charset: Charset | None = None
    comment: str | None = None


class AddPartitions(Struct, frozen=True):
    """New partitions, or `count` more HASH or KEY partitions."""

    partitions: tuple[Partition, ...] = ()
    count: int | None = None


class DropPartitions(Struct, frozen=True):
    names: tuple[str, ...]


class TruncatePartitions(Struct, frozen=True):
    """The partitions to empty; None stands for all."""

    names: tuple[str, ...] | None


class ExchangePartition(Struct, frozen=True):
    """The rows of the partition and of the table change places."""

    partition: str
    table: Name


class ReorganizePartitions(Struct, frozen=True):
    """The named partitions are replaced by those of `into`; no row is lost."""

    names: tuple[str, ...]
    into: tuple[Partition, ...]


class PartitionBy(Struct, frozen=True):
    partitioning: Partitioning


class RemovePartitioning(Struct, frozen=True):
    pass


class CoalescePartitions(Struct, frozen=True):
    """Remove `count` HASH or KEY partitions; no row is lost."""

    count: int


class ChangesNothing(Struct, frozen=True):
    """An action that changes neither rows nor columns; `kind` names it in lower case."""

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
    | SetOptions
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


# Statements


class CreateDatabase(Struct, frozen=True):
    name: str
    charset: Charset | None = None
    if_not_exists: bool = False


class DropDatabase(Struct, frozen=True):
    name: str


class AlterDatabase(Struct, frozen=True):
    """New options of a database; `name` is None for the session's current database."""

    name: str | None
    charset: Charset | None = None


class CreateTable(Struct, frozen=True):
    name: Name
    columns: tuple[DeclaredColumn, ...]
    indexes: tuple[Index, ...] = ()
    partitioning: Partitioning | None = None
    charset: Charset | None = None
    comment: str = ""
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
    """(old, new) pairs, renamed in order."""

    pairs: tuple[tuple[Name, Name], ...]


class AlterTable(Struct, frozen=True):
    """ALTER TABLE, CREATE INDEX and DROP INDEX; an empty list of actions is legal."""

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
    """A statement that changes no table; `kind` names it in lower case."""

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
