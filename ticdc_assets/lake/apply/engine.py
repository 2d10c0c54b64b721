"""What every task of a window has in common."""

from dataclasses import dataclass

from ticdc_assets.lake.apply.pending_rows import PendingRows
from ticdc_assets.protocols.registry import Redecode
from ticdc_assets.store.lake import Lake


@dataclass(frozen=True)
class Engine:
    """What every task of a window has in common."""

    location: Lake
    pending: PendingRows
    redecode: Redecode | None
    # TiCDC sends an update of a key as a delete and an insert.
    updates_split: bool
