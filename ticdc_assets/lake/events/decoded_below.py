"""Row events below a fold that come of input which is decoded again: they are gone, and stay so.

Of input that could not be decoded before, rows below the fold may never have been applied: they are
quarantined, as those that arrive too late.  Which of a damaged file were, nobody knows any more.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.lake.apply.below_fold import QUARANTINED_COLUMNS, quarantine_rows
from ticdc_assets.lake.events.folded_events import remove_folded
from ticdc_assets.log.folds import read_fold
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader


class DecodedBelow:
    """What is decoded below the fold; made before anything is replaced."""

    def __init__(self, lake: LakeSession) -> None:
        self._lake = lake
        self._reader = LakeReader(lake.location)
        self.fold = read_fold(self._reader)
        # The records and files that were faulty.
        self._inputs = pa.array([], pa.int64())
        if self.fold.snapshot_id:
            is_faulty = pc.field("kind") == "quarantined"
            rows = self._reader.read(self._reader.open("events"), ["seq"], is_faulty)
            self._inputs = pc.unique(rows["seq"])

    def quarantine(self, rows: pa.Table) -> None:
        """Quarantine rows, with columns of `events`, if they come of input that was faulty."""
        chosen = rows.filter(pc.is_in(rows["seq"], value_set=self._inputs))
        if chosen.num_rows:
            quarantine_rows(self._lake, self.fold, chosen)

    def remove(self) -> None:
        """Remove rows below the fold from `events`, where decoding has put them again."""
        if not self.fold.snapshot_id:
            return
        where, opened = self.fold.covers(pc.field), self._reader.open("events")
        for rows in self._reader.read_blocks(opened, QUARANTINED_COLUMNS, where):
            self.quarantine(rows)
        remove_folded(self._lake.location, self.fold)
