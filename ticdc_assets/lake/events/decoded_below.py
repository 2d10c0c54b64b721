"""Row events below a fold that come of input which is decoded again: they are gone, and stay so.

Of input that could not be decoded before, nothing below the fold was ever applied: such rows are
quarantined, as those that arrive too late.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.lake.apply.below_fold import QUARANTINED_COLUMNS, quarantine_rows
from ticdc_assets.lake.events.folded_events import remove_folded
from ticdc_assets.lake.log.folds import read_fold
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader


class DecodedBelow:
    """What is decoded below the fold; made before anything is replaced."""

    def __init__(self, lake: LakeSession) -> None:
        self._lake = lake
        self._reader = LakeReader(lake.location)
        self.fold = read_fold(self._reader)
        self._inputs: Collection[int] = ()
        # The records of a file that could not be decoded; of other input, all of it.
        self._records: Collection[tuple[int, int]] = ()
        if self.fold.snapshot_id:
            is_faulty = pc.field("kind") == "quarantined"
            columns = ["seq", "number", "partition"]
            rows = self._reader.read(self._reader.open("events"), columns, is_faulty).to_pylist()
            records = {
                (row["seq"], row["number"])
                for row in rows
                if row["partition"] is None and row["number"]
            }
            self._records = records
            self._inputs = {row["seq"] for row in rows} - {seq for seq, _ in records}

    def quarantine(self, rows: pa.Table) -> None:
        """Quarantine rows, with columns of `events`, if they come of input that was faulty."""
        places = zip(rows["seq"].to_pylist(), rows["number"].to_pylist(), strict=True)
        chosen = [seq in self._inputs or (seq, number) in self._records for seq, number in places]
        if any(chosen):
            quarantine_rows(self._lake, self.fold, rows.filter(pa.array(chosen, pa.bool_())))

    def remove(self) -> None:
        """Remove rows below the fold from `events`, where decoding has put them again."""
        if not self.fold.snapshot_id:
            return
        where, opened = self.fold.covers(pc.field), self._reader.open("events")
        for rows in self._reader.read_blocks(opened, QUARANTINED_COLUMNS, where):
            self.quarantine(rows)
        remove_folded(self._lake.location, self.fold)
