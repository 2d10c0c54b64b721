"""What happens upstream, in commit order: transactions and statements."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ticdc_assets.events import TableSchema

# A row in the table's column order, every value as MySQL prints it: binary types in lower-case
# hexadecimal, ENUM and SET by their members, TIMESTAMP in UTC.
Row = tuple[str | None, ...]
# Tables by (database, name), each a list of rows by column.
Truth = dict[tuple[str, str], list[dict[str, str | None]]]


def encode_truth(truth: Truth) -> dict[tuple[str, str], list[bytes]]:
    """Tables as sorted JSON lines `{column: text or null}`, as `ticdc-assets replay` has them."""
    encode = msgspec.json.encode
    return {name: sorted(encode(row) + b"\n" for row in rows) for name, rows in truth.items()}


class RowChange(NamedTuple):
    """One row as a changefeed sees it: an insert has no `old`, a delete no `new`."""

    table: TableSchema
    old: Row | None
    new: Row | None


class Commit(NamedTuple):
    """A transaction: its rows table by table, in each deletes, updates, inserts."""

    ts: int
    rows: Sequence[RowChange]


class DdlKind(NamedTuple):
    """A statement's number in TiDB, and its type in Simple and Canal-JSON."""

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


class Ddl(Struct, frozen=True):
    """A statement as the new-architecture server words it; databases have no table."""

    ts: int
    kind: DdlKind
    sql: str
    database: str
    before: TableSchema | None = None
    after: TableSchema | None = None

    @property
    def stated(self) -> TableSchema | None:
        """The schema that messages carry: a dropped table's is the last it had."""
        return self.after or self.before


Change = Commit | Ddl
