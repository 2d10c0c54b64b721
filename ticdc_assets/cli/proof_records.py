"""What `status` and `tables` print of the proofs of tables, as parts of their records."""

from datetime import datetime

from msgspec import Struct

from ticdc_assets.views.proofs import ProofState


class Proofs(Struct, frozen=True, kw_only=True):
    """How long ago the tables of a changefeed were proven equal to the database upstream."""

    # How often the owner wants each of them proven.
    every_days: int | None
    tables: int
    proven: int
    old: int
    differs: int
    skipped: int
    never: int
    # Those that should have been proven since.
    late: int
    oldest_seconds: float | None
    # When the last night's last verification began, and what all of that night cost.
    verified_at: datetime | None
    verified_tables: int
    rows_read: int
    rows_sent: int
    seconds: float


class Proof(Struct, frozen=True, kw_only=True):
    """Whether a table was proven equal to the one upstream."""

    state: ProofState
    text: str
    proof_ts: int | None
    proof_at: datetime | None
    # How long ago the verification was that proved it.
    age_seconds: float | None
    is_late: bool
