"""Brokers that restart while they are read, and segments that expire: nothing goes unnoticed."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Message as Record

from tests.kafka_broker import Broker
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.changefeed.client_settings import ClientSettings
from ticdc_assets.changefeed.sink_uri import Options
from ticdc_assets.errors import ConfigError, LostRecords
from ticdc_assets.events import Quarantined
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources import kafka
from ticdc_assets.resources.kafka import Brokers, read_topics, require_topics
from ticdc_assets.stream.offsets import ReadOffsets

# The client fetches little ahead, so that it has to ask the broker again while it is read.
_LITTLE = {"queued.max.messages.kbytes": "64", "fetch.message.max.bytes": "20000"}


def make_feed(broker: Broker, topic: str, client: dict[str, str] | None = None) -> Changefeed:
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple")
    return replace(feed, client_settings=ClientSettings(Options(client or {}), {}))


def read(feed: Changefeed, known: ReadOffsets) -> Iterator[Message]:
    for record in read_topics(feed, known):
        assert isinstance(record, Message)
        assert known.add(record.topic, record.partition, record.offset)
        yield record


class Truncated:
    """A topic of which one partition is truncated while its broker is stopped."""

    def __init__(self, broker: Broker, kept: Path) -> None:
        self._broker, self._kept = broker, kept
        self._topic = broker.create("truncated", 2)
        self._data = broker.folder / "data" / f"{self._topic}-0"
        self.feed = make_feed(broker, self._topic)
        known = ReadOffsets()
        self.send("common", 80)
        self.send("other", 5, partition=1)
        assert len(list(read(self.feed, known))) == 85
        # The broker makes the indexes of a copy again.
        shutil.copytree(self._data, kept, ignore=shutil.ignore_patterns("*index"))
        self.send("lost", 20)
        self.stored = ReadOffsets(known.state(), known.topic_ids)
        assert len(list(read(self.feed, self.stored))) == 20

    def send(self, name: str, count: int, partition: int = 0) -> None:
        self._broker.send(
            Message(self._topic, partition, 0, None, b"%s%d" % (name.encode(), n), 1)
            for n in range(count)
        )

    def truncate(self) -> None:
        shutil.rmtree(self._data)
        shutil.copytree(self._kept, self._data)


# A broker takes seconds to start: it does once for what is as before and for what is not.
@pytest.mark.slow
def test_a_restart_costs_no_record_and_a_truncated_partition_that_has_grown_again_is_noticed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # On a busy machine a broker takes long to start.
    monkeypatch.setattr(kafka, "_SILENCE", 180.0)
    topic = broker.create("restarted", 2)
    # 8 MB, of which the client holds a small part.
    values = [b"%05d" % n + b"x" * 2000 for n in range(4000)]
    broker.send(Message(topic, n % 2, n // 2, None, value, 1) for n, value in enumerate(values))
    feed = make_feed(broker, topic, _LITTLE)
    known = ReadOffsets()
    run = read(feed, known)
    found = [next(run)]
    led = broker.create("led")
    broker.send(Message(led, 0, n, None, b"before", 1) for n in range(5))
    before = ReadOffsets()
    assert len(list(read(make_feed(broker, led), before))) == 5
    truncated = Truncated(broker, tmp_path / "kept")
    broker.stop()
    try:
        truncated.truncate()
        with monkeypatch.context() as patch:
            patch.setattr(kafka, "PATIENCE", 1.0)
            with pytest.raises(ConfigError, match="no broker answers"):
                require_topics(feed)
    finally:
        broker.start()
    found += run
    assert sorted(m.value or b"" for m in found) == values
    assert list(read(feed, known)) == []
    # A change of the leader alone is none of the partition.
    broker.send(Message(led, 0, n, None, b"since", 1) for n in range(3))
    stored = ReadOffsets(before.state(), before.topic_ids)
    assert [m.value for m in read(make_feed(broker, led), stored)] == [b"since"] * 3
    check_truncation(truncated)


def check_truncation(truncated: Truncated) -> None:
    feed, stored = truncated.feed, truncated.stored
    truncated.send("new", 30)
    state, ids = stored.state(), stored.topic_ids
    with pytest.raises(LostRecords) as raised:
        list(read(feed, ReadOffsets(state, ids)))
    assert str(raised.value) == (
        "topic truncated, partition 0, offsets 80 to 99: the partition was truncated after these"
        " were read, and has other records there; to go on without them, run `ticdc-assets"
        " advance --accept-gap`"
    )

    accepting = ReadOffsets(state, ids)
    gap, *records = read_accepting(feed, accepting)
    assert isinstance(gap, Quarantined)
    assert "offsets 80 to 99: the partition was truncated" in gap.reason
    assert [m.value for m in records if isinstance(m, Message)] == [b"new%d" % n for n in range(30)]
    assert list(read(feed, ReadOffsets(accepting.state(), ids))) == []


@pytest.mark.parametrize("max_bytes", [1 << 30, 6_000_000])
def test_a_topic_that_is_made_again_while_it_is_read_is_named(
    broker: Broker, max_bytes: int
) -> None:
    topic = broker.create(f"replaced-{max_bytes}")
    broker.send(Message(topic, 0, n, None, b"x" * 2000, 1) for n in range(4000))
    feed = replace(make_feed(broker, topic, _LITTLE), max_bytes=max_bytes)
    known = ReadOffsets()
    run = read(feed, known)
    next(run)
    broker.delete(topic)
    broker.wait_until_gone(topic)
    broker.create(topic)
    broker.send(Message(topic, 0, n, None, b"y" * 2000, 1) for n in range(5000))
    made_again = rf"^topic {topic}: the topic was deleted and made again; to go on without them"
    with pytest.raises(LostRecords, match=made_again):
        list(run)
    with pytest.raises(LostRecords, match="the topic was deleted and made again"):
        list(read(feed, ReadOffsets(known.state(), known.topic_ids)))


def test_a_topic_that_is_deleted_while_it_is_read_is_named(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_SILENCE", 3.0)
    topic = broker.create("removed")
    broker.send(Message(topic, 0, n, None, b"x" * 2000, 1) for n in range(4000))
    run = read(make_feed(broker, topic, _LITTLE), ReadOffsets())
    next(run)
    broker.delete(topic)
    with pytest.raises(ConfigError, match=r"^topic removed: there is no such topic"):
        list(run)


def test_a_topic_that_is_deleted_after_it_was_read_costs_no_record(broker: Broker) -> None:
    topic = broker.create("read")
    broker.send(Message(topic, 0, n, None, b"x", 1) for n in range(10))
    run = read(make_feed(broker, topic), ReadOffsets())
    next(run)
    broker.delete(topic)
    broker.wait_until_gone(topic)
    assert len(list(run)) == 9


@pytest.mark.parametrize(
    ("reason", "restart"),
    [
        (
            "Partition log truncation detected at offset 100 (leader epoch 2): broker end offset is"
            " 80 (offset leader epoch 0). Reset to INVALID.: Local: Partition log truncation",
            80,
        ),
        # Brokers that keep no epochs cannot confirm anything: no reason to stop reading.
        (
            "No epoch found less or equal to offset 100 (leader epoch 2): broker end offset is -1"
            " (offset leader epoch -1). Reset using configured policy.: Local: Partition log",
            100,
        ),
        ("fetch failed due to requested offset not available on the broker: Offset out of", None),
    ],
)
def test_a_partition_begins_again_where_its_epochs_say(reason: str, restart: int | None) -> None:
    class Failure:
        def error(self) -> KafkaError:
            return KafkaError(KafkaError._AUTO_OFFSET_RESET, reason)

        def topic(self) -> str:
            return "t"

        def partition(self) -> int:
            return 0

    known = ReadOffsets({"t-0": [[0, 99, 2]]})
    assert kafka._find_restart(cast(Record, Failure()), known) == restart


def read_accepting(feed: Changefeed, known: ReadOffsets) -> list[Message | Quarantined]:
    found = list(read_topics(feed, known, accept_gaps=True))
    for record in found:
        if isinstance(record, Message):
            known.add(record.topic, record.partition, record.offset)
    return found


def test_segments_that_expire_unread_are_named_exactly(broker: Broker) -> None:
    config = {"segment.bytes": str(1 << 20), "retention.bytes": "1", "file.delete.delay.ms": "100"}
    topic = broker.create("expiring", config=config)
    feed = make_feed(broker, topic)
    known = ReadOffsets()
    broker.send([Message(topic, 0, 0, None, b"first", 1)])
    assert len(list(read(feed, known))) == 1
    broker.send(Message(topic, 0, n, None, b"x" * 10_000, 1) for n in range(1, 400))
    give_up = time.monotonic() + 60
    while not (oldest := Brokers(feed).read_ends()[topic].partitions[0].first):
        assert time.monotonic() < give_up
        time.sleep(0.3)
    with pytest.raises(
        LostRecords, match=rf"^topic expiring, partition 0, offsets 1 to {oldest - 1}: the brokers"
    ):
        list(read(feed, known))
