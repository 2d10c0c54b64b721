"""The position of an event in its topic or folder, exact enough to find its bytes again.

A position identifies an event for people and for deduplication.  Events are ordered by commit ts;
their positions order only events that share one.
"""

from msgspec import Struct


class TopicPosition(Struct, frozen=True, gc=False, order=True, tag=True):
    """A record of a topic, and the event's index in the record (Open Protocol batches events)."""

    topic: str
    partition: int
    offset: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}-{self.index}"


class FilePosition(Struct, frozen=True, gc=False, order=True, tag=True):
    """A record of a file, counted from 1; record 0 is the whole file."""

    path: str
    record: int = 0

    def __str__(self) -> str:
        return f"{self.path}-{self.record}"


Position = TopicPosition | FilePosition
