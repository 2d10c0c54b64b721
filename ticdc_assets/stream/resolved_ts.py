"""The resolved ts of a changefeed: the ts up to which its output is complete.

A storage changefeed states it in one place, its `metadata` file.  A Kafka changefeed sends one
watermark per partition, and only to topics that existing tables are dispatched to.  So the resolved
ts is the minimum over the topics that still get watermarks: a topic whose last table was dropped or
renamed away must not hold it back, while a topic with a table holds it back until its first
watermark arrives.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

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
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.stream.ddl_order import order_ddls
from ticdc_assets.stream.routing import find_topic


class WatermarkState(Struct, frozen=True):
    """Everything a tracker has observed, in a form that can be stored."""

    checkpoint: int = 0
    # The last watermark by topic and partition.
    watermarks: dict[str, dict[int, int]] = {}
    # The lowest ts by topic.
    first_seen: dict[str, int] = {}
    # The lowest commit ts of a row, by database and table.
    first_rows: list[tuple[str, str, int]] = []
    ddls: list[SchemaChange] = []
    # Topics that were deleted.
    gone: list[str] = []


class ResolvedTsTracker:
    """Observes events in any order and computes the resolved ts."""

    def __init__(self, feed: Changefeed) -> None:
        self._feed = feed
        self._checkpoint = 0
        # The last watermark of every partition that sent anything; 0 if it sent no watermark.
        self._watermarks: dict[str, dict[int, int]] = defaultdict(dict)
        self._first_seen: dict[str, int] = {}
        self._first_rows: dict[tuple[str, str], int] = {}
        # By commit ts, then by SQL, database and table: TiCDC sends a DDL more than once.
        self._ddls: dict[int, dict[tuple[str, str, str], SchemaChange]] = defaultdict(dict)
        self._gone: set[str] = set()
        # Topics of which brokers have more than was read.
        self._unread: set[str] = set()
        # The topics that get watermarks, from each ts at which that set may change.
        self._live_topics: list[tuple[int, set[str]]] | None = None

    def state(self) -> WatermarkState:
        """Return everything observed so far, for `restore`."""
        watermarks = {topic: dict(marks) for topic, marks in self._watermarks.items()}
        rows: list[tuple[str, str, int]] = []
        ddls: list[SchemaChange] = []
        if self._has_topic_dispatchers:
            # Which topics get watermarks depends on the tables only here.
            rows = [(*name, ts) for name, ts in self._first_rows.items()]
            ddls = [ddl for same_ts in self._ddls.values() for ddl in same_ts.values()]
        return WatermarkState(
            self._checkpoint, watermarks, dict(self._first_seen), rows, ddls, sorted(self._gone)
        )

    def restore(self, state: WatermarkState) -> None:
        """Continue from what an earlier tracker observed."""
        self._checkpoint = state.checkpoint
        for topic, marks in state.watermarks.items():
            self._watermarks[topic] = dict(marks)
        self._first_seen = dict(state.first_seen)
        self._first_rows = {(database, table): ts for database, table, ts in state.first_rows}
        self._gone = set(state.gone)
        for ddl in state.ddls:
            self._ddls[ddl.commit_ts][ddl.sql, ddl.database, ddl.table] = ddl
        self._live_topics = None

    @property
    def watermarks(self) -> dict[str, int]:
        """The last watermark of every partition, or of `metadata`."""
        if self._feed.transport == "storage":
            return {"metadata": self._checkpoint}
        return {
            f"{topic}-{partition}": ts
            for topic, marks in self._watermarks.items()
            for partition, ts in marks.items()
        }

    @property
    def _has_topic_dispatchers(self) -> bool:
        return any(dispatcher.topic for dispatcher in self._feed.dispatchers)

    def observe(self, events: Iterable[Event]) -> None:
        """Take note of events: watermarks, and the rows and DDLs that show which tables exist."""
        for event in events:
            match event:
                case Watermark(ts=ts, position=FilePosition()):
                    self._checkpoint = max(ts, self._checkpoint)
                case Watermark(ts=ts, position=TopicPosition(topic, partition)):
                    self._observe_partition(topic, partition, ts, watermark=ts)
                case RowChange(commit_ts=ts, position=TopicPosition(topic, partition)):
                    self.observe_rows(topic, partition, event.database, event.table, ts)
                case SchemaChange(commit_ts=ts, position=TopicPosition(topic, partition)):
                    identity = event.sql, event.database, event.table
                    if identity not in self._ddls[ts]:
                        self._ddls[ts][identity] = event
                        self._live_topics = None
                    self._observe_partition(topic, partition, ts)

    def expect_partitions(self, partitions: Mapping[tuple[str, int], bool]) -> None:
        """Take note of all partitions that brokers have, and whether they have more than was read.

        Each owes a watermark, if it is sent any, and no other one does.  A changefeed that declares
        how many partitions of its default topic it uses sends nothing to further ones.  A topic
        with more to read may be that of a table, whatever was read of it.
        """
        topics = {topic for topic, _ in partitions}
        self._gone = (self._gone | self._watermarks.keys()) - topics
        for topic in self._gone & self._watermarks.keys():
            del self._watermarks[topic]
        for topic, marks in self._watermarks.items():
            for number in [each for each in marks if (topic, each) not in partitions]:
                del marks[number]
        self._unread = {topic for (topic, _), has_more in partitions.items() if has_more}
        self._live_topics = None
        for topic, partition in partitions:
            declared = self._count_declared(topic)
            if declared is None or partition < declared:
                self._watermarks[topic].setdefault(partition, 0)

    def observe_rows(
        self, topic: str, partition: int, database: str, table: str, first_ts: int
    ) -> None:
        """Take note of a table's rows in a partition, the first of them at `first_ts`."""
        name = database, table
        if name not in self._first_rows or first_ts < self._first_rows[name]:
            self._first_rows[name] = first_ts
            self._live_topics = None
        self._observe_partition(topic, partition, first_ts)

    def _observe_partition(
        self, topic: str, partition: int, ts: int, *, watermark: int = 0
    ) -> None:
        if topic not in self._first_seen or ts < self._first_seen[topic]:
            self._first_seen[topic] = ts
            self._live_topics = None
        marks = self._watermarks[topic]
        marks[partition] = max(watermark, marks.get(partition, 0))

    @property
    def resolved_ts(self) -> int | None:
        """The resolved ts; None if the changefeed sends no watermarks.

        The output holds every row up to and including the resolved ts, and every DDL below it.  A
        DDL at exactly the resolved ts may still follow: TiCDC sends the two in either order.
        Canal-JSON without the TiDB extension has no watermarks.
        """
        if self._feed.transport == "storage":
            return self._checkpoint
        if not any(any(marks.values()) for marks in self._watermarks.values()) and (
            get_ordering(self._feed) == "milliseconds"
        ):
            return None
        ts = max(map(self._topic_watermark, self._watermarks), default=0)
        while lagging := self._lagging_topics(ts):
            # Go down to the slowest topic, but not below the start of this set of live topics: a
            # topic that did not exist before it holds nothing back there.
            since, _ = self._find_live_topics(ts)
            ts = max(min(map(self._topic_watermark, lagging)), since - 1)
        return ts

    def find_lagging_partitions(self, ts: int) -> list[str]:
        """Return the partitions whose watermarks must advance before `ts` is resolved."""
        return [
            f"{topic}-{partition}"
            for topic in sorted(self._lagging_topics(ts))
            for partition, watermark in self._partitions(topic)
            if watermark < ts
        ]

    def find_silent_partitions(self) -> list[str]:
        """Return the partitions that hold the resolved ts back and have sent no watermark yet."""
        resolved, watermarks = self.resolved_ts, self.watermarks
        if resolved is None or self._feed.transport == "storage":
            return []
        lagging = self.find_lagging_partitions(resolved + 1)
        return [partition for partition in lagging if not watermarks.get(partition)]

    def _lagging_topics(self, ts: int) -> list[str]:
        """Return the live topics whose watermark is below a ts."""
        return [t for t in self._find_live_topics(ts)[1] if self._topic_watermark(t) < ts]

    def _find_live_topics(self, ts: int) -> tuple[int, set[str]]:
        """Return the topics that get watermarks at a ts, and the ts from which they do."""
        if self._live_topics is None:
            self._live_topics = self._compute_live_topics()
        return self._live_topics[
            bisect_right(self._live_topics, ts, key=lambda entry: entry[0]) - 1
        ]

    def _topic_watermark(self, topic: str) -> int:
        return min((watermark for _, watermark in self._partitions(topic)), default=0)

    def _partitions(self, topic: str) -> list[tuple[int, int]]:
        """Return a topic's observed and declared partitions with their watermarks."""
        marks = self._watermarks.get(topic, {})
        numbers = {*marks, *range(self._count_declared(topic) or 0)}
        return [(number, marks.get(number, 0)) for number in sorted(numbers)]

    def _count_declared(self, topic: str) -> int | None:
        """Return how many partitions the declaration gives a topic.

        Of topics other than the default one, TiCDC uses the partitions that brokers have, and a
        dump does not state those.
        """
        is_declared = topic == self._feed.topic or self._feed.transport == "dump"
        return self._feed.partition_num if is_declared else None

    def _compute_live_topics(self) -> list[tuple[int, set[str]]]:
        if not self._has_topic_dispatchers:
            return [(0, set(self._watermarks))]
        catalog = SchemaCatalog()
        entries: list[tuple[int, set[str]]] = [(0, set())]
        # Topics of all tables that ever existed, and of views, which get no watermarks.
        table_topics: set[str | None] = set()
        for ts in sorted({*self._first_seen.values(), *self._first_rows.values(), *self._ddls}):
            for (database, table), first_ts in self._first_rows.items():
                if first_ts == ts and catalog.get(database, table) is None:
                    catalog.replace(TableSchema(database, table, ()))
            for change in order_ddls(self._ddls.get(ts, {}).values(), catalog):
                table_topics.add(find_topic(self._feed, change.database, change.table))
                apply_ddl(change, catalog)
            live = {
                find_topic(self._feed, schema.database, schema.table)
                for schema in catalog
                if self._is_replicated(schema)
            }
            table_topics |= live
            entries.append((ts, {topic for topic in live if topic is not None}))
        # Topics of no observed table: the default topic, and those of tables without rows so far.
        others = {t: since for t, since in self._first_seen.items() if t not in table_topics}
        others |= {topic: 0 for topic in self._unread if topic not in self._first_seen}
        if self._feed.topic is not None:
            others[self._feed.topic] = 0
        return [
            (ts, (live | {t for t in others if others[t] <= ts}) - self._gone)
            for ts, live in entries
        ]

    def _is_replicated(self, schema: TableSchema) -> bool:
        """Return whether TiCDC sends a table: one without a key only with `force-replicate`."""
        if self._feed.force_replicate:
            return True
        if schema.lost_key:
            return False
        return bool(schema.key) or (schema.database, schema.table) in self._first_rows
