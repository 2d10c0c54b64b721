"""The choice of a night's share: every table is verified once in some nights that cost alike."""

from collections.abc import Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.log.proofs import TableProof, Verified
from ticdc_assets.verify.share import Candidate, choose_share

FIRST = datetime(2026, 11, 28, 1, 30, tzinfo=UTC)


@dataclass
class Nights:
    """A lake whose share is verified night by night; the history of each table is kept."""

    days: int
    tables: dict[str, Candidate] = field(default_factory=dict)
    compared: dict[str, list[int]] = field(default_factory=dict)
    number: int = 0

    def add(self, *rows: int) -> None:
        for count in rows:
            id = f"t{len(self.tables)}"
            # The ids order the tables in another way than their ages.
            id = f"{hash(id) % 97}-{id}"
            self.tables[id] = Candidate(id, count, len(self.tables), TableProof())
            self.compared[id] = [self.number - 1]

    def drop(self, id: str) -> None:
        self.tables[id] = Candidate(id, self.tables[id].rows, 0, self.tables[id].proof, False)

    def pass_by(self, skipped: Set[str] = frozenset(), delay: timedelta = timedelta()) -> list[str]:
        """Take a night; some tables cannot be compared."""
        now = FIRST + timedelta(days=self.number) + delay
        chosen = choose_share(self.tables.values(), self.days, now)
        assert len(chosen) == len(set(chosen))
        is_plain = not skipped and not any(table.is_skipped for table in self.tables.values())
        for number, id in enumerate(chosen, 1):
            self.verify(id, now, can_compare=id not in skipped)
            if is_plain:
                # A run that continues an interrupted night takes what is left of it.
                later = now + timedelta(hours=1)
                assert choose_share(self.tables.values(), self.days, later) == chosen[number:]
        self.number += 1
        return chosen

    def verify(self, id: str, now: datetime, *, can_compare: bool) -> None:
        table = self.tables[id]
        assert table.is_there
        found = Verified(now, 1, "equal" if can_compare else "skipped", rows=table.rows)
        proof = TableProof(found, found if can_compare else table.proof.compared)
        self.tables[id] = Candidate(id, table.rows, table.created_ts, proof)
        if can_compare:
            self.compared[id].append(self.number)

    def find_gaps(self) -> dict[str, int]:
        """Return for how many nights each table was not compared at most, up to now."""
        return {
            id: max(later - sooner for sooner, later in pairwise([*seen, self.number]))
            for id, seen in self.compared.items()
            if self.tables[id].is_there
        }

    def sum_cost(self, ids: list[str]) -> int:
        return sum(self.tables[id].cost for id in ids)


sizes = st.lists(st.integers(0, 50_000), max_size=12)
delays = st.integers(0, 5).map(lambda hours: timedelta(hours=hours))


@given(st.integers(1, 9), sizes.filter(bool), st.lists(delays, min_size=30, max_size=30))
def test_every_table_has_its_night_and_nights_cost_alike(
    days: int, rows: list[int], late: list[timedelta]
) -> None:
    nights = Nights(days)
    nights.add(*rows)
    share = nights.sum_cost(list(nights.tables)) / days
    largest = max(table.cost for table in nights.tables.values())
    for delay in late:
        chosen = nights.pass_by(delay=delay)
        assert nights.sum_cost(chosen) < share + largest
    assert max(nights.find_gaps().values()) <= days


@given(
    st.integers(1, 9),
    sizes,
    st.lists(st.tuples(sizes, st.sets(st.integers(0, 200), max_size=6)), max_size=40),
)
def test_tables_that_come_and_go_keep_no_other_from_its_night(
    days: int, rows: list[int], changes: list[tuple[list[int], set[int]]]
) -> None:
    nights = Nights(days)
    nights.add(*rows)
    for added, dropped in changes:
        ids = list(nights.tables)
        for number in dropped:
            if number < len(ids):
                nights.drop(ids[number])
        nights.add(*added[:3])
        nights.pass_by()
        assert max(nights.find_gaps().values(), default=0) <= days


@given(st.integers(1, 9), sizes.filter(bool), st.lists(st.integers(0, 30), max_size=5))
def test_after_nights_that_were_missed_the_others_take_up_the_work(
    days: int, rows: list[int], missed: list[int]
) -> None:
    nights = Nights(days)
    nights.add(*rows)
    share = nights.sum_cost(list(nights.tables)) / days
    largest = max(table.cost for table in nights.tables.values())
    taken: dict[str, list[int]] = {id: [0] for id in nights.tables}
    count = 0
    for pause in [*missed, 0]:
        for _ in range(days + 1):
            count += 1
            chosen = nights.pass_by()
            # Its own share, and that of a night of before.
            assert nights.sum_cost(chosen) < 2 * (share + largest)
            for id in chosen:
                taken[id].append(count)
        nights.number += pause
    gaps = [later - sooner for seen in taken.values() for sooner, later in pairwise([*seen, count])]
    assert max(gaps) <= days


@given(
    st.integers(1, 9),
    sizes.filter(bool),
    st.lists(st.sets(st.integers(0, 5), max_size=4), min_size=5, max_size=30),
)
def test_tables_that_cannot_be_compared_are_tried_again_and_delay_no_other(
    days: int, rows: list[int], failures: list[set[int]]
) -> None:
    nights = Nights(days)
    nights.add(*rows)
    ids = list(nights.tables)
    # One is never comparable, and has most rows.
    nights.add(10_000_000)
    never = list(nights.tables)[-1]
    failed: set[str] = set()
    for failing in failures:
        skipped = {ids[number] for number in failing if number < len(ids)}
        failed |= skipped
        nights.pass_by(skipped | {never})
    gaps = nights.find_gaps()
    assert all(gap <= days for id, gap in gaps.items() if id not in failed | {never})
    # Once nothing fails any more, what was skipped is compared within as many nights.
    for _ in range(days):
        nights.pass_by({never})
    assert all(nights.compared[id][-1] >= nights.number - days for id in ids)
