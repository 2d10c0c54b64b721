"""What a comparison with a copy has done, until it ends."""

import msgspec

from ticdc_assets.log.progress import Progress
from ticdc_assets.store.lake import Lake


class CopyRun(msgspec.Struct):
    """A run that has not ended: what it compares with what."""

    run: str
    against: str
    ts: int
    tables: list[str]
    # Which of `SLICES` ranges of hashes are compared; None for all.
    slices: list[int] | None
    # The templates of the names of the copy's tables.
    names: list[str] = []
    # Whether it compares with the database upstream, and not with the lake.
    upstream: bool = False


class SideProgress(msgspec.Struct):
    """The units of one side that are summed up, and their sums by range."""

    state: str | None = None
    units: int = 0
    # The first hash, the rows, and the sum as a decimal text: JSON has no integers of this size.
    sums: list[tuple[int, int, str]] = []


class CopyTableProgress(msgspec.Struct):
    """A table that is being compared."""

    parts: int
    ours: SideProgress
    theirs: SideProgress


class CopyProgress(Progress[CopyRun, CopyTableProgress]):
    """The table `copy_progress` of a lake."""

    def __init__(self, location: Lake) -> None:
        super().__init__(location, "copy_progress", CopyRun, CopyTableProgress)
