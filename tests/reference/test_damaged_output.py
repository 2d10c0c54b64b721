"""Damaged output of a changefeed raises nothing, and every loss is reported."""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.golden import datasets, released_datasets, storage_tree
from tests.reference.golden_feeds import feed_of, messages
from ticdc_assets.cli.read import write_replay
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

SEEDS = range(24)
DATASETS = [
    d
    for d in [*datasets(), *released_datasets()]
    if not d.startswith("random") and "claim-check" not in d
]


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    # Not at the very end: the last line of a file may lack its terminator.
    return data[: rng.randrange(1, max(2, len(data) - 2))]


def replay_damaged(
    dataset: str, damage: Callable[[bytes, random.Random], bytes], seed: int
) -> ModelReplay:
    """Replay a dataset after damaging some of its records or files."""
    rng = random.Random(seed)
    feed = feed_of(dataset)
    replay = ModelReplay(feed)
    if feed.transport == "storage":
        tree = dict(storage_tree(dataset))
        for path in rng.sample(sorted(p for p in tree if not p.endswith(".index")), 10):
            tree[path] = damage(tree[path], rng)
        replay.add(read_folder_events(feed, tree, tree.__getitem__))
    else:
        records = messages(feed)
        for place in rng.sample(range(len(records)), 20):
            value = records[place].value
            assert value
            records[place] = replace(records[place], value=damage(value, rng))
        replay.add(read_topic_events(feed, records, None))
    replay.advance(replay.default_ts)
    return replay


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_bits_raise_nothing(seed: int, tmp_path) -> None:
    replay = replay_damaged(random.Random(seed).choice(DATASETS), flip_bit, seed)
    write_replay(replay, tmp_path)
    replay.problems()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_truncated_message_or_file_is_quarantined(seed: int, tmp_path) -> None:
    replay = replay_damaged(random.Random(seed).choice(DATASETS), truncate, seed)
    write_replay(replay, tmp_path)
    problems = replay.problems()
    assert any(problem.data_may_differ for problem in problems)
    assert any("quarantined" in problem.describe() for problem in problems)
