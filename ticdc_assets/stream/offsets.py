"""The offsets of topics that were read: a record counts once, however often a dump holds it.

Offsets are kept as ranges, so that a record which states a wrong, high offset does not make those
after it look as if they had been read.  Brokers state no wrong offsets: there, all of a partition
before an offset counts as read, and one range is left.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

# A dump with more gaps forgets the gaps at the lowest offsets.
_MAX_RANGES = 100

# By `topic-partition`: the first and the last offset of each range, ascending.  The leader epoch of
# the very last offset may follow, from which brokers can tell whether they still have its record.
OffsetRanges = Mapping[str, Sequence[Sequence[int]]]
# A topic and the number of a partition.
_Place = tuple[str, int]


class ReadOffsets:
    """The offsets read so far, of all partitions, and the ids of topics on brokers.

    `has_more`: reading stopped at a limit, and the topics hold more.  `ends` are the offsets up to
    which brokers had records when reading began, by `topic-partition`.
    """

    def __init__(
        self, ranges: OffsetRanges | None = None, topic_ids: Mapping[str, str] | None = None
    ) -> None:
        stated = {_read_place(name): known for name, known in (ranges or {}).items()}
        self._ranges = {
            place: [list(each[:2]) for each in known] for place, known in stated.items()
        }
        # The offset to which each belongs, and the epoch.
        self._epochs = {
            place: (known[-1][1], known[-1][2])
            for place, known in stated.items()
            if known and len(known[-1]) > 2
        }
        self.topic_ids = dict(topic_ids or {})
        self.has_more = False
        self.ends: dict[str, int] = {}

    def add(self, topic: str, partition: int, offset: int) -> bool:
        """Add a record's offset; return whether it was not there."""
        ranges = self._ranges.get((topic, partition))
        if ranges is None:
            ranges = self._ranges[topic, partition] = []
        # Nearly every record is the next one.
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
            return True
        place = bisect_right(ranges, offset, key=_get_first)
        if place and offset <= ranges[place - 1][1]:
            return False
        ranges.insert(place, [offset, offset])
        _join(ranges, place)
        _join(ranges, place - 1)
        if len(ranges) > _MAX_RANGES:
            ranges[: -_MAX_RANGES + 1] = [[ranges[0][0], ranges[-_MAX_RANGES][1]]]
        return True

    def next_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last one read; None if none was."""
        ranges = self._ranges.get((topic, partition))
        return ranges[-1][1] + 1 if ranges else None

    def start_at(self, topic: str, partition: int, start: int) -> None:
        """Begin a partition, or begin it again, with an offset that is still to be read."""
        self._ranges[topic, partition] = [[start, start - 1]]
        self._epochs.pop((topic, partition), None)

    def forget(self, topic: str) -> list[int]:
        """Forget a topic; return its partitions."""
        del self.topic_ids[topic]
        partitions = [number for name, number in self._ranges if name == topic]
        for number in partitions:
            del self._ranges[topic, number]
            self._epochs.pop((topic, number), None)
        return partitions

    def read_up_to(self, topic: str, partition: int, end: int) -> None:
        """Count the offsets from the last one that was read to `end`, without it, as read."""
        last = self._ranges[topic, partition][-1]
        last[1] = max(last[1], end - 1)

    def set_epoch(self, topic: str, partition: int, offset: int, epoch: int) -> None:
        """State the leader epoch of a record, which counts while it is the last one."""
        self._epochs[topic, partition] = offset, epoch

    def get_epoch(self, topic: str, partition: int) -> int | None:
        """Return the leader epoch of the last offset; None if that is not known or is no record."""
        return self._find_epoch((topic, partition))

    def _find_epoch(self, place: _Place) -> int | None:
        offset, epoch = self._epochs.get(place, (None, None))
        ranges = self._ranges.get(place)
        return epoch if ranges and ranges[-1][1] == offset else None

    def unread(self) -> list[str]:
        """Return the partitions of which brokers had more records than were read."""
        ends = ((name, self.next_offset(*_read_place(name))) for name in self.ends)
        return [name for name, next in ends if next is None or next < self.ends[name]]

    def state(self) -> dict[str, list[list[int]]]:
        """Return a copy of the ranges, with the leader epochs."""
        state = {}
        for place, known in self._ranges.items():
            ranges = [list(each) for each in known]
            if (epoch := self._find_epoch(place)) is not None:
                ranges[-1].append(epoch)
            state["{}-{}".format(*place)] = ranges
        return state


def _read_place(name: str) -> _Place:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _get_first(range: Sequence[int]) -> int:
    return range[0]


def _join(ranges: list[list[int]], place: int) -> None:
    """Join a range with the one after it, if no offset is between them."""
    if place >= 0 and place + 1 < len(ranges) and ranges[place][1] + 1 == ranges[place + 1][0]:
        ranges[place][1] = ranges.pop(place + 1)[1]
