"""The records that commands print: as text for people, or as one JSON object per line.

docs/cli-json.md describes every field, and a test compares it with these classes.  Fields are added
and keep their meaning; none is removed or renamed without a line in the changelog.

A `…_ts` is a TSO, as a number, and the `…_at` beside it its time.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from ticdc_assets.cli.proof_records import Proof as Proof
from ticdc_assets.cli.proof_records import Proofs as Proofs
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.log.verifications import Original, Verdict
from ticdc_assets.plan.state import ShownStatus
from ticdc_assets.resources.finding import Finding as Finding
from ticdc_assets.store.last_run import RunCommand, RunResult
from ticdc_assets.views.status import ChangefeedState


def find_time(ts: int | None) -> datetime | None:
    """Return the time of a TSO; None without one, and after the year 9999."""
    try:
        return to_datetime(ts) if ts else None
    except OverflowError:
        return None


class Record(Struct, frozen=True, kw_only=True):
    """A record of a changefeed."""

    changefeed: str


class Run(Struct, frozen=True, kw_only=True):
    """The last run of a changefeed."""

    command: RunCommand
    result: RunResult
    started_at: datetime
    ended_at: datetime | None
    reason: str | None
    run_id: str | None
    version: str | None


class LayerSize(Struct, frozen=True, kw_only=True):
    """How much storage a layer of the lake takes."""

    layer: str
    # Data files of the newest versions.
    files: int
    bytes: int
    # All files, with old ones and Delta's logs, and what `maintain` would remove of them now.
    stored_bytes: int
    removable_bytes: int


class Status(Record, frozen=True, kw_only=True):
    """`status`: a changefeed."""

    state: ChangefeedState
    reason: str | None
    is_late: bool
    lag_seconds: float | None
    checkpoint_lag_seconds: float | None
    lake_lag_seconds: float | None
    max_lag_seconds: float
    checkpoint_ts: int | None
    checkpoint_at: datetime | None
    resolved_ts: int | None
    resolved_at: datetime | None
    newest_input_at: datetime | None
    records_behind: int | None
    applied_at: datetime | None
    tables: int
    paused: int
    waiting: int
    partial: int
    quarantined: int
    catalog_problems: list[str]
    # None without a database upstream, and where the lake cannot be read.
    proofs: Proofs | None
    last_run: Run | None
    sizes: list[LayerSize]


class Table(Record, frozen=True, kw_only=True):
    """`tables`: a table."""

    database: str
    table: str
    status: ShownStatus
    reason: str | None
    # The DDL at which it was paused, if a DDL is the reason.
    blocking_ddl: str | None
    rows: int | None
    resolved_ts: int | None
    resolved_at: datetime | None
    # How long ago that was.
    age_seconds: float | None
    schema_version: int | None
    incarnation: str | None
    address: str | None
    path: str | None
    delta_version: int | None
    # None of a table that is gone, and without a database upstream.
    proof: Proof | None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


class LedgerSource(Record, frozen=True, kw_only=True, tag_field="record", tag="source"):
    """`ledger`: all input, the first record."""

    what: str
    input: int
    decoded: int
    waiting: int
    quarantined: int
    balances: bool
    faults: list[str]


class LedgerTable(Record, frozen=True, kw_only=True, tag_field="record", tag="table"):
    """`ledger`: the row events of a table's name."""

    table: str
    input: int
    applied: int
    superseded: int
    quarantined: int
    waiting: int
    repeated: int
    erased: int
    missing: int
    balances: bool


class LedgerPartial(Record, frozen=True, kw_only=True, tag_field="record", tag="partial"):
    """`ledger`: a table whose rows were never input, or not all of them."""

    table: str
    reason: str


class Problem(Struct, frozen=True, kw_only=True):
    """What a run met, and an operator should know."""

    kind: str
    database: str | None
    table: str | None
    commit_ts: int | None
    commit_at: datetime | None
    position: str | None
    reason: str


class Advance(Record, frozen=True, kw_only=True):
    """`advance`: what it did."""

    resolved_ts: int | None
    resolved_at: datetime | None
    lag_seconds: float | None
    what: Literal["files", "records"]
    input: int
    input_bytes: int
    row_changes: int
    ddls: int
    input_quarantined: int
    files_waiting: int
    tables_changed: int
    tables_replayed: int
    rows_applied: int
    rows_quarantined: int
    seconds: float
    problems: list[Problem]


class Load(Record, frozen=True, kw_only=True):
    """`load`: a table."""

    table: str
    result: Literal["loaded", "already loaded", "left out", "failed", "skipped"]
    reason: str | None
    rows: int
    quarantined: int
    load_ts: int
    load_at: datetime | None
    origin: str


class Maintain(Record, frozen=True, kw_only=True):
    """`maintain`: what it did."""

    tables_compacted: int
    files_before: int
    files_after: int
    files_removed: int
    bytes_removed: int
    retain_days: int
    expire_days: int | None
    records_expired: int
    keep_events_days: int | None
    row_events_folded: int
    fold_ts: int | None
    fold_at: datetime | None


class Left(Struct, frozen=True, kw_only=True):
    """A file that has something of an erased row."""

    path: str
    what: str


class Erase(Record, frozen=True, kw_only=True):
    """`erase`: what it took away, and what the search of all files found; without the key."""

    erasure: int
    database: str
    table: str
    requested_at: datetime
    erased_at: datetime
    through_ts: int
    through_at: datetime | None
    raw: int
    quarantine: int
    events: int
    current: int
    history: int
    changes: int
    differences: int
    files_removed: int
    bytes_removed: int
    files_searched: int
    bytes_searched: int
    texts_searched: int
    left: list[Left]


class Difference(Struct, frozen=True, kw_only=True):
    """A row that differs; without its values."""

    what: str
    key: str | None
    copies: int
    columns: list[str]
    cause: str


class Verify(Record, frozen=True, kw_only=True):
    """`verify`: a table."""

    database: str
    table: str
    verdict: Verdict
    reason: str | None
    resolved_ts: int | None
    resolved_at: datetime | None
    lake_rows: int | None
    upstream_rows: int | None
    different_rows: int
    is_complete: bool
    in_flight: int
    ranges: int
    rows_sent: int
    seconds: float
    left_out: list[str]
    against: str | None
    compared_with: Original | None
    share: float | None
    bytes_read: int | None
    differences: list[Difference]


class Quarantine(Record, frozen=True, kw_only=True):
    """`quarantine`: a reason, with the first of the input or rows that have it."""

    stage: str
    database: str | None
    table: str | None
    reason: str
    count: int
    commit_ts: int | None
    commit_at: datetime | None
    position: str
    # Whether a table may lack them.
    is_open: bool


class Column(Struct, frozen=True, kw_only=True):
    """A column in a version of a schema."""

    name: str
    type: str
    nullable: bool
    default: str | None
    default_is_expression: bool
    generated: str | None
    # What becomes of its values before they are stored.
    rule: str | None


class Schema(Record, frozen=True, kw_only=True):
    """`schema`: a version of a table's schema."""

    incarnation: str
    database: str
    table: str
    valid_from_ts: int
    valid_from_at: datetime | None
    schema_version: int | None
    origin: str
    ddl_type: str | None
    sql: str | None
    # Whether the table ends with it.
    ends: bool
    columns: list[Column]
    key: list[str]
    # What it changed, in words; none in the first version of a table.
    changes: list[str]
