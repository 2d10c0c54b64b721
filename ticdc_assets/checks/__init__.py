"""Checks: what is promised, and whether it was kept.  A thin shell around `invariants`.

`check_specs` declares a changefeed's checks, `evaluate_checks` looks at what a run applied
(`SnapshotRange`).  Frames are read once and shared.  A check reads what
the run changed; a range from snapshot 0 is a full check.
"""

from ticdc_assets.checks.family import check_specs, evaluate_checks
from ticdc_assets.checks.invariants import SnapshotRange

__all__ = ["SnapshotRange", "check_specs", "evaluate_checks"]
