"""Recorded topics on a real broker, read in runs that end anywhere, are what TiDB had.

Every dataset is produced record by record with its own partitions, keys and values.  What the runs
read goes through the reference model, which is compared with the truth at every truth point.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from zlib import crc32

import msgspec
import pytest
from msgspec.structs import replace

from tests.golden import datasets, meta
from tests.kafka_broker import Broker
from tests.reference.golden_feeds import UNUSABLE, allowed, feed_of, messages
from tests.reference.test_golden_replay import compare_with_truth
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.resources.kafka import read_topics
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_topic_events

ON_TOPICS = [d for d in datasets() if "storage" not in d and UNUSABLE not in allowed(d)]
# Every protocol, topics per table, objects beside the topic, compression, and repeated records.
USUAL = [
    "lifecycle/simple-json-topic-per-table",
    "lifecycle/simple-avro-snappy",
    "lifecycle/open-protocol-replayed",
    "types/canal-json-ext-claim-check",
]
_CUTS = 3
# Records per run at most, so that limits cut as well.
_LIMIT = 400


def _to_broker(dataset: str, broker: Broker) -> Changefeed:
    topic = meta(dataset)["sink-uri"].partition("?")[0].rpartition("/")[2]
    place = {"transport": "kafka", "scheme": "kafka", "location": broker.plain, "topic": topic}
    return dataclasses.replace(feed_of(dataset), **place, max_records=_LIMIT)


class Topics:
    """The topics of a dataset on a broker: created when their first record is sent."""

    def __init__(self, broker: Broker, feed: Changefeed, records: Sequence[Message]) -> None:
        self._broker = broker
        self._partitions: dict[str, int] = defaultdict(lambda: feed.partition_num or 1)
        for record in records:
            most = max(self._partitions[record.topic], record.partition + 1)
            self._partitions[record.topic] = most
        self.made: set[str] = set()
        self._default = feed.topic or ""

    def send(self, records: Sequence[Message]) -> None:
        for topic in sorted({self._default, *(record.topic for record in records)} - self.made):
            self._broker.create(topic, self._partitions[topic])
            self.made.add(topic)
        self._broker.send(records)

    def delete(self) -> None:
        for topic in self.made:
            self._broker.delete(topic)
            self._broker.wait_until_gone(topic)


def _read_in_runs(
    feed: Changefeed, topics: Topics, records: Sequence[Message], random: Random
) -> Iterator[Message]:
    """Send the records in pieces; after each, a run dies anywhere, and another one reads on."""
    cuts = sorted(random.sample(range(len(records)), _CUTS))
    known = ReadOffsets()
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        topics.send(records[start:end])
        _read_run(feed, known, random.randint(0, end - start))
        while True:
            known, found = _read_run(feed, known)
            yield from found
            if not known.has_more:
                break


def _read_run(
    feed: Changefeed, known: ReadOffsets, dies_after: int | None = None
) -> tuple[ReadOffsets, list[Message]]:
    """Read what a run reads; it begins with what an earlier one has stored."""
    stored = msgspec.json.decode(msgspec.json.encode(known.state()))
    now = ReadOffsets(stored, known.topic_ids)
    found: list[Message] = []
    for record in read_topics(feed, now):
        assert isinstance(record, Message)
        assert now.add(record.topic, record.partition, record.offset)
        found.append(record)
        if len(found) == dies_after:
            break
    return now, found


def _in_partitions(records: Iterable[Message]) -> dict[tuple[str, int], list[Message]]:
    """Return the records of each partition, without their offsets."""
    partitions: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for record in records:
        place = record.topic, record.partition
        partitions[place].append(replace(record, offset=0))
    return partitions


def compare_topics(dataset: str, broker: Broker) -> None:
    feed = _to_broker(dataset, broker)
    records = messages(feed_of(dataset))
    topics = Topics(broker, feed, records)
    try:
        random = Random(crc32(dataset.encode()))
        found = list(_read_in_runs(feed, topics, records, random))
    finally:
        topics.delete()
    assert _in_partitions(found) == _in_partitions(records)
    replay = ModelReplay(feed)
    replay.add(read_topic_events(feed, found, open_claim_check_folder(feed)))
    compare_with_truth(dataset, replay)


@pytest.mark.parametrize("dataset", USUAL)
def test_a_topic_read_in_several_runs_is_what_tidb_had(broker: Broker, dataset: str) -> None:
    compare_topics(dataset, broker)


@pytest.mark.all_golden
@pytest.mark.parametrize("dataset", [d for d in ON_TOPICS if d not in USUAL])
def test_every_topic_read_in_several_runs_is_what_tidb_had(broker: Broker, dataset: str) -> None:
    compare_topics(dataset, broker)
