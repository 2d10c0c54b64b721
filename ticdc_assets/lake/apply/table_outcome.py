"""What became of a table in a window."""

from dataclasses import dataclass, field

import pyarrow as pa

from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.log.applied_row import TableCounts


@dataclass(frozen=True)
class TableOutcome:
    """A table after its work; with a `pause_reason`, it is as it was before."""

    version: int | None = None
    counts: list[TableCounts] = field(default_factory=list)
    # What Spark applied, and what the engine left out.
    segments: list[Segment] = field(default_factory=list)
    quarantined: list[pa.Table] = field(default_factory=list)
    rows_in_wrong_partitions: bool = False
    pause_reason: str | None = None
