"""Events as they arrive: in pieces, partitions ahead of each other, and twice."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from hypothesis import strategies as st

from ticdc_assets.events import Event, RowChange
from ticdc_assets.reference.replay import ModelReplay

SEEDS = st.integers(0, 1 << 32)


def cut(events: list[Event], random: Random) -> Iterator[list[Event]]:
    sizes = random.choice([[1], [1, 2, 5], [20, 100], [1, 3, 50, 400]])
    start = 0
    while start < len(events):
        size = random.choice(sizes)
        yield events[start : start + size]
        start += size


def anywhere(sent: Sequence[Event], random: Random) -> int:
    return random.randrange(len(sent))


def earlier(sent: Sequence[Event], random: Random) -> int:
    """Somewhere from where the first row of each table is older than its last one was."""
    last = {event.table: event.commit_ts for event in sent if isinstance(event, RowChange)}
    for start in range(random.randrange(len(sent)), -1, -1):
        again = [event for event in sent[start:] if isinstance(event, RowChange)]
        first = {event.table: event.commit_ts for event in reversed(again)}
        if all(ts < last[table] for table, ts in first.items()):
            return start
    return len(sent)


def delivered(
    partitions: list[list[Event]],
    random: Random,
    *,
    twice: bool = False,
    back_to: Callable[[Sequence[Event], Random], int] = anywhere,
) -> Iterator[Event]:
    """Each partition in its own order, now and then going back; whose turn it is is chance."""
    next_ones = dict.fromkeys(range(len(partitions)), 0)
    returns = random.randrange(6)
    while next_ones:
        number = random.choice(sorted(next_ones))
        events, position = partitions[number], next_ones[number]
        if returns and position and random.random() < 0.1:
            position = back_to(events[:position], random)
            returns -= 1
        for event in events[position : position + random.choice([1, 1, 2, 10, 40])]:
            position += 1
            yield event
            if twice and random.random() < 0.05:
                yield event
        next_ones[number] = position
        if position == len(events):
            del next_ones[number]


def said(replay: ModelReplay) -> set[str]:
    return {p.describe() for p in replay.problems()}
