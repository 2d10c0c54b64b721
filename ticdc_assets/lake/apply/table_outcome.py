"""What became of a table in a window."""

from dataclasses import dataclass, field

import pyarrow as pa

from ticdc_assets.log.applied_row import TableCounts


@dataclass(frozen=True)
class TableOutcome:
    """A table after its work; with a `pause_reason`, it is as it was before."""

    version: int | None = None
    counts: list[TableCounts] = field(default_factory=list)
    # The events that were left out.
    quarantined: list[pa.Table] = field(default_factory=list)
    rows_in_wrong_partitions: bool = False
    pause_reason: str | None = None
