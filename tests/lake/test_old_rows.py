"""Updates without old rows, in tables without a key: matched by unique keys, or reported.

Upstream here are tables with unique keys over nullable columns, sent as by a storage sink with
`force-replicate` and without `output-old-value` tells them.
"""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.histories import History
from tests.lake.history_lake import HistoryLake
from tests.plan.contents import contents as in_memory
from tests.plan.contents import model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Row, Step, Value, together
from tests.reference.random_upstream import Shown, World
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import Event, FilePosition, Op, RowChange, SchemaChange
from ticdc_assets.lake.apply.apply import DecodedBatches, apply
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.reference.model import Model
from ticdc_assets.stream.problem import OLD_ROW_MISSING, UPSERT_WITHOUT_KEY

FEED = dataclasses.replace(
    changefeed_from_uri("file:///nowhere?protocol=csv", id="random"), force_replicate=True
)
# Some of each kind; the last ones would come out wrong if a row that went could be overwritten.
SEEDS = (3, 86, 19, 79, 125)
KEYS = ((("a",),), (("b",), ("a",)), (("a", "b"),), (("a", "b"), ("b",)))
TITLE = "t(a, b, v)"

_Row = dict[str, Value]


class Unkeyed(World):
    """One table in transactions of a few rows; now and then an update that matches no row."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, 40)
        self.keys = random.choice(KEYS)
        self.unique = {name for key in self.keys for name in key}
        # How rows may come to unique keys that another row had.
        self.trades, self.strays = random.choice(
            [((), False), ((self._swapped,), False), ((self._swapped, self._displaced), True)]
        )
        self.rows: list[_Row] = []
        # After how many steps there was the first update whose old row the stream does not tell.
        self.lost: int | None = None

    def run(self) -> None:
        keys = ", ".join(f"unique key ({', '.join(key)})" for key in self.keys)
        self.steps.append(Ddl(f"CREATE TABLE `t` (a int, b int, v int, {keys})", "t"))
        self.keep()
        while len(self.steps) < self.length:
            self._transaction()
            self.keep()

    def keep(self) -> None:
        texts = ([v if v is None else str(v) for v in row.values()] for row in self.rows)
        rows = sorted((tuple(row) for row in texts), key=str)
        self.states[len(self.steps)] = {TITLE: rows}

    def _transaction(self) -> None:
        picked = self.random.sample(range(len(self.rows)), min(len(self.rows), 3))
        rows, steps = list(self.rows), list[Step]()
        is_lost = False
        for at in picked[: self.random.randrange(4)]:
            old = self.rows[at]
            if self.random.random() < 0.3:
                rows[at] = {}
                steps.append(Row("t", old, None))
                continue
            new = self._changed(old)
            rows[at] = new
            steps.append(Row("t", old, new))
            is_lost |= any(
                old[name] != new[name] for name in self.unique
            ) or not self._is_identified(old)
        if self.trades and not steps and len(picked) > 1:
            steps = self.random.choice(self.trades)(rows, *picked[:2])
            is_lost = True
        for _ in range(self.random.randrange(3)):
            rows.append({"a": self._number(), "b": self._number(), "v": self.random.randrange(3)})
            steps.append(Row("t", None, rows[-1]))
        rows = [row for row in rows if row]
        if not steps or not self._may_be(rows) or (is_lost and not self.trades):
            return
        self.rows = rows
        self.random.shuffle(steps)
        self.steps += [steps[0], *(together(step) for step in steps[1:])]
        if is_lost and self.lost is None:
            self.lost = len(self.steps)

    def _swapped(self, rows: list[_Row], one: int, other: int) -> list[Step]:
        """Two rows that change places, as far as unique keys tell."""
        old = rows[one], rows[other]
        rows[one], rows[other] = ({**rows[n], "v": 9} for n in (other, one))
        return [Row("t", old[0], rows[one]), Row("t", old[1], rows[other])]

    def _displaced(self, rows: list[_Row], one: int, other: int) -> list[Step]:
        """A row that goes, and another that takes its place, as far as unique keys tell."""
        gone, old = rows[one], rows[other]
        rows[one], rows[other] = {}, {**gone, "v": 9}
        return [Row("t", gone, None), Row("t", old, rows[other])]

    def _changed(self, old: _Row) -> _Row:
        if self.strays and self.random.random() < 0.2:
            name = self.random.choice(sorted(self.unique))
            return {**old, name: self._number(), "v": self.random.randrange(3, 6)}
        return {**old, "v": (int(old["v"] or 0) + 1) % 6}

    def _number(self) -> int | None:
        number = self.random.randrange(7)
        return number if number < 6 else None

    def _is_identified(self, row: _Row) -> bool:
        return any(all(row[name] is not None for name in key) for key in self.keys)

    def _may_be(self, rows: Sequence[_Row]) -> bool:
        for key in self.keys:
            found = sorted(t for row in rows if None not in (t := tuple(row[n] for n in key)))
            if any(one == other for one, other in pairwise(found)):
                return False
        return True


class Forgetful(History):
    """A workload sent in order, and again where the sender went back, without old rows."""

    world: Unkeyed

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "storage", steps=0)
        self.in_order = True

    def _world(self, steps: int) -> Unkeyed:
        return Unkeyed(self.random)

    def _own(self, event: Event) -> Event:
        event = super()._own(event)
        if isinstance(event, RowChange) and event.op is Op.UPDATE:
            return replace(event, before=None)
        return event

    def cuts(self) -> list[int]:
        end = self.times[-1]
        return [*sorted(self.random.sample(range(100, end), 2)), end]

    def is_lost_by(self, ts: int) -> bool:
        lost = self.world.lost
        return lost is not None and self.times[lost - 1] <= ts

    def titled(self, found: Shown) -> Shown:
        """Tables by the names that upstream gives them."""
        return {name.removeprefix(f"{self.prefix}shop/"): rows for name, rows in found.items()}

    def check(self, ts: int, reason: str | None, found: Shown) -> bool:
        """A table is what it was upstream, or says why not; and it never says so for nothing."""
        if reason is not None:
            assert OLD_ROW_MISSING in reason
            assert self.is_lost_by(ts)
            return False
        assert found == self.expected_at(ts), (self.seed, ts)
        return True


class InMemory:
    """The model and the plan over the same pieces."""

    def __init__(self, history: Forgetful) -> None:
        self.history, self.model, self.engine = history, Model(), Engine()

    def take(self, ts: int, piece: list[Event]) -> bool:
        """Carry on to a ts; whether both have what upstream has there."""
        self.model.add(piece)
        self.model.advance(ts)
        self.engine.take(piece)
        self.engine.advance(ts, more_may_come=False)
        reason = next((table.pause_reason for table in self.model.tables), None)
        planned = next((table.reason for table in self.engine.now.incarnations.values()), None)
        check, titled = self.history.check, self.history.titled
        is_right = check(ts, reason, titled(model_contents(self.model)))
        assert check(ts, planned, titled(in_memory(self.engine))) == is_right
        return is_right


@pytest.mark.parametrize(
    "seeds", [range(50), pytest.param(range(50, 300), marks=pytest.mark.soak)], ids=str
)
def test_old_rows_are_matched_or_their_table_is_paused(seeds: range) -> None:
    right, paused, swapped = 0, 0, 0
    for seed in seeds:
        history = Forgetful(seed)
        memory, cuts = InMemory(history), history.cuts()
        for ts, piece in zip(cuts, history.pieces(cuts), strict=True):
            if not memory.take(ts, piece):
                paused += 1
                break
            right += 1
            swapped += history.is_lost_by(ts)
    # Of rows that changed places among themselves the result is known all the same.
    assert min(right, paused, swapped) > 10


# A row of which nothing says whether it was there before, in a table without a key.
UNSURE = (
    SchemaChange(
        commit_ts=2,
        database="unsure_shop",
        table="t",
        sql="CREATE TABLE `t` (a int)",
        position=FilePosition("unsure"),
    ),
    RowChange(
        op=Op.UPSERT,
        commit_ts=3,
        database="unsure_shop",
        table="t",
        position=FilePosition("unsure", 1),
        after='{"a":"1"}',
    ),
)


def test_the_lake_matches_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    histories = [Forgetful(seed) for seed in SEEDS]
    history_lake = HistoryLake(spark, tmp_path, histories, FEED)
    memories = [InMemory(history) for history in histories]
    cuts = history_lake.cuts(Random(0), 2)
    pieces = zip(*(history.pieces(cuts) for history in histories), strict=True)
    right = [True] * len(histories)
    for batch, (ts, piece) in enumerate(zip(cuts, pieces, strict=True), 1):
        arrived = [*UNSURE, *(event for events in piece for event in events)]
        history_lake.take(batch, arrived, ts)
        apply(
            history_lake.lake, read_last_snapshot(history_lake.lake), DecodedBatches(batch, batch)
        )
        reasons, found = history_lake.contents_at(ts)
        assert reasons["unsure_"] == UPSERT_WITHOUT_KEY
        before, right = right, []
        for was_right, history, memory, events in zip(
            before, histories, memories, piece, strict=True
        ):
            prefix = history.prefix
            is_right = history.check(ts, reasons.get(prefix), found.get(prefix, {}))
            # A paused table does not continue.
            assert is_right == (was_right and memory.take(ts, events))
            right.append(is_right)
    assert {*right} == {True, False}
