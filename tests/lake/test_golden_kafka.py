"""Recorded topics, produced to a real broker record by record, make the tables that TiDB had."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.golden import datasets, meta
from tests.kafka_broker import Broker
from tests.lake.golden_runs import (
    Cut,
    GoldenLake,
    advance_in_windows,
)
from tests.reference.golden_feeds import UNUSABLE, allowed, messages
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import Source
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import LakeSession

# Objects beside the topic.  The number says how many runs read it before the last one.
USUAL = [("types/open-protocol-claim-check", 0)]
_PARTITIONS = 3


class KafkaLake(GoldenLake):
    """A lake that reads a dataset from the broker, to which each run's records are sent first."""

    def __init__(self, spark: SparkSession, root: Path, dataset: str, broker: Broker) -> None:
        super().__init__(spark, root, dataset)
        self.records = messages(self.feed)
        self._count = 0
        self._broker = broker
        self.topics: set[str] = set()
        self.feed = _on_broker(self.feed, dataset, broker)
        self.lake = LakeSession(spark, self.lake.location, self.feed)

    def _source(self, cut: Cut) -> Source:
        new = self.records[self._count : cut.records]
        self._count = cut.records
        # TiCDC creates a topic before it writes to it, and the default topic first of all.
        for topic in sorted({self.feed.topic or "", *(m.topic for m in new)} - self.topics):
            self._broker.create(topic, _PARTITIONS)
            self.topics.add(topic)
        self._broker.send(new)
        return open_source(self.feed)


def _on_broker(feed: Changefeed, dataset: str, broker: Broker) -> Changefeed:
    topic = meta(dataset)["sink-uri"].partition("?")[0].rpartition("/")[2]
    place = {"transport": "kafka", "scheme": "kafka", "location": broker.plain, "topic": topic}
    return dataclasses.replace(feed, **place)


@pytest.fixture
def kafka_lake(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> Iterator[Callable[[str], KafkaLake]]:
    made: list[KafkaLake] = []

    def make(dataset: str) -> KafkaLake:
        made.append(KafkaLake(spark, tmp_path, dataset, broker))
        return made[-1]

    with _deleted_afterwards(broker, made):
        yield make


@contextmanager
def _deleted_afterwards(broker: Broker, lakes: list[KafkaLake]) -> Iterator[None]:
    yield
    for topic in {topic for lake in lakes for topic in lake.topics}:
        broker.delete(topic)
        broker.wait_until_gone(topic)


def apply_dataset(golden: KafkaLake, resolved: int, others: int) -> None:
    """Read a dataset in several runs: some end at truth points, others anywhere."""
    random = Random(crc32(golden.dataset.encode()))
    advance_in_windows(golden, random, resolved, others)
    raw = golden.lake.read("raw")
    assert raw.count() == raw.select("topic", "partition", "offset").distinct().count()
    assert raw.count() == len(golden.records)


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "others"), USUAL)
def test_the_lake_of_a_topic_is_what_tidb_had(
    kafka_lake: Callable[[str], KafkaLake], dataset: str, others: int
) -> None:
    apply_dataset(kafka_lake(dataset), 0, others)


@pytest.mark.all_golden
@pytest.mark.parametrize(
    "dataset",
    [d for d in datasets() if "storage" not in d and UNUSABLE not in allowed(d)],
)
def test_the_lake_of_every_topic_is_what_tidb_had(
    kafka_lake: Callable[[str], KafkaLake], dataset: str
) -> None:
    apply_dataset(kafka_lake(dataset), 2, 2)
