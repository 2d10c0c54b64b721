"""Read the topics of a changefeed from their brokers.

Nothing here joins a consumer group or commits an offset: the lake's own commits say how far it was
read.  Every call is bounded in time.
"""

import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import LOST, ConfigError, LostRecords
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.kafka_client import (
    FATAL,
    PATIENCE,
    UNANSWERED,
    explain_failure,
    explain_topic_error,
    make_client,
)
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.routing import list_topics
from ticdc_assets.stream.topic_ranges import (
    OffsetRange,
    PartitionEnds,
    TopicEnds,
    add_advice,
    begin_again,
    find_ranges,
    limit_ranges,
    require_same_topics,
)

# Seconds per attempt to reach a broker, until the records that came are taken, and without any
# record until reading fails.
_ATTEMPT = 0.5
_WAIT = 0.1
_SILENCE = 30.0
_RECORDS_PER_CALL = 2000
# Seconds that librdkafka may take to say that a request has run out of time.
_GRACE = 3.0
# The end of a leader epoch, -1 if brokers have none: librdkafka states it in words only.
_EPOCH_END = re.compile(r" broker end offset is (-?\d+) ")

T = TypeVar("T")


class Brokers:
    """A connection to the brokers of a changefeed, to ask what topics they have."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self._errors: list[KafkaError] = []
        # The addresses by which the brokers want to be reached.
        self._named: list[str] = []
        self._client = make_client(AdminClient, feed, {"error_cb": self._errors.append})

    def read_ends(self) -> dict[str, TopicEnds]:
        """Return the topics of the changefeed that exist, and where their partitions end.

        Raise a `ConfigError` if the default topic does not exist, or one cannot be read.
        """
        existing = self._list_topics()
        names = list_topics(self._feed, existing)
        topics = self._describe(names)
        places = [
            TopicPartition(name, each.id) for name in names for each in topics[name].partitions
        ]
        first = self._list_offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        end = self._list_offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        ends: dict[str, dict[int, PartitionEnds]] = {name: {} for name in names}
        for place in places:
            key = place.topic, place.partition
            ends[place.topic][place.partition] = PartitionEnds(first[key], end[key])
        return {name: TopicEnds(str(topics[name].topic_id), ends[name]) for name in names}

    def read_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of those of some topics that exist now."""
        existing = self._list_topics()
        topics = self._describe([name for name in names if name in existing])
        return {name: str(topic.topic_id) for name, topic in topics.items()}

    def find_starts(self, topics: Mapping[str, TopicEnds]) -> dict[tuple[str, int], int]:
        """Return where a new lake begins, as the changefeed declares it; {} for the beginning."""
        start = self._feed.start
        ends = {(t, n): place.end for t in topics for n, place in topics[t].partitions.items()}
        if start == "earliest":
            return {}
        if start == "latest":
            return ends
        if isinstance(start, datetime):
            moment = OffsetSpec.for_timestamp(int(start.timestamp() * 1000))
            found = self._list_offsets([TopicPartition(*place) for place in ends], moment)
            # There may be no record since.
            return {place: found[place] if found[place] >= 0 else ends[place] for place in ends}
        by_name = {f"{topic}-{number}": (topic, number) for topic, number in ends}
        if unknown := start.keys() - by_name.keys():
            reason = f"names no partition of its topics: {min(unknown)}"
            raise ConfigError(reason, setting=f"changefeed {self._feed.id}: start")
        for name, offset in start.items():
            # Records would be skipped until the partition gets there.
            if offset > (end := ends[by_name[name]]):
                reason = f"{name} = {offset} is beyond the end of the partition, which is {end}"
                raise ConfigError(reason, setting=f"changefeed {self._feed.id}: start")
        return {by_name[name]: offset for name, offset in start.items()}

    def _list_topics(self) -> list[str]:
        """Return the names of all topics that this user may see."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                known = self._client.list_topics(timeout=_ATTEMPT)
            except KafkaException:
                # The client tries again by itself; what it met comes by its callback.
                self._client.poll(0)
                is_fatal = any(error.code() in FATAL for error in self._errors)
                if is_fatal or time.monotonic() > give_up:
                    raise explain_failure(self._feed, self._errors) from None
                continue
            self._named = sorted(f"{each.host}:{each.port}" for each in known.brokers.values())
            return list(known.topics)

    def _describe(self, names: Sequence[str]) -> dict[str, Any]:
        if not names:
            return {}
        wanted = TopicCollection(list(names))
        answers = self._client.describe_topics(wanted, request_timeout=PATIENCE)
        return {name: self._wait_for(name, answers[name]) for name in names}

    def _list_offsets(
        self, places: Sequence[TopicPartition], which: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        answers = self._client.list_offsets(dict.fromkeys(places, which), request_timeout=PATIENCE)
        return {
            (place.topic, place.partition): self._wait_for(place.topic, answer).offset
            for place, answer in answers.items()
        }

    def _wait_for(self, topic: str, answer: Future[T]) -> T:
        """Return an answer about a topic, which the broker that leads it may have to give."""
        try:
            return answer.result(PATIENCE + _GRACE)
        except TimeoutError:
            # It must not leave here: for Python it is an error of a file.
            pass
        except KafkaException as error:
            if error.args[0].code() not in UNANSWERED:
                raise explain_topic_error(topic, error.args[0]) from None
        self._client.poll(0)
        silent = f"not at the addresses by which they name themselves: {', '.join(self._named)}"
        silent += " (advertised.listeners)"
        raise explain_failure(self._feed, self._errors, silent)


def require_topics(feed: Changefeed) -> None:
    """Raise a `ConfigError` unless the brokers answer and the topics of a changefeed exist."""
    Brokers(feed).read_ends()


def read_topics(
    feed: Changefeed, known: ReadOffsets, *, accept_gaps: bool = False
) -> Generator[Message | Quarantined, None, None]:
    """Read the records that the topics hold now and that are not known, in offset order.

    Stop at the limits of the changefeed.  Raise `LostRecords` if records are gone that were not
    read; yield accepted gaps first.
    """
    brokers = Brokers(feed)
    ends = brokers.read_ends()
    starts = {} if known.topic_ids else brokers.find_starts(ends)
    ranges, gaps = find_ranges(known, ends, starts=starts, accept_gaps=accept_gaps)
    for gap in gaps:
        yield _state_gap(gap)
    known.ends = {f"{r.topic}-{r.partition}": r.end for r in ranges}
    is_empty = True
    for record in read_ranges(feed, brokers, ranges, known):
        if isinstance(record, LostRecords):
            if not accept_gaps:
                raise add_advice(record)
            yield _state_gap(record)
            continue
        is_empty = False
        yield record
    if not is_empty:
        # The client follows a name: behind the last record of a topic it went on in its successor.
        # That a topic was deleted meanwhile is for the next run to say: this one was in time.
        require_same_topics(known, known.topic_ids | brokers.read_ids(known.topic_ids))


def read_ranges(
    feed: Changefeed, brokers: Brokers, ranges: Sequence[OffsetRange], known: ReadOffsets
) -> Iterator[Message | LostRecords]:
    """Read offsets, those of one partition in order; take note in `known` of what was read."""
    if not ranges:
        return
    errors: list[KafkaError] = []
    consumer = _make_consumer(feed, errors)
    try:
        consumer.assign([_make_place(range, known) for range in ranges])
        ends = {(r.topic, r.partition): r.end for r in ranges}
        limited = limit_ranges(ranges, feed.max_records)
        stops = {(r.topic, r.partition): r.end for r in limited}
        known.has_more = stops != ends
        following: dict[tuple[str, int], int] = {}
        last, size = time.monotonic(), 0
        while stops:
            if size >= feed.max_bytes:
                known.has_more = True
                return
            records = consumer.consume(_RECORDS_PER_CALL, timeout=_WAIT)
            if records:
                last = time.monotonic()
            elif any(e.code() in FATAL for e in errors):
                raise explain_failure(feed, errors)
            elif time.monotonic() > last + _SILENCE:
                # This says so if the connection or a topic is gone.
                topics = brokers.read_ends()
                require_same_topics(known, {name: topics[name].id for name in topics})
                raise explain_failure(feed, errors, "send no records")
            for record in records:
                place = record.topic(), record.partition()
                if (stop := stops.get(place)) is None:
                    continue
                is_record = record.error() is None
                if not is_record and (again := _find_restart(record, known)) is not None:
                    if again != known.next_offset(*place):
                        yield begin_again(known, *place, again)
                    consumer.incremental_unassign([TopicPartition(*place)])
                    consumer.incremental_assign([TopicPartition(*place, again)])
                    continue
                offset = record.offset() if is_record else _get_offset(record)
                # The first record behind a hole is read even if it is beyond the stop: without
                # any record no commit would state that there was a hole.
                if is_record and offset < ends[place]:
                    if offset != following.get(place):
                        known.read_up_to(*place, offset)
                    following[place] = offset + 1
                    if (epoch := record.leader_epoch()) is not None:
                        known.set_epoch(*place, offset, epoch)
                    size += len(record)
                    yield _make_message(record, *place, offset)
                # The next offset to read, after a record or at the end of the partition.
                if offset + is_record >= stop:
                    # Offsets without a record may precede it.
                    known.read_up_to(*place, stop)
                    del stops[place]
                    consumer.incremental_unassign([TopicPartition(*place)])
    finally:
        consumer.close()


def _make_place(range: OffsetRange, known: ReadOffsets) -> TopicPartition:
    """Say where to begin; with an epoch the client finds out whether that follows what was read."""
    epoch = known.get_epoch(range.topic, range.partition)
    if epoch is None:
        return TopicPartition(*range[:3])
    return TopicPartition(*range[:3], leader_epoch=epoch)


def _state_gap(gap: LostRecords) -> Quarantined:
    place = FilePosition(f"{gap.topic}-{gap.partition}", gap.offsets[0] if gap.offsets else 0)
    return Quarantined(position=place, error=LostRecords.__name__, reason=LOST + str(gap))


def _find_restart(record: Record, known: ReadOffsets) -> int | None:
    """Return where to begin a partition again because its epochs do not confirm what was read.

    That is where it ceases to have what was read of it, or the same offset without the epoch if
    brokers do not know that.
    """
    error, topic, partition = record.error(), record.topic(), record.partition()
    if error is None or error.code() != KafkaError._AUTO_OFFSET_RESET:
        return None
    found = _EPOCH_END.search(error.str())
    if found is None or topic is None or partition is None:
        return None
    start = known.next_offset(topic, partition)
    assert start is not None
    end = int(found[1])
    return min(end, start) if end >= 0 else start


def _make_consumer(feed: Changefeed, errors: list[KafkaError]) -> Any:
    settings = {
        "error_cb": errors.append,
        # No group is joined, but the client wants a name of one.
        "group.id": "ticdc-assets",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        # Records of transactions count whether they are committed or not: TiCDC uses none.
        "isolation.level": "read_uncommitted",
        "check.crcs": True,
    }
    return make_client(Consumer, feed, settings)


def _get_offset(record: Record) -> int:
    """Return the offset of a record, or the one at which a partition ends."""
    error, topic, partition = record.error(), record.topic(), record.partition()
    assert topic is not None
    assert partition is not None
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        offset = record.offset()
        assert offset is not None
        return offset
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        reason = "the brokers removed records while they were read"
        raise LostRecords(reason, topic, partition)
    raise explain_topic_error(topic, error)


def _make_message(record: Record, topic: str, partition: int, offset: int) -> Message:
    kind, timestamp = record.timestamp()
    try:
        headers: Any = record.headers() or ()
    except UnicodeDecodeError:
        # A name that is not UTF-8, which `raw` cannot hold.  TiCDC sends no headers.
        headers = ()
    return Message(
        topic,
        partition,
        offset,
        record.key(),
        record.value(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        tuple(headers),
    )
