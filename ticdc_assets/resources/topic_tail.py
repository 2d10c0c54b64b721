"""Read the newest records of topics: they say how far TiCDC has got, and when it wrote last."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Event, Watermark
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.kafka import Brokers, read_ranges
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker, WatermarkState
from ticdc_assets.stream.topic_ranges import OffsetRange, PartitionEnds

# TiCDC sends every partition a watermark per second.  The first number of records nearly always has
# one; the second has one where thousands of rows come in between.
_RECORDS = (100, 10_000)
# Of all partitions together.
_MOST_RECORDS, _MOST_BYTES = 100_000, 64 << 20

_Place = tuple[str, int]


@dataclass(frozen=True)
class TopicTail:
    """The newest records of all partitions, decoded."""

    partitions: Mapping[_Place, PartitionEnds]
    events: tuple[Event, ...]
    # When the newest record was written.
    newest_at: datetime | None
    # Partitions that have older records, and no watermark among the newest ones.
    without_watermark: frozenset[_Place]

    def find_checkpoint(self, feed: Changefeed, known: WatermarkState | None) -> int | None:
        """Return the resolved ts of all that the topics hold; None if that cannot be known.

        `known` is what the lake knows of earlier records.
        """
        tracker = ResolvedTsTracker(feed)
        if known is not None:
            tracker.restore(known)
        tracker.observe(self.events)
        tracker.expect_partitions(dict.fromkeys(self.partitions, False))
        ts = tracker.resolved_ts
        if not ts:
            return None
        unknown = {f"{topic}-{number}" for topic, number in self.without_watermark}
        return None if unknown.intersection(tracker.find_lagging_partitions(ts + 1)) else ts


def read_tail(feed: Changefeed) -> TopicTail:
    """Read the newest records; raise a `ConfigError` if the topics cannot be read."""
    brokers = Brokers(feed)
    partitions = {
        (name, number): ends
        for name, topic in brokers.read_ends().items()
        for number, ends in topic.partitions.items()
    }
    records: dict[_Place, list[Message]] = {}
    events: dict[_Place, list[Event]] = {}
    wanted = sorted(partitions)
    for count in _RECORDS:
        if not wanted:
            break
        count = min(count, max(_MOST_RECORDS // len(wanted), 1))
        records |= _read(feed, brokers, {place: partitions[place] for place in wanted}, count)
        for place in wanted:
            events[place] = list(read_topic_events(feed, records[place], None))
        wanted = [
            place
            for place in wanted
            if partitions[place].end - count > partitions[place].first
            and not any(isinstance(event, Watermark) for event in events[place])
        ]
    newest = max((r.timestamp_ms or 0 for read in records.values() for r in read), default=0)
    return TopicTail(
        partitions,
        tuple(event for of_partition in events.values() for event in of_partition),
        datetime.fromtimestamp(newest / 1000, UTC) if newest else None,
        frozenset(wanted),
    )


def _read(
    feed: Changefeed, brokers: Brokers, partitions: Mapping[_Place, PartitionEnds], count: int
) -> dict[_Place, list[Message]]:
    """Read up to `count` of the newest records of each partition."""
    ranges = [
        OffsetRange(*place, max(ends.first, ends.end - count), ends.end)
        for place, ends in partitions.items()
        if ends.first < ends.end
    ]
    limited = replace(feed, max_records=_MOST_RECORDS, max_bytes=_MOST_BYTES)
    found: dict[_Place, list[Message]] = {place: [] for place in partitions}
    known = ReadOffsets()
    for range in ranges:
        known.start_at(range.topic, range.partition, range.start)
    for record in read_ranges(limited, brokers, ranges, known):
        # Records that retention has removed meanwhile are not the newest ones.
        if isinstance(record, Message):
            found[record.topic, record.partition].append(record)
    return found
