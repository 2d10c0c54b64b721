"""Checks: what is promised, and whether it was kept.  A thin Dagster shell around `invariants`.

`check_specs` declares a changefeed's checks; `evaluate_checks` evaluates them over a range of
snapshots (`SnapshotRange`).  Rules of this room: a check reads what the range changed, and a range
since snapshot 0 checks everything; rows are read once and shared; a result shows where a row is
and what is wrong with it, never its values.
"""

from ticdc_assets.checks.evaluate import evaluate_checks
from ticdc_assets.checks.invariants import SnapshotRange
from ticdc_assets.checks.specs import (
    EQUALS_COPY,
    EQUALS_UPSTREAM,
    PROOF_IS_RECENT,
    check_specs,
)

__all__ = [
    "EQUALS_COPY",
    "EQUALS_UPSTREAM",
    "PROOF_IS_RECENT",
    "SnapshotRange",
    "check_specs",
    "evaluate_checks",
]
