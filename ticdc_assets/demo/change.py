"""The changes of the upstream in commit order: transactions and DDLs."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ticdc_assets.events import Column, TableSchema

# A row in the order of the columns that rows have, every value as MySQL prints it: binary types in
# lower-case hexadecimal, ENUM and SET by their members, TIMESTAMP in UTC.
RowTexts = tuple[str | None, ...]
# The rows of every table, by database and name; a row maps columns to texts.
Truth = dict[tuple[str, str], list[dict[str, str | None]]]


def row_columns(schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns that rows have: all but the virtual ones."""
    return tuple(column for column in schema.columns if column.generated != "virtual")


def encode_truth(truth: Truth) -> dict[tuple[str, str], list[bytes]]:
    """Encode tables as sorted JSON lines `{column: text or null}`, as `replay` prints them."""
    encode = msgspec.json.encode
    return {name: sorted(encode(row) + b"\n" for row in rows) for name, rows in truth.items()}


class ChangedRow(NamedTuple):
    """One row as a changefeed sees it: an insert has no `old`, a delete no `new`."""

    table: TableSchema
    old: RowTexts | None
    new: RowTexts | None
    # Of a partitioned table: the id of the partition.
    partition: int | None = None


class CommittedTransaction(NamedTuple):
    """A transaction: its rows table by table, in each deletes, updates, inserts."""

    ts: int
    rows: Sequence[ChangedRow]


class DdlKind(NamedTuple):
    """The number of a DDL in TiDB, and its type in Simple and Canal-JSON."""

    code: int
    name: str


CREATE_DATABASE = DdlKind(1, "QUERY")
DROP_DATABASE = DdlKind(2, "QUERY")
CREATE_TABLE = DdlKind(3, "CREATE")
DROP_TABLE = DdlKind(4, "ERASE")
ADD_COLUMN = DdlKind(5, "ALTER")
DROP_COLUMN = DdlKind(6, "ALTER")
ADD_INDEX = DdlKind(7, "CINDEX")
DROP_INDEX = DdlKind(8, "DINDEX")
TRUNCATE_TABLE = DdlKind(11, "TRUNCATE")
MODIFY_COLUMN = DdlKind(12, "ALTER")
RENAME_TABLE = DdlKind(14, "RENAME")
CREATE_VIEW = DdlKind(21, "QUERY")
DROP_VIEW = DdlKind(24, "QUERY")
# In Canal-JSON it is a QUERY.
EXCHANGE_PARTITION = DdlKind(42, "ALTER")


class Exchanged(NamedTuple):
    """The table whose rows EXCHANGE PARTITION puts into a partition: before and after."""

    before: TableSchema
    after: TableSchema


class Ddl(Struct, frozen=True):
    """A DDL in the wording of the new-architecture server; a DDL of a database has no table.

    `exchanged` is the other table of EXCHANGE PARTITION, and `view` what a DDL of a view is about.
    """

    ts: int
    kind: DdlKind
    sql: str
    database: str
    before: TableSchema | None = None
    after: TableSchema | None = None
    exchanged: Exchanged | None = None
    view: TableSchema | None = None

    @property
    def stated(self) -> TableSchema | None:
        """The schema that messages carry; for a dropped table, its last one."""
        return self.after or self.before or self.view

    @property
    def named(self) -> str:
        """The table that messages without a schema name; empty for a DDL of a database."""
        if self.exchanged is not None:
            return self.exchanged.before.table
        return "" if self.stated is None else self.stated.table


Change = CommittedTransaction | Ddl
