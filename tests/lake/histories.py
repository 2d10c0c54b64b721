"""Random workloads as a sender sends them: in pieces, cut anywhere, some twice or early."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random

import msgspec

from tests.reference.changefeeds import DATABASE, MANNERS, Teller, put
from tests.reference.random_tables import KINDS, Column
from tests.reference.random_upstream import Shown, World
from ticdc_assets.events import Event, RowChange


class Workload(World):
    """A world of a few steps, some of its tables without a key."""

    def __init__(self, random: Random, steps: int, *, keyless: float) -> None:
        super().__init__(random, steps)
        self.keyless = keyless

    def actions(self) -> list[Callable[[], None]]:
        rows = [self.insert] * 8 + [self.update, self.delete, self.twin] * 2
        tables = [self.create] * 2 + [self.truncate, self.drop, self.rename, self.swap, self.copy]
        columns = [self.add_column] * 2 + [self.drop_column, self.rename_column, self.retype]
        columns += [self.move, self.change_key, self.alter_much]
        partitions = [self.exchange, self.truncate_partition, self.drop_partition]
        partitions += [self.repartition, self.reorganize, self.drop_database]
        return rows + tables + columns + partitions

    def create(self) -> None:
        if (name := self.free()) is None:
            return
        new = self.partition()
        if self.random.random() < self.keyless:
            new.key = ()
        for _ in range(self.random.randrange(4)):
            new.columns.append(Column(f"c{next(self.numbers)}", self.random.choice([*KINDS])))
        self.random.shuffle(new.columns)
        self.tables[name] = new
        self.say(f"CREATE TABLE @ ({new.definition()}){new.by()}", name)

    def twin(self) -> None:
        """A row once more, where there is no key."""
        if (found := self.some()) is not None and found[1].rows and not found[1].key:
            row = dict(self.random.choice(found[1].rows))
            found[1].rows.append(row)
            self.steps.append(put(found[0], **row))

    def change_key(self) -> None:
        keyed = {name: table for name, table in self.tables.items() if table.key}
        if keyed:
            everything, self.tables = self.tables, keyed
            super().change_key()
            self.tables = everything


class History:
    """A workload as it was sent, in databases and partitions of its own."""

    def __init__(self, seed: int, manner: str, *, steps: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        # Only the order of arrival distinguishes equal rows of a table without a key.
        self.in_order = self.random.random() < 0.4
        self.world = self._world(steps)
        self.world.run()
        self.prefix = f"h{seed}_"
        teller = Teller(manner, start=100 + seed % 10)
        sent = [teller.tell([step]) for step in self.world.steps]
        self.times = [events[0].commit_ts for events in sent]  # type: ignore[union-attr]
        # Bootstraps come with the statement before them.
        self.events = [
            (ts, self._own(event))
            for ts, events in zip(self.times, sent, strict=True)
            for event in events
        ]

    def _world(self, steps: int) -> World:
        return Workload(self.random, steps, keyless=0.5 if self.in_order else 0.0)

    def _own(self, event: Event) -> Event:
        text = msgspec.json.encode(event)
        for name in (DATABASE, "archive"):
            text = text.replace(f"`{name}`".encode(), f"`{self.prefix}{name}`".encode())
            text = text.replace(f'"{name}"'.encode(), f'"{self.prefix}{name}"'.encode())
        text = text.replace(b':"topic"', f':"{self.prefix}topic"'.encode())
        text = text.replace(b':"file', f':"{self.prefix}file'.encode())
        return msgspec.json.decode(text, type=type(event))

    def pieces(self, cuts: list[int]) -> Iterator[list[Event]]:
        """What has come by each ts: some of it twice; if in no order, some of it early too."""
        left, sent = list(self.events), list[tuple[int, Event]]()
        for cut in cuts:
            early = 0.0 if self.in_order else 0.05
            now = [at for at in left if at[0] <= cut or self.random.random() < early]
            taken = {id(at) for at in now}
            left = [at for at in left if id(at) not in taken]
            sent += now
            if self.in_order:
                now += self._repeated(now)
            elif self.random.random() < 0.6:
                now += self.random.sample(sent, min(len(sent), 6))
                self.random.shuffle(now)
            yield [event for _, event in now]

    def _repeated(self, now: list[tuple[int, Event]]) -> list[tuple[int, Event]]:
        """A sender that goes back: all from somewhere on once more."""
        again = now[self.random.randrange(len(now)) :] if now else []
        times = defaultdict(set)
        for ts, event in again:
            times[_sender(event)].add(ts)
        # Of a sender that repeats only its last transaction nothing shows that it went back.
        return [(ts, event) for ts, event in again if len(times[_sender(event)]) > 1]

    def expected_at(self, ts: int) -> Shown | None:
        """What was there upstream; None where the ts is inside of a step of several statements."""
        steps = bisect_right(self.times, ts)
        return self.world.states.get(steps) if steps else {}


def _sender(event: Event) -> tuple[str, str, int | None] | None:
    """Return the sender and the table of a row; each table version has files of its own."""
    if isinstance(event, RowChange):
        return event.database, event.table, event.schema_version
    return None


def histories(seeds: Iterable[int], *, steps: int) -> list[History]:
    return [History(seed, MANNERS[seed % len(MANNERS)], steps=steps) for seed in seeds]
