"""A run over one changefeed: apply window after window, then report everything that changed.

Rules of this room: no Dagster; what only Dagster knows (whether runs are queued, what was reported
last) comes in as a value or a callable.  A run reports what it did even if a later window failed,
and includes what earlier runs and commands did without reporting it.
The order: `read_reported_catalog`, `advance_windows` (or `rebuild_tables`), then `RunReport`.
"""

from ticdc_assets.run.budget import RunBudget
from ticdc_assets.run.report import (
    AdvanceReport,
    LastReport,
    RunReport,
    preview_changed_tables,
    read_reported_catalog,
)
from ticdc_assets.run.windows import (
    AppliedWindows,
    advance_windows,
    find_tables,
    rebuild_tables,
)

__all__ = [
    "AdvanceReport",
    "AppliedWindows",
    "LastReport",
    "RunBudget",
    "RunReport",
    "advance_windows",
    "find_tables",
    "preview_changed_tables",
    "read_reported_catalog",
    "rebuild_tables",
]
