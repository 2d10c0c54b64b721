"""The ledger of a changefeed's source: what became of its records or files.

Every data file has a `file` row or waits; every applied batch has a `batch` row, which
accounts for its records and schema files; every input that could not be decoded, and every row
that could not be loaded, is in the quarantine.
"""

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.reader import OpenTables, count_by

IS_ROW = pc.field("kind") == "row"


@dataclass(frozen=True)
class SourceLedger:
    """What became of the records or files of a changefeed."""

    what: str
    input: int
    decoded: int
    waiting: int
    quarantined: int
    # Contradictions, in words.
    faults: tuple[str, ...]

    @property
    def adds_up(self) -> bool:
        return not self.faults


class SourceCount:
    """Recounts the records or files of a changefeed."""

    def __init__(self, tables: OpenTables, applied: Snapshot) -> None:
        self._read = tables.read
        self._columns = tables.columns("raw")
        self._applied = applied

    def run(self, unapplied: int, unloaded: int) -> SourceLedger:
        """Recount everything, given the row events not applied and the rows not loaded."""
        undecoded = self._read("events", "seq", where=pc.field("kind") == "quarantined").num_rows
        faults = self._batch_faults() + self._quarantine_faults(undecoded, unapplied, unloaded)
        if "role" in self._columns:
            what = "data files"
            input, decoded, more = self._count_files()
            faults += more
        else:
            what = "records"
            marks = self._read("events", "batch", where=pc.field("kind") == "batch")
            batches = self._read("raw", "batch")["batch"]
            input = len(batches)
            decoded = pc.sum(pc.is_in(batches, marks["batch"])).as_py() or 0
        return SourceLedger(what, input, decoded, input - decoded, undecoded, tuple(faults))

    def _count_files(self) -> tuple[int, int, list[str]]:
        """Count the data files and those decoded, and return what is wrong with them."""
        is_data = pc.field("role").isin(["data", "changed data"])
        newest: dict[str, tuple[int, int]] = {}
        for row in self._read("raw", "path", "seq", "batch", where=is_data).to_pylist():
            place = row["seq"], row["batch"]
            newest[row["path"]] = max(place, newest.get(row["path"], place))
        marks = self._read("events", "source", "seq", where=pc.field("kind") == "file")
        marked = Counter((row["source"], row["seq"]) for row in marks.to_pylist())
        times = {path: marked[path, seq] for path, (seq, _) in newest.items()}
        last = self._applied.decoded_batch
        lost = sum(not times[path] and batch <= last for path, (_, batch) in newest.items())
        faults = []
        if lost:
            faults.append(f"{lost} files were considered decoded, and are not marked")
        if any(count > 1 for count in times.values()):
            faults.append("a file is marked as decoded more than once")
        return len(newest), sum(times.values()), faults

    def _batch_faults(self) -> list[str]:
        """Return applied batches without their `batch` row, and rows that are stored twice."""
        done = self._applied.batch
        marks = self._read("events", "batch", "seq", where=pc.field("kind") == "batch")
        marked = _count_batches(marks)
        faults = []
        for batch, (_, seq) in sorted(_count_batches(self._read("raw", "batch", "seq")).items()):
            count, last = marked.get(batch, (0, seq))
            if not count and batch <= done:
                faults.append(f"batch {batch} was considered, and is not marked as decoded")
            elif count > 1:
                faults.append(f"batch {batch} is marked as decoded {count} times")
            elif last < seq:
                faults.append(f"batch {batch} ends beyond what is marked as decoded")
        if same := self._count_stored_twice():
            faults.append(f"{same} row events are in the lake more than once")
        return faults

    def _count_stored_twice(self) -> int:
        same = 0
        # The source is long, and decides only where the numbers do not.
        for columns in (("batch", "seq", "index"), ("batch", "seq", "index", "source")):
            rows = self._read("events", *columns, where=IS_ROW)
            counts = rows.group_by(list(columns)).aggregate([([], "count_all")])["count_all"]
            same = pc.sum(pc.greater(counts, 1)).as_py() or 0
            if not same:
                break
        return int(same)

    def _quarantine_faults(self, undecoded: int, unapplied: int, unloaded: int) -> list[str]:
        kept = count_by("stage", self._read("quarantine", "stage"))
        faults = []
        for stage, count, what in (
            ("decode", undecoded, "inputs could not be decoded"),
            ("apply", unapplied, "row events could not be applied"),
            ("load", unloaded, "rows could not be loaded"),
        ):
            held = kept.get(stage, 0)
            # Killed runs and loads may have left more rows.
            if held < count or (stage == "decode" and held > count):
                faults.append(f"{count} {what}, and {held} are in the quarantine")
        return faults


def _count_batches(rows: pa.Table) -> dict[int, tuple[int, int]]:
    """Return how many rows every batch has, and their greatest `seq`."""
    groups = rows.group_by("batch").aggregate([([], "count_all"), ("seq", "max")])
    return {row["batch"]: (row["count_all"], row["seq_max"]) for row in groups.to_pylist()}
