"""The events that every decoder yields: row changes, DDLs, bootstraps, watermarks and quarantine.

All are frozen.  Texts are as the protocol sent them, unless `row_image` says otherwise.
"""

from enum import StrEnum
from typing import Literal, Self

from msgspec import Struct

from ticdc_assets.errors import DecodeError
from ticdc_assets.events.position import Position
from ticdc_assets.events.table_schema import TableSchema

# The ts that orders an event, which also decides the order of events that share a ts:
# "commit_ts"      the transaction's TSO: rows precede a DDL of that ts, and an insert or update of
#                  a key takes precedence over its delete
# "milliseconds"   Unix milliseconds (Canal-JSON without the TiDB extension), shifted into a TSO:
#                  rows precede a DDL of that ts and are ordered by position
# "table_version"  the file's table version (CSV without commit ts): rows follow the DDL of that ts
#                  and are ordered by position
Ordering = Literal["commit_ts", "milliseconds", "table_version"]
# In `RowChange.upstream`: the new row is from the database upstream.
FETCHED = "fetched"


class Op(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    # Insert or update: Open Protocol without old values does not distinguish them.  With
    # only-output-updated-columns, an update that is one changed nothing.
    UPSERT = "upsert"


class Checksum(Struct, frozen=True, gc=False):
    """Row checksums as TiCDC states them; 0 means absent, `corrupted` that TiCDC distrusts them."""

    version: int
    corrupted: bool
    current: int
    previous: int


class RowChange(Struct, frozen=True, gc=False, kw_only=True):
    """One row inserted, updated or deleted by the transaction that committed at `commit_ts`.

    `before` and `after` are row images (see `row_image`): JSON text `{column: text or null}`.  An
    update's `before` may hold only changed columns (the others equal `after`), or be None if the
    protocol does not send it; a delete's `before` may hold only the handle key.
    """

    op: Op
    commit_ts: int
    database: str
    table: str
    position: Position
    before: str | None = None
    after: str | None = None
    ordering: Ordering = "commit_ts"
    # Physical id (of the partition, in partitioned tables), if the protocol states it.
    table_id: int | None = None
    # The schema version: Simple's schemaVersion, the storage sink's table version.
    schema_version: int | None = None
    # The column types that the message states: JSON text {column: MySQL type text}, where the type
    # may be followed by "unsigned", "zerofill" and "not null".
    observed: str | None = None
    # The handle key or primary key, if the message states it.
    key_columns: tuple[str, ...] | None = None
    # The message was too large: the images hold only handle-key columns, and the stream lacks the
    # others.
    handle_key_only: bool = False
    # `FETCHED` where the message held only the handle key of the new row and upstream had the rest
    # (`before` may still hold the handle key only); or why upstream could not supply it.
    upstream: str | None = None
    # ENUM and SET values are member names (CSV), not index and bitmask.
    member_names: bool = False
    checksum: Checksum | None = None
    # When TiCDC encoded the message, Unix milliseconds.
    build_ts: int | None = None
    # SHA-256 of the claim-check object that contains the row, hexadecimal.
    claim_check_digest: str | None = None


class SchemaChange(Struct, frozen=True, kw_only=True):
    """A DDL statement that TiDB finished at `commit_ts`.

    `database` and `table` are as the message states them ("" if it does not), for a rename the new
    names.  `schema` is the table after the statement and `pre_schema` the table before it (for
    EXCHANGE PARTITION the other table), if the protocol sends them.
    """

    commit_ts: int
    database: str
    table: str
    sql: str
    position: Position
    # The DDL type that the protocol states: a word ("CREATE", "ALTER", …) or a number.
    ddl_type: str = ""
    ordering: Ordering = "commit_ts"
    schema: TableSchema | None = None
    pre_schema: TableSchema | None = None
    build_ts: int | None = None


class Bootstrap(Struct, frozen=True, kw_only=True):
    """A table's schema stated without a DDL (Simple bootstrap, snapshot schema file)."""

    schema: TableSchema
    position: Position
    build_ts: int | None = None


class Watermark(Struct, frozen=True, kw_only=True):
    """TiCDC has sent every event of this topic partition or folder up to `ts`, inclusive."""

    ts: int
    position: Position
    build_ts: int | None = None


class Quarantined(Struct, frozen=True, kw_only=True):
    """Input that could not be decoded: its position, the kind of error and the reason."""

    position: Position
    # The name of the subclass of `errors.DecodeError`.
    error: str
    reason: str

    @classmethod
    def from_error(cls, error: DecodeError, position: Position) -> Self:
        """Create the event for a decoder's error."""
        return cls(position=position, error=type(error).__name__, reason=error.reason)


Event = RowChange | SchemaChange | Bootstrap | Watermark | Quarantined
