"""All that a changefeed's lake knows at one resolved ts, beside the rows: a plan starts from it."""

import hashlib
import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import Bootstrap, SchemaChange, TableSchema
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.schema.catalog import CatalogState, TableKey
from ticdc_assets.stream.resolved_ts import WatermarkState

# "live"     kept right
# "waiting"  its rows are of a schema that nothing has stated yet; goes on by itself
# "paused"   something could not be carried out; a person must decide
# "dropped"  gone upstream; kept, since TiDB can bring it back
Status = Literal["live", "waiting", "paused", "dropped"]
StoppedStatus = Literal["waiting", "paused"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class Incarnation(Struct, frozen=True, kw_only=True):
    """A table from its creation, or the first that was seen of it, to its end."""

    id: str
    schema: TableSchema
    status: Status = "live"
    reason: str | None = None
    # From which applied ts on it has to be replayed when it can go on: the ts, and its line's seq.
    stopped_ts: int | None = None
    stopped_seq: int | None = None
    created_ts: int
    dropped_ts: int | None = None
    # What a dropped table was, if it was stopped: it is so again when it is brought back.
    held: StoppedStatus | None = None
    # Whether rows may lie in other partitions than their values say.
    strayed: bool = False

    @property
    def is_stopped(self) -> bool:
        return self.status in ("waiting", "paused")

    @property
    def waits(self) -> bool:
        """Whether a schema that is stated lets it go on; even a dropped table may come back."""
        return "waiting" in (self.status, self.held)


class UnknownTable(Struct, frozen=True):
    """A name of which rows have come, and nothing that tells their columns."""

    database: str
    table: str
    schema_version: int | None
    stopped_ts: int
    stopped_seq: int


# What tells DDLs of one commit ts apart: SQL, database and table.
DdlName = tuple[str, str, str]


class State(Struct, frozen=True):
    """The lake at `ts`, which was applied by the line `seq` of `applied`."""

    ts: int = 0
    seq: int = 0
    catalog: CatalogState = CatalogState()
    incarnations: dict[str, Incarnation] = {}
    names: list[tuple[TableKey, str]] = []
    # Dropped and truncated tables by the name they had, the last one last.
    dropped: list[tuple[TableKey, list[str]]] = []
    unknown: list[UnknownTable] = []
    # Why no table that was there before can be trusted.
    doubt: str | None = None
    # DDLs of exactly `ts` that were carried out: others of that ts may still come.
    done: list[DdlName] = []
    # Bootstraps that say how a table is later than `ts`.
    bootstraps: list[tuple[int, Bootstrap]] = []
    heard: WatermarkState = WatermarkState()
    # DDLs that a person has decided to do without: commit ts and name.
    skipped: list[tuple[int, DdlName]] = []
    # ENUM and SET columns of which it has been said that their members are not known.
    unnamed: list[tuple[str, str, str]] = []
    # Rows that could not be read yet.
    missing: list[UndecodedFiles] = []


def stop_table(
    table: Incarnation, how: StoppedStatus, reason: str, place: tuple[int, int]
) -> Incarnation:
    """A table that goes no further; it has to be replayed from the ts and seq that are given."""
    table = replace(table, reason=reason, stopped_ts=place[0], stopped_seq=place[1])
    return replace(table, held=how) if table.status == "dropped" else replace(table, status=how)


def ddl_name(change: SchemaChange) -> DdlName:
    """What tells a DDL from others of its commit ts."""
    return change.sql, change.database, change.table


def incarnation_id(database: str, table: str, birth: int) -> str:
    """Name an incarnation: readable, and safe as a folder in any file system."""
    exact = hashlib.sha256(f"{database}\0{table}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', f'{database}-{table}')[:80]}-{birth}-{exact}"
