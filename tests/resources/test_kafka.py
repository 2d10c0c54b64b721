"""Reading topics of a real broker: every byte of every record, each once, and what is gone."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from tests.kafka_broker import Broker
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.changefeed.entry import Start
from ticdc_assets.errors import ConfigError, LostRecords
from ticdc_assets.events import Quarantined
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.kafka import read_topics
from ticdc_assets.stream.offsets import ReadOffsets

_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
}
_QUICK = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "100"}


def read(place: str, topic: str, known: ReadOffsets | None = None) -> list[Message]:
    """Read what is new in a topic; `known` is as it was stored and read back."""
    feed = changefeed_from_uri(f"kafka://{place}/{topic}?protocol=simple")
    known = ReadOffsets() if known is None else known
    found = []
    for record in read_topics(feed, known):
        assert isinstance(record, Message)
        assert known.add(record.topic, record.partition, record.offset)
        found.append(record)
    return found


def made(topic: str, count: int, partitions: int = 1, start: int = 0) -> list[Message]:
    return [
        Message(topic, n % partitions, n // partitions, b"k%d" % n, b"v%d" % n, 1_700_000_000_000)
        for n in range(start, start + count)
    ]


def test_every_byte_of_every_record_arrives_once(broker: Broker) -> None:
    topic = broker.create("bytes", 3)
    sent = [
        Message(topic, 0, 0, None, b"", 1),
        Message(topic, 2, 0, b"\xff\x00", None, 1_700_000_000_123),
        Message(topic, 2, 1, b"", bytes(range(256)), 2, (("a", b"\xfe"), ("a", None), ("é", b""))),
        *(Message(topic, 1, n, b"%d" % n, b"x" * n, 5) for n in range(5000)),
    ]
    broker.send(sent)
    known = ReadOffsets()
    found = read(broker.plain, topic, known)
    assert sorted(found, key=lambda m: (m.partition, m.offset)) == sorted(
        sent, key=lambda m: (m.partition, m.offset)
    )
    assert read(broker.plain, topic, known) == []
    broker.grow(topic, 4)
    more = [Message(topic, 3, 0, b"new", b"partition", 6), Message(topic, 0, 1, b"", b"old", 7)]
    broker.send(more)
    stored = ReadOffsets(known.state(), known.topic_ids)
    assert sorted(m.partition for m in read(broker.plain, topic, stored)) == [0, 3]


def test_a_read_ends_although_the_topic_grows(broker: Broker) -> None:
    topic = broker.create("growing")
    broker.send(made(topic, 100))
    known = ReadOffsets()
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple")
    count = 0
    for record in read_topics(feed, known):
        known.add(record.topic, record.partition, record.offset)
        if count % 50 == 0:
            broker.send(made(topic, 100, start=1000 + count))
        count += 1
    assert count == 100
    assert len(read(broker.plain, topic, known)) == 200


def test_markers_of_transactions_are_no_gap(broker: Broker) -> None:
    topic = broker.create("transactions")
    producer = Producer({"bootstrap.servers": broker.plain, "transactional.id": "t"})
    producer.init_transactions(20)
    known = ReadOffsets()
    for number in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"one")
        producer.produce(topic, b"two")
        producer.commit_transaction(20)
        assert [m.offset for m in read(broker.plain, topic, known)] == [number * 3, number * 3 + 1]
    # The marker after the last record counts as read too.
    assert known.state() == {f"{topic}-0": [[0, 5]]}


def test_a_window_stops_at_its_limits_and_the_next_one_goes_on(broker: Broker) -> None:
    topic = broker.create("limited", 2)
    sent = [
        *(Message(topic, 0, n, None, b"%d" % n, 1) for n in range(300)),
        *(Message(topic, 1, n, None, b"x" * 1000, 1) for n in range(30)),
    ]
    broker.send(sent)
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple")
    known = ReadOffsets()
    found: list[tuple[int, int]] = []
    windows = 0
    while windows == 0 or known.has_more:
        known = ReadOffsets(known.state(), known.topic_ids)
        limited = replace(feed, max_records=110)
        new = _read_window(limited, known)
        # Both partitions come to their ends together.
        assert {partition for partition, _ in new} == {0, 1}
        assert len(new) <= 110
        found += new
        windows += 1
    assert windows == 3
    assert sorted(found) == [(m.partition, m.offset) for m in sent]

    known = ReadOffsets()
    # A limit of bytes is noticed after what one call returned.
    assert _read_window(replace(feed, max_bytes=1), known)
    assert known.has_more == (
        known.state() != {"limited-0": [[0, 299, 0]], "limited-1": [[0, 29, 0]]}
    )


def _read_window(feed: Changefeed, known: ReadOffsets) -> list[tuple[int, int]]:
    """Return the partition and offset of what a window reads, each of it for the first time."""
    found = []
    for record in read_topics(feed, known):
        assert isinstance(record, Message)
        assert known.add(record.topic, record.partition, record.offset)
        found.append((record.partition, record.offset))
    return found


def test_a_window_goes_on_behind_a_hole(broker: Broker) -> None:
    topic = broker.create("compacted", config=_COMPACTED)
    broker.send(Message(topic, 0, n, b"same", b"%d" % n, 1000) for n in range(50))
    # The newest segment is not compacted; a later record begins a new one.
    broker.send([Message(topic, 0, 50, b"other", b"last", 9000)])
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple")
    give_up = time.monotonic() + 30
    while len(found := list(read_topics(feed, ReadOffsets()))) > 2:
        assert time.monotonic() < give_up
        time.sleep(0.2)
    assert [m.value for m in found if isinstance(m, Message)] == [b"49", b"last"]

    known = ReadOffsets()
    # The first offsets are a hole, which is no gap, and longer than the limit.
    assert _read_window(replace(feed, max_records=5), known) == [(0, 49)]
    assert known.has_more
    assert known.state() == {"compacted-0": [[0, 49, 0]]}
    assert _read_window(replace(feed, max_records=5), known) == [(0, 50)]
    assert not known.has_more


def test_records_that_retention_removed_are_named(broker: Broker) -> None:
    topic = broker.create("short", config=_QUICK)
    broker.send(made(topic, 10))
    known = ReadOffsets()
    read(broker.plain, topic, known)
    broker.send(made(topic, 20, start=10))
    broker.remove_records(topic, 0, 25)
    with pytest.raises(LostRecords, match=r"^topic short, partition 0, offsets 10 to 24: "):
        read(broker.plain, topic, known)


def test_a_topic_that_was_deleted_or_made_again_is_named(broker: Broker) -> None:
    topic = broker.create("twice")
    broker.send(made(topic, 3))
    known = ReadOffsets()
    read(broker.plain, topic, known)
    broker.delete(topic)
    broker.wait_until_gone(topic)
    with pytest.raises(ConfigError, match=r"^topic twice: there is no such topic"):
        read(broker.plain, topic, known)
    broker.create(topic)
    broker.send(made(topic, 5))
    with pytest.raises(
        LostRecords, match=r"^topic twice, partition 0: the topic was deleted and made again"
    ):
        read(broker.plain, topic, known)


def test_a_lake_begins_in_the_middle(broker: Broker) -> None:
    topic = broker.create("middle", 2)
    broker.send(Message(topic, n % 2, 0, None, b"%d" % n, 1_000_000 + n * 1000) for n in range(10))
    feed = changefeed_from_uri(f"kafka://{broker.plain}/{topic}?protocol=simple")
    at = datetime(1970, 1, 1, 0, 16, 46, tzinfo=UTC)  # the time of the record 6
    declared: dict[str, Start] = {"0123456789": "earliest", "": "latest", "6789": at}
    declared |= {"46813579": {f"{topic}-0": 2}, "9": {f"{topic}-0": 5, f"{topic}-1": 4}}
    for expected, start in declared.items():
        feed = replace(feed, start=start)
        found = list(read_topics(feed, ReadOffsets()))
        values = sorted(m.value.decode() for m in found if isinstance(m, Message) and m.value)
        assert values == sorted(expected)
        gaps = {m.position.path: m.reason for m in found if isinstance(m, Quarantined)}
        assert len(gaps) == (0 if start == "earliest" else 1 if len(expected) == 8 else 2)
    # The next record may be the first one.
    feed = replace(feed, start={f"{topic}-0": 5})
    assert len([m for m in read_topics(feed, ReadOffsets()) if isinstance(m, Message)]) == 5
    known = ReadOffsets()
    feed = replace(feed, start={f"{topic}-0": 6})
    with pytest.raises(
        ConfigError,
        match=r": start: middle-0 = 6 is beyond the end of the partition, which is 5$",
    ):
        list(read_topics(feed, known))
    assert known.state() == {}
    feed = replace(feed, start={"other-0": 1})
    with pytest.raises(ConfigError, match="names no partition of its topics: other-0"):
        list(read_topics(feed, ReadOffsets()))
