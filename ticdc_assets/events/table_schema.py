"""What is known of a table's shape: columns, indexes, partitions.

These are the words in which protocols state schemas and in which DDL is replayed; what types mean
and what statements do lives in `ticdc_assets.schema`.  Names keep their spelling; MySQL compares
column names without regard to case, and so do the look-ups here.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace


def folded(name: str) -> str:
    """Give a name in the form in which TiDB compares names: letter by letter in lower case."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)


class ColumnType(Struct, frozen=True):
    """A MySQL type, taken apart.

    `name` is the lower-case base name (`bigint`, `varchar`, `varbinary`, `longtext`, `enum`,
    `vector`, …), never with `unsigned`; synonyms are resolved (`integer` is `int`, `bool` is
    `tinyint` of length 1, `numeric` is `decimal`).  `None` means: the source did not say.
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


class Column(Struct, frozen=True):
    name: str
    type: ColumnType
    nullable: bool = True
    # The default as literal text in the row-image convention of its type, but ENUM and SET by
    # member names; None: no default, or NULL.  An expression keeps its SQL, marked by the next
    # field.
    default: str | None = None
    default_is_expression: bool = False
    # Virtual columns are in schemas but never in rows.
    generated: Literal["virtual", "stored"] | None = None
    comment: str = ""


class Index(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False


class Partition(Struct, frozen=True):
    """One partition: its bound (`range`) or its value lists (`list`) as SQL texts, one per column.

    `less_than` is one SQL expression per partitioning column (`MAXVALUE` included); `values` is a
    tuple of such tuples.  `DEFAULT` as a list value stands for itself.
    """

    name: str
    less_than: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None


class Partitioning(Struct, frozen=True):
    """How a table is cut.

    `range`, `list` and `hash` have one SQL `expression`; the `columns` forms and `key` have
    `columns` (an empty `key` list means the primary key).  `hash` and `key` partitions are named
    `p0` … `pN` unless the statement names them.
    """

    kind: Literal["range", "range columns", "list", "list columns", "hash", "key"]
    partitions: tuple[Partition, ...]
    expression: str | None = None
    columns: tuple[str, ...] = ()


class TableSchema(Struct, frozen=True):
    """A table at one moment.

    `origin` says how far to trust it: `stated` by a message or schema file, `replayed` from DDL
    text, `inferred` from rows alone (no lengths, scales or enum members then).
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    table_id: int | None = None
    # Simple: the schema version; storage: the table version.
    version: int | None = None
    partitioning: Partitioning | None = None
    origin: Literal["stated", "replayed", "inferred"] = "stated"
    # Keys that the owner declared because the stream does not state them.
    declared_key: tuple[str, ...] | None = None

    def column(self, name: str) -> Column | None:
        """Find a column by name, in any case."""
        wanted = folded(name)
        for column in self.columns:
            if column.name == name or folded(column.name) == wanted:
                return column
        return None

    @property
    def key(self) -> tuple[str, ...]:
        """The handle key: the primary key, else the shortest unique key over NOT NULL columns.

        Empty for a table whose rows have no identity.  Virtual columns are not in rows, so they are
        in no handle key.
        """
        if self.declared_key is not None:
            return self.declared_key
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
        """Every unique key of which rows have all columns, nullable ones too."""
        keys = []
        for index in self.indexes:
            columns = [self.column(name) for name in index.columns]
            stored = [c.name for c in columns if c and c.generated != "virtual"]
            if (index.unique or index.primary) and len(stored) == len(columns):
                keys.append(tuple(stored))
        return tuple(keys)

    def renamed(self, database: str, table: str) -> "TableSchema":
        return replace(self, database=database, table=table)
