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


class Column(Struct, frozen=True):
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
    `columns` (none, for `key`, means the primary key).  `hash` and `key` partitions are named
    `p0` … `pN` unless the statement names them.
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

    def column(self, name: str) -> Column | None:
        """Return the column of this name, ignoring case."""
        return self._columns_by_name.get(fold_name(name))

    @cached_property
    def _columns_by_name(self) -> dict[str, Column]:
        # Of columns with one name, which only a damaged source states, the first counts.
        return {fold_name(column.name): column for column in reversed(self.columns)}

    @property
    def key(self) -> tuple[str, ...]:
        """The handle key: the primary key, else the shortest unique key over NOT NULL columns.

        Empty for a table without such a key.  Virtual columns are not in rows, so no handle key has
        one.
        """
        return self.own_key if self.declared_key is None else self.declared_key

    @property
    def own_key(self) -> tuple[str, ...]:
        """The handle key that TiDB itself knows, whatever is declared."""
        best: tuple[str, ...] = ()
        for index in self.indexes:
            if index.primary:
                return index.columns
            if not index.unique or (best and len(index.columns) >= len(best)):
                continue
            columns = [self.column(name) for name in index.columns]
            if all(c and not c.nullable and c.generated != "virtual" for c in columns):
                best = index.columns
        return best

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """List the unique keys without virtual columns; their columns may be nullable."""
        keys = []
        for index in self.indexes:
            columns = [self.column(name) for name in index.columns]
            stored = [c.name for c in columns if c and c.generated != "virtual"]
            if (index.unique or index.primary) and len(stored) == len(columns):
                keys.append(tuple(stored))
        return tuple(keys)

    def with_name(self, database: str, table: str) -> "TableSchema":
        return replace(self, database=database, table=table)

    def copied_to(self, database: str, table: str) -> "TableSchema":
        """Return the schema of a new table that is created like this one."""
        new = self.with_name(database, table)
        return replace(new, table_id=None, declared_key=None, lost_key=False)
