"""Decide which offsets of topics to read next: from where the lake's last commit ended, to now.

Kafka removes old records, and topics can be deleted and made again.  What has gone before it was
read is an error that names the exact offsets, until a person accepts the gap.  What a topic lacked
when a lake began with it is a gap that nobody has to accept.  Offsets that hold no record, as those
of transaction markers and of records that compaction removed, are no gap.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ticdc_assets.errors import LostRecords
from ticdc_assets.stream.offsets import ReadOffsets

_ADVICE = "; to go on without them, run `ticdc-assets advance --accept-gap`"


class PartitionEnds(NamedTuple):
    """The offset of the oldest record that a partition holds, and the one after its newest."""

    first: int
    end: int


class TopicEnds(NamedTuple):
    """A topic as the brokers have it; they give it a new id when it is made again."""

    id: str
    partitions: Mapping[int, PartitionEnds]


class OffsetRange(NamedTuple):
    """Offsets to read of one partition: from `start` up to, and without, `end`."""

    topic: str
    partition: int
    start: int
    end: int


class Reading(NamedTuple):
    """What to read of all partitions, and what is gone of them."""

    ranges: list[OffsetRange]
    gaps: list[LostRecords]


def find_ranges(
    known: ReadOffsets,
    topics: Mapping[str, TopicEnds],
    *,
    starts: Mapping[tuple[str, int], int] | None = None,
    accept_gaps: bool = False,
) -> Reading:
    """Return what to read of each partition; partitions that are new begin with what there is.

    `starts` says where a new lake begins instead, by topic and partition.
    Raise `LostRecords` if records are gone that were not read, unless gaps are accepted: then their
    partitions begin again with what there is.
    """
    is_new = not known.topic_ids
    gaps = _drop_former_topics(known, topics)
    ranges = []
    for topic, (id, partitions) in topics.items():
        known.topic_ids[topic] = id
        for number, ends in partitions.items():
            start = known.next_offset(topic, number)
            if is_new and starts is not None and (topic, number) in starts:
                ends = PartitionEnds(max(ends.first, starts[topic, number]), ends.end)
            gap = _find_gap(topic, number, start, ends)
            if start is None or gap is not None:
                start = ends.first if start is None else min(max(start, ends.first), ends.end)
                known.start_at(topic, number, start)
            if gap is not None:
                gaps.append(gap)
            if start < ends.end:
                ranges.append(OffsetRange(topic, number, start, ends.end))
    if gaps and not (accept_gaps or is_new):
        raise add_advice(gaps[0])
    return Reading(ranges, gaps)


def add_advice(gap: LostRecords) -> LostRecords:
    """Return the error that names a gap and says how to accept it."""
    return LostRecords(gap.reason + _ADVICE, gap.topic, gap.partition, gap.offsets)


def begin_again(known: ReadOffsets, topic: str, partition: int, end: int) -> LostRecords:
    """Go back to where a truncated partition ceases to be what was read of it; return the gap."""
    start = known.next_offset(topic, partition)
    assert start is not None
    known.start_at(topic, partition, end)
    reason = "the partition was truncated after these were read, and has other records there"
    return LostRecords(reason, topic, partition, (end, start - 1))


def limit_ranges(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """Shorten ranges to `most` offsets in all, each in proportion, so that no partition lags."""
    total = sum(range.end - range.start for range in ranges)
    if total <= most:
        return list(ranges)
    return [
        range._replace(end=range.start + max((range.end - range.start) * most // total, 1))
        for range in ranges
    ]


def require_same_topics(known: ReadOffsets, ids: Mapping[str, str]) -> None:
    """Raise `LostRecords` if a topic that is known was deleted, or made again, by its id now."""
    for topic in known.topic_ids:
        if reason := _find_change(known, topic, ids.get(topic)):
            raise add_advice(LostRecords(reason, topic))


def _drop_former_topics(known: ReadOffsets, topics: Mapping[str, TopicEnds]) -> list[LostRecords]:
    """Forget the topics that were deleted since; what their end held is gone."""
    gaps = []
    for topic in list(known.topic_ids):
        id = topics[topic].id if topic in topics else None
        if reason := _find_change(known, topic, id):
            gaps += [LostRecords(reason, topic, partition) for partition in known.forget(topic)]
    return gaps


def _find_change(known: ReadOffsets, topic: str, id: str | None) -> str | None:
    if id is None:
        return "the topic was deleted"
    return None if id == known.topic_ids[topic] else "the topic was deleted and made again"


def _find_gap(
    topic: str, partition: int, start: int | None, ends: PartitionEnds
) -> LostRecords | None:
    if start is None and ends.first > 0:
        reason = "the lake begins behind these records"
        return LostRecords(reason, topic, partition, (0, ends.first - 1))
    if start is not None and ends.first > start:
        reason = "the brokers removed these records before they were read"
        return LostRecords(reason, topic, partition, (start, ends.first - 1))
    if start is not None and ends.end < start:
        # Which of the offsets below its end got other records since then, nothing here tells.  To
        # read them all again would end the gap at a watermark from before it.
        reason = "the partition ends before what was read of it: it was truncated"
        reason += f", and records that were written below offset {ends.end} since then are skipped"
        return LostRecords(reason, topic, partition, (ends.end, start - 1))
    return None
