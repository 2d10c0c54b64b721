"""Where an event came from: exact enough to find the bytes again.

A position is for people and for deduplication by place; it never orders events (order is by commit
ts), except to keep several DDLs of one commit ts in the order their sender gave them.
"""

from msgspec import Struct


class TopicPosition(Struct, frozen=True, order=True, tag=True):
    """A record of a topic, and the event's place inside the record (Open Protocol batches)."""

    topic: str
    partition: int
    offset: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}-{self.index}"


class FilePosition(Struct, frozen=True, order=True, tag=True):
    """A record of a file, counted from 1; 0 stands for the file as a whole."""

    path: str
    record: int = 0

    def __str__(self) -> str:
        return f"{self.path}-{self.record}"


Position = TopicPosition | FilePosition
