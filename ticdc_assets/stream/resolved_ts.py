"""How far a changefeed is complete: the resolved ts over everything that can still speak.

A storage changefeed says it in one place, its `metadata`.  A Kafka one says it a partition at a
time, and only to the topics of tables that there are: a topic whose last table was dropped or
renamed away gets no watermarks any more and must not hold the others back, but one whose table is
there holds them back until it has spoken.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import (
    Event,
    FilePosition,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.routing import find_topic


class WatermarkState(Struct, frozen=True):
    """All that was heard, as it can be written down."""

    checkpoint: int = 0
    watermarks: dict[str, dict[int, int]] = {}
    first_seen: dict[str, int] = {}
    first_rows: list[tuple[str, str, int]] = []
    ddls: list[SchemaChange] = []


class ResolvedTsTracker:
    """Listens to events as they arrive; answers up to where all of them have."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self._checkpoint = 0
        # By topic and partition, whatever was heard from them; 0 where that was no watermark.
        self._watermarks: dict[str, dict[int, int]] = defaultdict(dict)
        self._first_seen: dict[str, int] = {}
        self._first_rows: dict[tuple[str, str], int] = {}
        # By commit ts and what tells one from another.
        self._ddls: dict[int, dict[tuple[str, str, str], SchemaChange]] = defaultdict(dict)
        # Which topics get watermarks, from each ts on at which that may have changed.
        self._lives: list[tuple[int, set[str]]] | None = None

    def state(self) -> WatermarkState:
        """What was heard so far, to be taken up again by `restore`."""
        # Only where topics come and go with their tables is more of use than watermarks.
        several = self._several_topics
        rows = [(*name, ts) for name, ts in self._first_rows.items()] if several else []
        ddls = [ddl for told in self._ddls.values() for ddl in told.values()] if several else []
        marks = {topic: dict(heard) for topic, heard in self._watermarks.items()}
        return WatermarkState(self._checkpoint, marks, dict(self._first_seen), rows, ddls)

    def restore(self, heard: WatermarkState) -> None:
        """Know what was heard before."""
        self._checkpoint = heard.checkpoint
        for topic, marks in heard.watermarks.items():
            self._watermarks[topic] = dict(marks)
        self._first_seen = dict(heard.first_seen)
        self._first_rows = {(database, table): ts for database, table, ts in heard.first_rows}
        for ddl in heard.ddls:
            self._ddls[ddl.commit_ts][ddl.sql, ddl.database, ddl.table] = ddl
        self._lives = None

    @property
    def watermarks(self) -> dict[str, int]:
        """The last watermark of everything that speaks."""
        if self._feed.transport == "storage":
            return {"metadata": self._checkpoint}
        return {
            f"{topic}-{partition}": ts
            for topic, heard in self._watermarks.items()
            for partition, ts in heard.items()
        }

    @property
    def _several_topics(self) -> bool:
        return any(dispatcher.topic for dispatcher in self._feed.dispatchers)

    def observe(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Watermark(ts=ts, position=FilePosition()):
                    self._checkpoint = max(ts, self._checkpoint)
                case Watermark(ts=ts, position=TopicPosition(topic, partition)):
                    self._hear(topic, partition, ts, ts)
                case RowChange(commit_ts=ts, position=TopicPosition(topic, partition)):
                    self.observe_rows(topic, partition, event.database, event.table, ts)
                case SchemaChange(commit_ts=ts, position=TopicPosition(topic, partition)):
                    told_by = event.sql, event.database, event.table
                    if told_by not in self._ddls[ts]:
                        self._ddls[ts][told_by] = event
                        self._lives = None
                    self._hear(topic, partition, ts, 0)

    def observe_rows(
        self, topic: str, partition: int, database: str, table: str, first_ts: int
    ) -> None:
        """Hear of a table's rows in a partition, from this commit ts on."""
        name = database, table
        if name not in self._first_rows or first_ts < self._first_rows[name]:
            self._first_rows[name] = first_ts
            self._lives = None
        self._hear(topic, partition, first_ts, 0)

    def _hear(self, topic: str, partition: int, ts: int, watermark: int) -> None:
        if topic not in self._first_seen or ts < self._first_seen[topic]:
            self._first_seen[topic] = ts
            self._lives = None
        partitions = self._watermarks[topic]
        partitions[partition] = max(watermark, partitions.get(partition, 0))

    @property
    def resolved_ts(self) -> int | None:
        """The resolved ts; None where the changefeed states none (Canal-JSON without extension).

        All rows up to it, itself included, were heard, and all DDLs below it; a DDL of that very ts
        may still follow, since TiCDC sends the two in either order.
        """
        if self._feed.transport == "storage":
            return self._checkpoint
        if not any(any(heard.values()) for heard in self._watermarks.values()) and (
            self._feed.protocol == "canal-json" and not self._feed.enable_tidb_extension
        ):
            return None
        ts = max(map(self._complete, self._watermarks), default=0)
        while behind := self._behind(ts):
            # The least of those that are behind; but before a topic was there, it holds nothing up.
            since, _ = self._live(ts)
            ts = max(min(map(self._complete, behind)), since - 1)
        return ts

    def find_lagging_partitions(self, ts: int) -> list[str]:
        """The partitions whose watermarks are missing for a ts to be resolved."""
        return [
            f"{topic}-{partition}"
            for topic in sorted(self._behind(ts))
            for partition, watermark in self._partitions(topic)
            if watermark < ts
        ]

    def _behind(self, ts: int) -> list[str]:
        """The topics that have not spoken of a ts and will."""
        return [topic for topic in self._live(ts)[1] if self._complete(topic) < ts]

    def _live(self, ts: int) -> tuple[int, set[str]]:
        """Which topics get watermarks at a ts, and since when it may have been these."""
        if self._lives is None:
            self._lives = self._follow_tables()
        return self._lives[bisect_right(self._lives, ts, key=lambda life: life[0]) - 1]

    def _complete(self, topic: str) -> int:
        return min((watermark for _, watermark in self._partitions(topic)), default=0)

    def _partitions(self, topic: str) -> list[tuple[int, int]]:
        """A topic's partitions and watermarks: those heard of, and those declared."""
        heard = self._watermarks.get(topic, {})
        numbers = {*heard, *range(self._feed.partition_num or 0)}
        return [(number, heard.get(number, 0)) for number in sorted(numbers)]

    def _follow_tables(self) -> list[tuple[int, set[str]]]:
        if not self._several_topics:
            return [(0, set(self._watermarks))]
        catalog = SchemaCatalog()
        lives: list[tuple[int, set[str]]] = [(0, set())]
        # Topics of tables that were there at some time, and of views, which get no watermarks.
        known: set[str | None] = set()
        for ts in sorted({*self._first_seen.values(), *self._first_rows.values(), *self._ddls}):
            for (database, table), first in self._first_rows.items():
                if first == ts and catalog.get(database, table) is None:
                    catalog.replace(TableSchema(database, table, ()))
            for change in order_ddls(self._ddls.get(ts, {}).values(), catalog):
                known.add(find_topic(self._feed, change.database, change.table))
                apply_ddl(change, catalog)
            live = {find_topic(self._feed, s.database, s.table) for s in catalog if self._sent(s)}
            known |= live
            lives.append((ts, {topic for topic in live if topic is not None}))
        # What belongs to no table we know of: the default topic, and tables without a row so far.
        others = {t: since for t, since in self._first_seen.items() if t not in known}
        if self._feed.topic is not None:
            others[self._feed.topic] = 0
        return [(ts, live | {t for t in others if others[t] <= ts}) for ts, live in lives]

    def _sent(self, schema: TableSchema) -> bool:
        """Whether TiCDC replicates a table: not those without a key, unless it is told to."""
        if schema.key or self._feed.force_replicate:
            return True
        return (schema.database, schema.table) in self._first_rows
