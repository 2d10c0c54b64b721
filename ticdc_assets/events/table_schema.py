"""The schema of a table: its columns, indexes and partitions.

Decoders return these types and the replay of DDL changes them; `ticdc_assets.schema` knows what a
type allows and what a statement does.  Names keep their spelling; look-ups ignore case, as MySQL
does for column names.
"""

from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace


def fold_name(name: str) -> str:
    """Return a name in the form in which TiDB compares names: each letter in lower case."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)


def is_hidden(name: str) -> bool:
    """Return whether a name is of a virtual column that TiDB creates for an expression index."""
    return fold_name(name).startswith("_v$_")


# How Simple names a primary key for which TiDB has no index; TiDB names such an index PRIMARY.
MADE_UP_KEY = "primary"


class ColumnType(Struct, frozen=True):
    """A MySQL type, split into its parts.

    `name` is the lower-case base name (`bigint`, `varchar`, `varbinary`, `longtext`, `enum`,
    `vector`, …), never with `unsigned`; synonyms are resolved (`integer` is `int`, `bool` is
    `tinyint` of length 1, `numeric` is `decimal`).  `None` means that the source does not state it.
    """

    name: str
    unsigned: bool = False
    zerofill: bool = False
    # Length of strings, precision of decimals, width of bit, display width of integers,
    # dimension of vector.
    length: int | None = None
    # Scale of decimals (and of float(m,d)), fractional digits of time types.
    decimals: int | None = None
    # Members of enum and set, in order.
    elements: tuple[str, ...] | None = None
    charset: str | None = None
    collation: str | None = None


class Charset(Struct, frozen=True):
    """The charset of a table or database, and the collation of its texts.

    Without a collation it is the charset's default, which the session decides for utf8mb4.
    """

    name: str
    collation: str | None = None


class Column(Struct, frozen=True, omit_defaults=True):
    name: str
    type: ColumnType
    nullable: bool = True
    # The default in the row-image convention, but with the member names of ENUM and SET; None for
    # NULL or no default.  If the next field is set, it is an SQL expression instead.
    default: str | None = None
    default_is_expression: bool = False
    # Virtual columns are in schemas, never in rows.
    generated: Literal["virtual", "stored"] | None = None
    comment: str = ""
    # The text of the value that existing rows got when DDL added the column; see `added_value`.
    added_value: str | None = None
    # What becomes of its values before they are stored, by `changefeed.privacy`, and the column
    # upstream then.
    rule: Literal["drop", "null", "hash", "mask"] | None = None
    upstream: "Column | None" = None


class Index(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False


class Partition(Struct, frozen=True):
    """One partition, with its bound (`range`) or its value lists (`list`) as SQL texts.

    `less_than` has one SQL expression (or `MAXVALUE`) per partitioning column; `values` is a tuple
    of such tuples, and the `DEFAULT` partition has the one value `DEFAULT`.
    """

    name: str
    less_than: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None


class Partitioning(Struct, frozen=True):
    """How a table is partitioned.

    `range`, `list` and `hash` have one SQL `expression`; the `columns` forms and `key` have
    `columns` (none, for `key`, means the effective primary key).  `hash` and `key` partitions are
    named `p0` … `pN` unless the statement names them.
    """

    kind: Literal["range", "range columns", "list", "list columns", "hash", "key"]
    partitions: tuple[Partition, ...]
    expression: str | None = None
    columns: tuple[str, ...] = ()


class TableSchema(Struct, frozen=True, dict=True):
    """A table at one moment.

    `origin` says where it comes from: `stated` by a message or schema file, `replayed` from DDL
    text, or `inferred` from rows alone, without lengths, scales and enum members.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    table_id: int | None = None
    # The schema version (Simple) or the table version (storage sink).
    version: int | None = None
    partitioning: Partitioning | None = None
    origin: Literal["stated", "replayed", "inferred"] = "stated"
    # The handle key from the changefeed's `keys`, for a table whose stream does not state it.
    declared_key: tuple[str, ...] | None = None
    # Whether a DDL removed the last key, so that TiCDC needs `force-replicate` to send more rows.
    lost_key: bool = False
    # What text columns have for which a DDL states no charset, as far as DDL states it.
    charset: Charset | None = None
    # The columns in the order in which TiCDC states them, and hashes them for row checksums; empty
    # where that is the order of `columns`.
    checksum_order: tuple[str, ...] = ()
    # As far as DDL states it: no message does.
    comment: str = ""

    def column(self, name: str) -> Column | None:
        """Return the column of this name, ignoring case."""
        return self._columns_by_name.get(fold_name(name))

    @cached_property
    def _columns_by_name(self) -> dict[str, Column]:
        # Of columns with one name, which only a damaged source states, the first counts.
        return {fold_name(column.name): column for column in reversed(self.columns)}

    def with_columns(self, columns: tuple[Column, ...], added: Column) -> "TableSchema":
        """Return the table with one column more, of a new name, which is among `columns`."""
        altered = replace(self, columns=columns)
        # A statement may add thousands, each of which looks for its name.
        by_name = {**self._columns_by_name, fold_name(added.name): added}
        vars(altered)["_columns_by_name"] = by_name
        return altered

    @property
    def states_all_indexes(self) -> bool:
        """Whether a source that states this schema lists every index, as Simple does.

        Schema files state the primary key only, and no table id.
        """
        return self.table_id is not None

    @property
    def key(self) -> tuple[str, ...]:
        """The handle key: the primary key, else the shortest unique key over NOT NULL columns.

        Empty for a table without such a key.  A damaged message may name a column twice.
        """
        stated = self.own_key if self.declared_key is None else self.declared_key
        found: dict[str, str] = {}
        for name in stated:
            found.setdefault(fold_name(name), name)
        return tuple(found.values())

    @property
    def own_key(self) -> tuple[str, ...]:
        """The handle key that TiDB itself knows, whatever is declared."""
        shortest = min((key.columns for key in self.own_keys), key=len, default=())
        return self.primary_key or shortest

    @property
    def own_keys(self) -> tuple[Index, ...]:
        """The primary key, and all unique keys over NOT NULL columns: each identifies rows.

        Virtual columns are not in rows, so no such key has one.
        """
        return tuple(
            index
            for index in self.own_indexes
            if index.primary or (self._is_over_not_null(index) and self._is_in_rows(index))
        )

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for a table without one."""
        return next((index.columns for index in self.own_indexes if index.primary), ())

    @property
    def effective_primary_key(self) -> tuple[str, ...]:
        """The primary key, or what TiDB takes for one: the first unique key over NOT NULL columns.

        PARTITION BY KEY () has its columns, and Simple states it.  They may be virtual.
        """
        return self.primary_key or self._first_unique_key

    @cached_property
    def own_indexes(self) -> tuple[Index, ...]:
        """The indexes that the table has upstream.

        Of a table without a primary key, Simple states the first unique key over NOT NULL columns
        twice: the second time as a primary key.  A clustered integer, which Simple states like
        that, is left out with an equal unique key before it; that one identifies the same rows.
        """
        return tuple(
            index
            for index in self.indexes
            if not index.primary
            or index.name != MADE_UP_KEY
            or index.columns != self._first_unique_key
        )

    @cached_property
    def _first_unique_key(self) -> tuple[str, ...]:
        keys = (i for i in self.indexes if not i.primary and self._is_over_not_null(i))
        return next((i.columns for i in keys if not any(map(is_hidden, i.columns))), ())

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """List the unique keys without virtual columns; their columns may be nullable."""
        keys = []
        for index in self.own_indexes:
            if (index.unique or index.primary) and self._is_in_rows(index):
                columns = (self.column(name) for name in index.columns)
                keys.append(tuple(c.name for c in columns if c))
        return tuple(keys)

    def _is_over_not_null(self, index: Index) -> bool:
        """Whether an index is a unique key over NOT NULL columns."""
        columns = [self.column(name) for name in index.columns]
        return index.unique and bool(columns) and all(c and not c.nullable for c in columns)

    def _is_in_rows(self, index: Index) -> bool:
        """Whether rows have all columns of an index."""
        columns = (self.column(name) for name in index.columns)
        return all(c and c.generated != "virtual" for c in columns)

    def with_name(self, database: str, table: str) -> "TableSchema":
        return replace(self, database=database, table=table)

    def copied_to(self, database: str, table: str) -> "TableSchema":
        """Return the schema of a new table that is created like this one."""
        new = self.with_name(database, table)
        return replace(new, table_id=None, declared_key=None, lost_key=False)
