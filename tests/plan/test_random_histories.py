"""Random workloads in windows: the lake equals the model and a naive upstream."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import MANNERS, Teller, exchange, put
from tests.reference.random_upstream import World
from tests.usual import usual
from ticdc_assets.events import Event, RowChange, SchemaChange
from ticdc_assets.reference.model import Model


def sampled(seeds: range, manners: Sequence[str] = MANNERS) -> list[Any]:
    """Let every test run have the first eight, each in two manners; `make soak` has all."""
    few = len(manners) // 2

    def is_usual(seed: int, manner: str) -> bool:
        return seed in seeds[:8] and manners.index(manner) % few == seed % few

    return usual(product(seeds, manners), is_usual, pytest.mark.soak)


class Unreadable(World):
    """A world with unreadable DDLs, and rows in wrong partitions."""

    def actions(self) -> list[Callable[[], None]]:
        return [*super().actions(), self.frobnicate, self.stray, self.stray]

    def frobnicate(self) -> None:
        if (found := self.some()) is not None:
            self.say("ALTER TABLE @ FROBNICATE", found[0])

    def stray(self) -> None:
        if (found := self.some_parted()) is None or (other := self.free()) is None:
            return
        name, table = found
        fresh = self.partner(name, other)
        row = {c.name: self.value(c.kind) for c in fresh.sent()}
        row["id"] = 79
        self.steps.append(put(other, **row))
        partition = self.random.choice(table.partitions())
        self.steps.append(exchange(name, partition, other, " WITHOUT VALIDATION"))


@pytest.mark.parametrize(("seed", "manner"), sampled(range(50)))
def test_windows_cut_anywhere_equal_upstream(seed: int, manner: str) -> None:
    random = Random(seed)
    world = World(random)
    world.run()
    teller = Teller(manner)
    messages = [teller.tell([step]) for step in world.steps]
    events = [event for sent in messages for event in sent]
    times = [sent[0].commit_ts for sent in messages]
    engine, model = Engine(), Model()
    for ts, piece, more in windows(events, random):
        engine.take(piece)
        model.add(piece)
        engine.advance(ts, more_may_come=True)
        model.advance(ts)
        assert [p.describe() for p in engine.problems] == []
        assert engine.stopped() == {}
        assert contents(engine) == model_contents(model)
        steps = bisect_right(times, ts)
        if steps in world.states and not more:
            assert contents(engine) == world.states[steps]
    assert contents(engine) == world.states[len(world.steps)]
    assert engine.replays == 0


@pytest.mark.parametrize(("seed", "manner"), sampled(range(1000, 1030)))
def test_late_events_are_replayed(seed: int, manner: str) -> None:
    random = Random(seed)
    world = World(random)
    world.run()
    events = Teller(manner).tell(world.steps)
    pieces = [(ts, piece) for ts, piece, _ in windows(events, random)]
    late: list[Event] = random.sample(events, random.choice([1, 2, 5]))
    engine = Engine()
    for ts, piece in pieces:
        came = [event for event in late if random.random() < 0.2]
        late = [event for event in late if event not in came]
        engine.take([*(event for event in piece if event not in late), *came])
        engine.advance(ts, more_may_come=True)
    engine.take(late)
    engine.advance(pieces[-1][0] + 1, more_may_come=True)
    assert engine.stopped() == {}
    assert engine.now.unknown_tables == []
    assert contents(engine) == world.states[len(world.steps)]


@pytest.mark.parametrize(
    ("seed", "manner"),
    sampled(range(2000, 2030), ["canal", "canal-new", "storage", "storage-new"]),
)
def test_rows_without_a_commit_ts_are_applied_in_order_of_arrival(seed: int, manner: str) -> None:
    """They have milliseconds or a table version; the resolved ts is known from elsewhere."""
    random = Random(seed)
    world = World(random)
    world.run()
    engine = Engine()
    left = list(timed(Teller(manner).tell(world.steps)))
    while left:
        size = random.choice([1, 3, 10, 50])
        piece, left = left[:size], left[size:]
        engine.take(inexact(event, manner) for event, _ in piece)
        # What is left of that ts comes after everything of it that was applied.
        engine.advance(piece[-1][1], more_may_come=True)
    engine.advance(engine.now.ts + 1, more_may_come=True)
    assert engine.stopped() == {}
    assert contents(engine) == world.states[len(world.steps)]
    assert engine.replays == 0


@pytest.mark.parametrize(("seed", "manner"), sampled(range(3000, 3030)))
def test_unsupported_ddls_stop_the_same_tables_as_in_the_model(seed: int, manner: str) -> None:
    random = Random(seed)
    world = Unreadable(random)
    world.run()
    engine, model = Engine(), Model()
    for ts, piece, _ in windows(Teller(manner).tell(world.steps), random):
        engine.take(piece)
        model.add(piece)
        engine.advance(ts, more_may_come=True)
        model.advance(ts)
        assert contents(engine) == model_contents(model)
        stopped = {(t.schema.database, t.schema.table) for t in model.tables if t.pause_reason}
        assert set(engine.stopped()) == stopped
    assert engine.replays == 0


def timed(events: list[Event]) -> Iterator[tuple[Event, int]]:
    for number, event in enumerate(events):
        yield event, ts_of(events, number)


def inexact(event: Event, manner: str) -> Event:
    if not isinstance(event, RowChange):
        return event
    if manner.startswith("storage"):
        assert event.schema_version is not None
        return replace(event, ordering="table_version", commit_ts=event.schema_version)
    return replace(event, ordering="milliseconds")


def windows(events: list[Event], random: Random) -> list[tuple[int, list[Event], bool]]:
    """Return each resolved ts, what arrives before it, and whether DDLs of that ts come later.

    Some events arrive early, and some twice.
    """
    left = list(enumerate(events))
    found: list[tuple[int, list[Event], bool]] = []
    here = events[0].commit_ts - 5
    last = max(ts_of(events, n) for n, _ in left)
    sent: list[Event] = []
    while left or here < last:
        here += random.choice([0, 1, 10, 10, 30, 100, 300])
        here = min(here, last)
        held = set()
        if random.random() < 0.5:
            held = {n for n, e in left if isinstance(e, SchemaChange) and e.commit_ts == here}
        ready = [(n, e) for n, e in left if ts_of(events, n) <= here and n not in held]
        ahead = [(n, e) for n, e in left if ts_of(events, n) > here and random.random() < 0.05]
        now = [*ready, *ahead]
        taken = {n for n, _ in now}
        left = [(n, e) for n, e in left if n not in taken]
        piece = [e for _, e in now]
        again = random.sample(sent, min(len(sent), random.choice([0, 0, 2, 20])))
        piece += again
        if random.random() < 0.5:
            random.shuffle(piece)
        sent += piece
        found.append((here, piece, bool(held)))
    return found


def ts_of(events: list[Event], number: int) -> int:
    """Return the ts of an event; a bootstrap has that of the DDL before it."""
    while not hasattr(events[number], "commit_ts"):
        number -= 1
    return events[number].commit_ts
