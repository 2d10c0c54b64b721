"""The events: what any TiCDC message comes down to.

`decode` of every protocol yields these and nothing else.  All are frozen; texts are as the protocol
gave them except where `row_image` says otherwise.
"""

from enum import StrEnum
from typing import Literal, Self

from msgspec import Struct

from ticdc_assets.errors import DecodeError
from ticdc_assets.events.position import Position
from ticdc_assets.events.table_schema import TableSchema

# How the order of an event is known, and so how events that share a ts are ordered:
# "commit_ts"      by the transaction's own TSO: rows come before a DDL of that ts, and an insert or
#                  update of a key beats its delete
# "milliseconds"   by Unix milliseconds only (Canal-JSON without the TiDB extension), shifted into a
#                  TSO: rows come before a DDL of that ts and keep the order of their positions
# "table_version"  by the file's table version only (CSV without commit ts): rows come after the DDL
#                  of that ts and keep the order of their positions
Ordering = Literal["commit_ts", "milliseconds", "table_version"]


class Op(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    # The protocol does not tell an insert from an update (Open Protocol without old values).
    UPSERT = "upsert"


class Checksum(Struct, frozen=True):
    """Row checksums as TiCDC stated them; 0 means absent, `corrupted` means do not verify."""

    version: int
    corrupted: bool
    current: int
    previous: int


class RowChange(Struct, frozen=True, kw_only=True):
    """One row inserted, updated or deleted by the transaction that committed at `commit_ts`.

    `before` and `after` are row images (see `row_image`): JSON text `{column: text or null}`.  An
    update's `before` may hold changed columns only (the rest equal `after`) or be None when the
    protocol does not send it; a delete's `before` may hold the handle key only.
    """

    op: Op
    commit_ts: int
    database: str
    table: str
    position: Position
    before: str | None = None
    after: str | None = None
    ordering: Ordering = "commit_ts"
    # Physical id (of the partition, for partitioned tables), where the protocol states it.
    table_id: int | None = None
    # What the row was written under: Simple's schemaVersion, the storage sink's table version.
    schema_version: int | None = None
    # What the row itself says of its columns: JSON text {column: MySQL type text}; the type may be
    # followed by "unsigned", "zerofill" and "not null".
    observed: str | None = None
    # The handle key or primary key, where the message states it.
    key_columns: tuple[str, ...] | None = None
    # The message was too large: the images hold handle-key columns only, the rest is not in the
    # stream.
    handle_key_only: bool = False
    # ENUM and SET values are member names (CSV), not index and bitmask.
    member_names: bool = False
    checksum: Checksum | None = None
    # When TiCDC encoded the message, Unix milliseconds.
    build_ts: int | None = None
    # SHA-256 of the claim-check object the row was read from, hexadecimal.
    claim_check_digest: str | None = None


class SchemaChange(Struct, frozen=True, kw_only=True):
    """A DDL statement that was executed upstream and finished at `commit_ts`.

    `database` and `table` are as the message states them ("" where it does not): for a rename the
    new names.  `schema` is the table after the statement and `pre_schema` the one before it (for
    EXCHANGE PARTITION the other table), where the protocol sends them.
    """

    commit_ts: int
    database: str
    table: str
    sql: str
    position: Position
    # The protocol's own word ("CREATE", "ALTER", …) or type number, as text.
    ddl_type: str = ""
    ordering: Ordering = "commit_ts"
    schema: TableSchema | None = None
    pre_schema: TableSchema | None = None
    build_ts: int | None = None


class Bootstrap(Struct, frozen=True, kw_only=True):
    """A table's schema stated outside any DDL (Simple bootstrap, storage schema snapshot)."""

    schema: TableSchema
    position: Position
    build_ts: int | None = None


class Watermark(Struct, frozen=True, kw_only=True):
    """All events of this topic partition (or folder) up to `ts`, itself included, came before."""

    ts: int
    position: Position
    build_ts: int | None = None


class Quarantined(Struct, frozen=True, kw_only=True):
    """Input that could not be decoded: where it is, what kind of error, and why."""

    position: Position
    # Name of the `errors.DecodeError` leaf.
    error: str
    reason: str

    @classmethod
    def from_error(cls, error: DecodeError, position: Position) -> Self:
        """Make the event of a decoder's error."""
        return cls(position=position, error=type(error).__name__, reason=error.reason)


Event = RowChange | SchemaChange | Bootstrap | Watermark | Quarantined
