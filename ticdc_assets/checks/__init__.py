"""Checks: what is promised, and whether it was kept.  A thin shell around `invariants`.

`specs_for` declares a changefeed's checks, `evaluate` looks at what a run applied (`Window`).
Frames are read once and shared; a check follows the change, and a window from line 0 is a full one.
"""

from ticdc_assets.checks.family import evaluate, specs_for
from ticdc_assets.checks.invariants import Window

__all__ = ["Window", "evaluate", "specs_for"]
