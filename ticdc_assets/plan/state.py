"""Everything the lake of a changefeed knows at one resolved ts, except rows: a plan's start."""

import hashlib
import re
from collections.abc import Container, Mapping
from itertools import count
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import Bootstrap, SchemaChange, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.schema.catalog import CatalogState, TableKey
from ticdc_assets.stream.problem import CREATE_NOT_SENT
from ticdc_assets.stream.resolved_ts import WatermarkState

# "live"     up to date
# "waiting"  needs a schema that nothing has stated yet; continues without intervention
# "paused"   an event could not be applied; a person must decide
# "dropped"  gone upstream; kept, because TiDB can bring it back
Status = Literal["live", "waiting", "paused", "dropped"]
StoppedStatus = Literal["waiting", "paused"]
# "partial"  live, but upstream has rows that the stream does not hold
ShownStatus = Literal[Status, "partial"]

# Many a tool ignores folders that begin with an underscore.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_UNSAFE_BEFORE = re.compile(r"[^A-Za-z0-9_-]+")


class Incarnation(Struct, frozen=True, kw_only=True):
    """One life of a table, from its CREATE (or its first event) to its DROP."""

    id: str
    schema: TableSchema
    status: Status = "live"
    reason: str | None = None
    # The snapshot from which a replay of a stopped table has to start, and its ts.
    stopped_ts: int | None = None
    stopped_snapshot_id: int | None = None
    # The ts at which the rows of a stopped table are true: events after that snapshot may be
    # applied, up to the one that stopped it.
    true_ts: int | None = None
    created_ts: int
    dropped_ts: int | None = None
    # A table that was stopped when it was dropped is stopped again when TiDB brings it back.
    status_before_drop: StoppedStatus | None = None
    # Rows may lie in other partitions than their values say (EXCHANGE … WITHOUT VALIDATION).
    rows_in_wrong_partitions: bool = False
    # A load began this life, with the rows of `created_ts`.
    is_loaded: bool = False
    # A load ended it: it has all its rows, as the next life has those that are not in it.
    is_replaced: bool = False
    # Why rows are missing, from the start of this life; whatever arrives is applied all the same.
    partial_reason: str | None = None
    # Its definition was read upstream, and adopted unless it contradicts the stream.
    is_defined: bool = False
    # That of its Delta table.
    layout: Layout = PLAIN

    @property
    def shown_layout(self) -> Layout:
        """The layout in which readers get its rows: with kept rows, if it has them."""
        return Layout(archived=self.layout.archived)

    @property
    def is_stopped(self) -> bool:
        """Whether the table is waiting or paused."""
        return self.status in ("waiting", "paused")

    @property
    def complete_ts(self) -> int | None:
        """The ts at which a stopped table has exactly the rows of upstream.

        Of one that stopped before `true_ts` was stated, that is the ts of its snapshot.
        """
        return self.stopped_ts if self.true_ts is None else self.true_ts

    @property
    def shown_status(self) -> ShownStatus:
        """The status that people see; that a table stopped matters more than that it is partial."""
        return "partial" if self.status == "live" and self.partial_reason else self.status

    @property
    def shown_reason(self) -> str | None:
        return self.partial_reason if self.status == "live" else self.reason

    @property
    def lacks_definition(self) -> bool:
        """Whether neither a CREATE nor the database has stated everything of the schema."""
        is_older = CREATE_NOT_SENT in (self.partial_reason or "")
        return not self.is_defined and (is_older or self.schema.origin == "inferred")

    @property
    def is_waiting(self) -> bool:
        """Whether a newly stated schema lets it continue; a dropped table may come back."""
        return "waiting" in (self.status, self.status_before_drop) and not self.is_replaced


class UnknownTable(Struct, frozen=True):
    """A table name with rows whose columns nothing has stated."""

    database: str
    table: str
    schema_version: int | None
    stopped_ts: int
    stopped_snapshot_id: int

    @property
    def complete_ts(self) -> int:
        return self.stopped_ts


class Gap(Struct, frozen=True):
    """Records of a partition that are gone, by the `seq` at which that was noticed."""

    topic: str
    partition: int
    seq: int
    reason: str
    # Tables created up to this ts may lack rows; None until the partition sends a watermark.
    until: int | None = None


# What distinguishes DDLs of one commit ts: SQL, database and table.
DdlName = tuple[str, str, str]


class State(Struct, frozen=True):
    """The lake at `ts`, as snapshot `snapshot_id` of the applied log records it."""

    ts: int = 0
    snapshot_id: int = 0
    catalog: CatalogState = CatalogState()
    incarnations: dict[str, Incarnation] = {}
    names: list[tuple[TableKey, str]] = []
    # Dropped and truncated tables by their last name, newest last.
    dropped: list[tuple[TableKey, list[str]]] = []
    unknown_tables: list[UnknownTable] = []
    # Why every table that existed at some point in the past is paused.
    pause_reason: str | None = None
    # DDLs of exactly `ts` that were applied: others of that ts may still arrive.
    applied_ddls: list[DdlName] = []
    # Bootstraps that hold from a ts after `ts` on.
    bootstraps: list[tuple[int, Bootstrap]] = []
    watermarks: WatermarkState = WatermarkState()
    # DDLs that a person decided to leave out: commit ts and name.
    skipped_ddls: list[tuple[int, DdlName]] = []
    # ENUM and SET columns already reported because their members are unknown.
    columns_with_unknown_members: list[tuple[str, str, str]] = []
    undecoded_files: list[UndecodedFiles] = []
    gaps: list[Gap] = []
    # The numbers of definitions up to `ts`.
    definitions: list[int] = []
    # Only where a replay starts: the incarnations that older code named, and that keep their names.
    older_ids: list[str] = []

    def has_applied(self, change: SchemaChange) -> bool:
        """Whether the windows up to this state applied a DDL that had arrived in time."""
        if change.commit_ts == self.ts:
            return ddl_name(change) in self.applied_ddls
        return change.commit_ts < self.ts


def stop_table(
    table: Incarnation,
    status: StoppedStatus,
    reason: str,
    snapshot: tuple[int, int],
    true_ts: int | None,
) -> Incarnation:
    """Stop a table, true at a ts; a replay has to start from `snapshot` (its ts and id)."""
    ts, snapshot_id = snapshot
    stopped = {"stopped_ts": ts, "stopped_snapshot_id": snapshot_id, "true_ts": true_ts}
    table = replace(table, reason=reason, **stopped)
    if table.status == "dropped":
        return replace(table, status_before_drop=status)
    return replace(table, status=status)


def find_first_paused(tables: Mapping[str, Incarnation], reason: str) -> Incarnation | None:
    """Return the table that was paused first for a reason."""
    paused = (
        table for table in tables.values() if table.reason == reason and table.stopped_snapshot_id
    )
    return min(paused, key=lambda table: table.stopped_snapshot_id or 0, default=None)


def mark_partial(table: Incarnation, reason: str) -> Incarnation:
    """Mark a table as one that lacks rows; reasons add up, until a new life begins."""
    known = table.partial_reason
    if known is not None and reason in known:
        return table
    return replace(table, partial_reason=reason if known is None else f"{known}; {reason}")


def ddl_name(change: SchemaChange) -> DdlName:
    """Return what distinguishes a DDL from others of its commit ts."""
    return change.sql, change.database, change.table


def incarnation_id(database: str, table: str, birth: int) -> str:
    """Name an incarnation by the address of its first name, and its birth."""
    return f"{name_address(database, table)}-{birth}"


def choose_incarnation_id(
    schema: TableSchema, birth: int, known: Container[str], older_ids: Container[str]
) -> str:
    """Choose the id of an incarnation that begins; where one is replayed, that which it has."""
    older = _name_as_before(schema.database, schema.table, birth)
    while older in known:
        older += "-"
    if older in older_ids:
        return older
    id = name = incarnation_id(schema.database, schema.table, birth)
    # Of tables that nobody saw created, several may have one name and birth.
    others = count(2)
    while id in known:
        id = f"{name}-{next(others)}"
    return id


def _name_as_before(database: str, table: str, birth: int) -> str:
    """Name an incarnation as code did before there were addresses: without a dot."""
    exact = hashlib.sha256(f"{database}\0{table}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_UNSAFE_BEFORE.sub('_', f'{database}-{table}')[:80]}-{birth}-{exact}"


def name_address(database: str, table: str) -> str:
    """Name the folder of all tables with one name: readable, and safe in any file system.

    Like the names of tables in TiDB, it does not depend on case.
    """
    folded = fold_name(database), fold_name(table)
    if all(map(_PLAIN.fullmatch, folded)):
        return ".".join(folded)
    # The hash keeps names apart that differ only in unsafe characters; a plain name has one dot.
    exact = hashlib.sha256("\0".join(folded).encode(errors="surrogatepass")).hexdigest()[:16]
    database, table = (_UNSAFE.sub("_", name).strip("_")[:40] or "x" for name in folded)
    return f"{database}.{table}.{exact}"
