"""Order is by commit ts: however real changefeeds arrive, the tables are those that upstream had.

They arrive in pieces, and each piece is applied as far as it is resolved.
"""

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from msgspec import json

from tests.golden import find_folder, meta, open_lines, records, storage_tree
from tests.reference.arriving import SEEDS, cut, delivered, earlier, said
from tests.reference.golden_feeds import feed_of
from tests.truth import truth
from ticdc_assets.events import Event, TopicPosition
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

# Rows of every table; None for a paused one.
ModelState = dict[tuple[str, str], tuple[bytes, ...] | None]


def capture_state(replay: ModelReplay) -> ModelState:
    return {
        (table.schema.database, table.schema.table): (
            tuple(encode_rows(table)) if table.pause_reason is None else None
        )
        for table in replay.model.tables
    }


@cache
def events_of(dataset: str) -> list[Event]:
    feed = feed_of(dataset)
    return list(read_topic_events(feed, records(dataset), open_claim_check_folder(feed)))


@cache
def points(dataset: str) -> list[int]:
    started = meta(dataset)["changefeed_start_ts"]
    return [ts for ts in sorted(truth(dataset.split("/")[0])) if ts >= started]


@cache
def at_once(dataset: str) -> tuple[dict[int, ModelState], set[str]]:
    """The tables at every truth point, and what is said, when everything is there at once."""
    replay = ModelReplay(feed_of(dataset))
    replay.add(events_of(dataset))
    states = {}
    for ts in points(dataset):
        replay.advance(ts)
        states[ts] = capture_state(replay)
    assert replay.default_ts == points(dataset)[-1]
    return states, said(replay)


def in_pieces(dataset: str, events: list[Event], random: Random) -> tuple[dict, set[str]]:
    """The same, when the model goes along with what arrives."""
    replay = ModelReplay(feed_of(dataset))
    states = {}
    for piece in cut(events, random):
        replay.add(piece)
        resolved = replay.default_ts
        for ts in points(dataset):
            if replay.model.applied_ts < ts <= resolved:
                replay.advance(ts)
                states[ts] = capture_state(replay)
        replay.advance(resolved)
    return states, said(replay)


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/simple-json",
        "lifecycle/newarch-open-protocol",
        "lifecycle/canal-json-ext-replayed",
        "lifecycle/simple-json-topic-per-table",
        "lifecycle/canal-json-ext-topic-per-table",
        "lifecycle/open-protocol-restart",
        "lifecycle/simple-avro-bootstrap-p0",
        "types/open-protocol-force-replicate",
    ],
)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_stream_may_be_cut_anywhere(dataset: str, seed: int) -> None:
    assert in_pieces(dataset, events_of(dataset), Random(seed)) == at_once(dataset)


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/newarch-simple-json",
        "lifecycle/canal-json-ext-raw-change",
        "lifecycle/open-protocol-only-updated",
        "types/simple-avro",
    ],
)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_partitions_may_run_ahead_and_back_and_say_things_twice(dataset: str, seed: int) -> None:
    random = Random(seed)
    arriving = list(delivered(by_partition(events_of(dataset)), random, twice=True))
    assert in_pieces(dataset, arriving, random) == at_once(dataset)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_partitions_of_tables_without_a_key_may_run_ahead_and_back(seed: int) -> None:
    random = Random(seed)
    dataset = "types/simple-json-force-replicate"
    arriving = list(delivered(by_partition(events_of(dataset)), random, back_to=earlier))
    assert in_pieces(dataset, arriving, random) == at_once(dataset)


def by_partition(events: list[Event]) -> list[list[Event]]:
    partitions: dict[int, list[Event]] = {}
    for event in events:
        assert isinstance(event.position, TopicPosition)
        partitions.setdefault(event.position.partition, []).append(event)
    return list(partitions.values())


@pytest.mark.parametrize(
    "dataset", ["lifecycle/storage-csv-full", "types/newarch-storage-canal-json"]
)
def test_a_folder_may_be_read_while_it_grows(dataset: str) -> None:
    tree, there = storage_tree(dataset), dict[str, bytes]()
    compared = 0
    whole = ModelReplay(feed_of(dataset))
    whole.add(read_folder_events(feed_of(dataset), tree, tree.__getitem__))
    for step in open_lines(find_folder(dataset) / "manifest.jsonl"):
        for file in step["files"] or ():
            there[file["path"]] = tree[file["path"]]
        if step["ts"] in points(dataset) and "truth" in step["after"]:
            # Data of what comes next may be there already.
            ahead = {path: tree[path] for path in sorted(tree)[:: 2 + compared]}
            grown = {**ahead, **there, "metadata": json.encode({"checkpoint-ts": step["ts"]})}
            replay = ModelReplay(feed_of(dataset))
            replay.add(read_folder_events(feed_of(dataset), grown, grown.__getitem__))
            replay.check_range([step["ts"]])
            for side in (replay, whole):
                side.advance(step["ts"])
            assert capture_state(replay) == capture_state(whole)
            compared += 1
    assert compared == len(points(dataset))
