"""Which tables tonight verifies, so that all are verified once in some nights that cost alike.

The choice is pure: it is made of what verifications found before, and needs no state of its own.

    compared   The table that was compared longest ago comes first, and tables that never were,
               before it.  A night takes tables until it has its share: of all rows, one part in as
               many as there are nights.  A table that is larger ends the night that it begins in.
    last call  What was compared just so many nights ago is taken beyond that, whatever else came.
    skipped    What could not be compared is tried again, beyond the share, the longest ago first.

What was verified this night counts, so a night that was interrupted goes on with what is left.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ticdc_assets.log.proofs import TableProof, count_nights

# What a table costs besides its rows: the queries that every table needs.
_ROWS_PER_TABLE = 1000


@dataclass(frozen=True)
class Candidate:
    """A table: its rows, its age, and when it was compared; one that is gone still counts."""

    id: str
    rows: int
    created_ts: int
    proof: TableProof
    is_there: bool = True

    @property
    def cost(self) -> int:
        return self.rows + _ROWS_PER_TABLE

    @property
    def is_skipped(self) -> bool:
        return self.proof.newest is not None and self.proof.newest.verdict == "skipped"

    def count_nights(self, now: datetime) -> int | None:
        """Count the nights since it was compared; if it was skipped, since then."""
        last = self.proof.newest if self.is_skipped else self.proof.compared
        return None if last is None else count_nights(last.at, now)

    def rank(self) -> tuple[float, int, str]:
        """Order what was compared longest ago first, then the tables that are older."""
        last = self.proof.newest if self.is_skipped else self.proof.compared
        return (0.0 if last is None else last.at.timestamp(), self.created_ts, self.id)


def choose_share(candidates: Iterable[Candidate], days: int, now: datetime) -> list[str]:
    """Return the ids of the tables that are left to verify tonight, in order."""
    skipped: list[Candidate] = []
    compared: list[Candidate] = []
    for each in sorted(candidates, key=Candidate.rank):
        nights = each.count_nights(now)
        # A table that is gone has taken its part of the last nights.
        if each.is_there or (nights is not None and nights < days):
            (skipped if each.is_skipped else compared).append(each)
    share = _sum(compared) / days
    chosen = [each.id for each in _take(compared, share, now)]
    last_call = [e.id for e in compared if e.is_there and e.count_nights(now) == days]
    retried = [each.id for each in _take(skipped, max(share, _sum(skipped) / days), now)]
    return list(dict.fromkeys((*chosen, *last_call, *retried)))


def _sum(candidates: Iterable[Candidate]) -> int:
    return sum(each.cost for each in candidates)


def _take(ordered: Sequence[Candidate], share: float, now: datetime) -> Iterator[Candidate]:
    """Take tables until they make up a share, with those that this night has verified."""
    spent = _sum(each for each in ordered if each.count_nights(now) == 0)
    for each in ordered:
        if spent >= share:
            return
        if each.is_there and each.count_nights(now) != 0:
            spent += each.cost
            yield each
