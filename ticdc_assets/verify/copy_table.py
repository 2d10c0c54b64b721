"""Compare one table with a copy: sums of both sides, then the rows that differ."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from ticdc_assets.log.copy_progress import CopyTableProgress, SideProgress
from ticdc_assets.verify.narrowing import (
    MOST_PARTS,
    NOTHING,
    DifferentRow,
    add_sums,
    choose_parts,
    compare_sums,
    do_both,
    find_different_rows,
)
from ticdc_assets.verify.side import ALL_HASHES, Comparison, Digest, Span, UnitSide
from ticdc_assets.verify.table import MOST_DIFFERENCES

# A sample is some of so many equal ranges of hashes.
SLICES = 1024
_SECONDS_BETWEEN_SAVES = 10.0


@dataclass
class Tally:
    """The units of one side that are summed up, and their sums.

    `state` is what is equal as long as these units have the same rows; None if nothing shows that.
    """

    state: str | None
    units: int = 0
    sums: dict[Span, Digest] = field(default_factory=dict)

    def encode(self) -> SideProgress:
        """Encode it for the lake."""
        sums = [(span.low, rows, str(sum)) for span, (rows, sum) in self.sums.items()]
        return SideProgress(self.state, self.units, sums)

    def take_up(self, known: SideProgress, width: int) -> None:
        """Take up what a run that was killed had done, if the rows are still the same."""
        if self.state is not None and known.state == self.state:
            self.units = known.units
            self.sums = {
                Span(low, low + width): Digest(rows, int(sum)) for low, rows, sum in known.sums
            }


@dataclass
class CopyComparison:
    """The comparison of a table, and what it found."""

    comparison: Comparison
    ours: UnitSide
    theirs: UnitSide
    spans: Sequence[Span]
    parts: int
    our_tally: Tally = field(init=False)
    their_tally: Tally = field(init=False)
    our_rows: int = 0
    their_rows: int = 0
    different: list[DifferentRow] = field(default_factory=list)
    complete: bool = True
    ranges: int = 0

    def __post_init__(self) -> None:
        self.our_tally, self.their_tally = Tally(self.ours.state), Tally(self.theirs.state)

    @property
    def is_whole(self) -> bool:
        """Whether all rows are compared, and no sample of them."""
        return list(self.spans) == [ALL_HASHES]

    def encode(self) -> CopyTableProgress:
        """Encode the progress for the lake."""
        return CopyTableProgress(self.parts, self.our_tally.encode(), self.their_tally.encode())

    def take_up(self, known: CopyTableProgress | None) -> None:
        """Take up the progress of a run that was killed."""
        if known is not None:
            self.parts = known.parts
            width = self.spans[0].part_width(self.parts)
            self.our_tally.take_up(known.ours, width)
            self.their_tally.take_up(known.theirs, width)


def choose_spans(slices: Sequence[int] | None) -> list[Span]:
    """Choose the ranges of hashes to compare: all, or those of a sample."""
    if slices is None:
        return [ALL_HASHES]
    every = ALL_HASHES.split(SLICES)
    return [every[number] for number in slices]


def choose_ranges(rows: int, spans: Sequence[Span]) -> int:
    """Choose in how many parts each of some spans is summed up."""
    if list(spans) != [ALL_HASHES]:
        rows = -(-rows // SLICES)
    return choose_parts(rows, MOST_PARTS // len(spans))


def compare_copy(
    compared: CopyComparison, save: Callable[[], None], show: Callable[[int], None]
) -> None:
    """Compare the sums of all ranges, and find the rows that differ."""
    saves = _Saves(save)
    spans, parts = compared.spans, compared.parts
    ours, theirs = do_both(
        partial(_sum, compared.ours, spans, parts, compared.our_tally, saves, lambda rows: None),
        partial(_sum, compared.theirs, spans, parts, compared.their_tally, saves, show),
    )
    compared.our_rows = sum(digest.rows for digest in ours.values())
    compared.their_rows = sum(digest.rows for digest in theirs.values())
    ranges = [part for span in spans for part in span.split(parts)]
    compared.ranges = len(ranges)
    different = compare_sums(ours, theirs, ranges)
    if different:
        saves.save()
        _narrow(compared, different, ours, theirs)


def _narrow(
    compared: CopyComparison,
    different: list[Span],
    ours: Mapping[Span, Digest],
    theirs: Mapping[Span, Digest],
) -> None:
    most = max(max(side.get(span, NOTHING).rows for side in (ours, theirs)) for span in different)

    def count_ranges(more: int) -> None:
        compared.ranges += more

    # What the original has and the copy lacks is missing, so the copy takes the lake's place.
    rows = find_different_rows(compared.theirs, compared.ours, different, most, count_ranges)
    compared.different = list(islice(rows, MOST_DIFFERENCES + 1))
    compared.complete = len(compared.different) <= MOST_DIFFERENCES
    del compared.different[MOST_DIFFERENCES:]


class _Saves:
    """Saves the progress of both sides, now and then, from the threads of both."""

    def __init__(self, save: Callable[[], None]) -> None:
        self._save = save
        self.lock = threading.Lock()
        self._saved_at = time.monotonic()

    def save_sometimes(self) -> None:
        """Save, unless that was done just now; the caller has the lock."""
        if time.monotonic() - self._saved_at >= _SECONDS_BETWEEN_SAVES:
            self._save()
            self._saved_at = time.monotonic()

    def save(self) -> None:
        with self.lock:
            self._save()


# Parameters: a side, what is summed up, and whom to tell.
def _sum(
    side: UnitSide,
    spans: Sequence[Span],
    parts: int,
    tally: Tally,
    saves: _Saves,
    show: Callable[[int], None],
) -> dict[Span, Digest]:
    """Sum up a side, from where a run that was killed had got."""
    rows = sum(digest.rows for digest in tally.sums.values())
    for found in side.sum_units(spans, parts, tally.units):
        rows += sum(digest.rows for digest in found.values())
        with saves.lock:
            add_sums(tally.sums, found)
            tally.units += 1
            show(rows)
            saves.save_sometimes()
    return tally.sums
