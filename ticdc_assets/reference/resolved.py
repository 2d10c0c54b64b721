"""How far a changefeed is complete: the resolved ts over everything that can still speak.

A storage changefeed says it in one place, its `metadata`.  A Kafka one says it a partition at a
time: the resolved ts is the least of what the partitions said.  A topic whose last table was
dropped or renamed away gets no watermarks any more, and must not hold the others back.
"""

from collections.abc import Iterable

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.reference.routing import topic_of
from ticdc_assets.schema.catalog import Catalog


class Progress:
    """Listens to events as they arrive; answers up to where all of them have."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self._watermarks: dict[tuple[str, int], int] = {}
        self._checkpoint: int | None = None
        self._ddls: dict[tuple[int, str, str, str], SchemaChange] = {}
        self._names: set[tuple[str, str]] = set()

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Watermark(ts=ts, position=TopicPosition(topic, partition)):
                    sender = (topic, partition)
                    self._watermarks[sender] = max(ts, self._watermarks.get(sender, 0))
                case Watermark(ts=ts, position=FilePosition()):
                    self._checkpoint = max(ts, self._checkpoint or 0)
                case RowChange():
                    self._names.add((event.database, event.table))
                case SchemaChange():
                    name = (event.commit_ts, event.sql, event.database, event.table)
                    self._ddls.setdefault(name, event)
                case Bootstrap(schema=schema):
                    self._names.add((schema.database, schema.table))

    @property
    def resolved_ts(self) -> int | None:
        """The resolved ts; None where the changefeed states none (Canal-JSON without extension)."""
        if self._checkpoint is not None or not self._watermarks:
            return self._checkpoint
        topics = {topic for topic, _ in self._watermarks}
        if len(topics) > 1:
            topics &= self._live_topics()
        return min(ts for (topic, _), ts in self._watermarks.items() if topic in topics)

    def _live_topics(self) -> set[str | None]:
        """The default topic, and those of tables that are not dropped or renamed away."""
        catalog = Catalog()
        for database, table in self._names:
            catalog.put(TableSchema(database, table, ()))
        for change in sorted(self._ddls.values(), key=lambda ddl: ddl.commit_ts):
            catalog.change(change)
        live = {topic_of(self._feed, schema.database, schema.table) for schema in catalog}
        return live | {self._feed.topic}
