"""Buffer events until their commit ts is resolved, then give them out in order.

TiCDC delivers at least once.  The buffer keeps one copy of each DDL.  It keeps every copy of a row,
because equal rows may be distinct, but numbers the pass in which its sender sent it.
"""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from ticdc_assets.events import (
    Bootstrap,
    FilePosition,
    Position,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey, Phase, place_row


class BufferedEvent(Struct, frozen=True):
    """An event and its place in the order."""

    ts: int
    phase: int
    arrival: int
    event: RowChange | SchemaChange | Bootstrap
    # How often the sender had gone back in time before it sent this row.
    sender_pass: int = 0


class EventBuffer:
    """Takes events in order of arrival and returns them in order of commit ts."""

    def __init__(self) -> None:
        self.taken_ts = 0
        self._events: list[BufferedEvent] = []
        self._all_events: list[BufferedEvent] = []
        self._arrivals = 0
        self._ddls_seen: set[tuple[int, str, str, str]] = set()
        self._schemas: dict[tuple[str, str, int | None], TableSchema] = {}
        # The highest ts of every topic partition.
        self._partition_ts: dict[tuple[str, int], int] = defaultdict(int)
        # The last commit ts and the number of the current pass, by sender.
        self._passes: dict[tuple[str, int, TableKey], tuple[int, int]] = {}

    def add(self, event: RowChange | SchemaChange | Bootstrap | Watermark) -> None:
        """Buffer one event."""
        self._arrivals += 1
        match event:
            case RowChange():
                self._add_row(event)
            case SchemaChange():
                self._add_ddl(event)
            case Bootstrap():
                self._add_bootstrap(event)
            case Watermark():
                self._observe_ts(event.position, event.ts)

    def take(self, ts: int) -> list[BufferedEvent]:
        """Remove and return every event up to and including `ts`, in order."""
        events = sorted(
            (item for item in self._events if item.ts <= ts),
            key=lambda item: (item.ts, item.phase, item.arrival),
        )
        self._events = [item for item in self._events if item.ts > ts]
        self.taken_ts = max(self.taken_ts, ts)
        return events

    def put_back(self, events: Iterable[BufferedEvent]) -> None:
        """Return events that could not be applied; the next `take` yields them again."""
        self._events.extend(events)

    def rewind(self) -> None:
        """Let the next `take` yield all events from the first one on."""
        self._events = list(self._all_events)

    @property
    def schemas_stated(self) -> int:
        """The number of schemas that messages and files have stated."""
        return len(self._schemas)

    def find_schema(self, database: str, table: str, version: int | None) -> TableSchema | None:
        """Return the schema that a message or file stated for a version, whenever it arrived."""
        return self._schemas.get((*table_key(database, table), version))

    def _add_row(self, change: RowChange) -> None:
        sender_pass = self._count_pass(change)
        if change.commit_ts > self.taken_ts:
            place = place_row(change.commit_ts, change.ordering, self.taken_ts)
            self._append(place, change, sender_pass)

    def _add_ddl(self, change: SchemaChange) -> None:
        self._observe_ts(change.position, change.commit_ts)
        for schema in (change.schema, change.pre_schema):
            self._add_schema(schema)
        identity = (change.commit_ts, change.sql, change.database, change.table)
        # The watermark of a DDL's own commit ts may arrive just before the DDL.
        if identity not in self._ddls_seen and change.commit_ts >= self.taken_ts:
            self._ddls_seen.add(identity)
            self._append((change.commit_ts, Phase.DDLS), change)

    def _add_bootstrap(self, bootstrap: Bootstrap) -> None:
        """Buffer a bootstrap at the lowest ts its schema may hold from: the sender's last one."""
        schema = bootstrap.schema
        if not self._add_schema(schema):
            return
        match bootstrap.position:
            case FilePosition():
                since = schema.version or 0
            case TopicPosition(topic, partition):
                since = self._partition_ts[topic, partition]
        self._append((max(since, self.taken_ts + 1), Phase.AFTER_DDLS), bootstrap)

    def _append(
        self,
        place: OrderKey,
        event: RowChange | SchemaChange | Bootstrap,
        sender_pass: int = 0,
    ) -> None:
        item = BufferedEvent(*place, self._arrivals, event, sender_pass)
        self._events.append(item)
        self._all_events.append(item)

    def _add_schema(self, schema: TableSchema | None) -> bool:
        """Keep a schema for the rows that refer to it; return whether it is new."""
        if schema is None or not schema.table:
            return False
        name = (*table_key(schema.database, schema.table), schema.version)
        if name in self._schemas:
            return False
        self._schemas[name] = schema
        return True

    def _observe_ts(self, position: Position, ts: int) -> None:
        if isinstance(position, TopicPosition):
            sender = (position.topic, position.partition)
            self._partition_ts[sender] = max(self._partition_ts[sender], ts)

    def _count_pass(self, change: RowChange) -> int:
        """Return the number of the pass in which the sender of a row sent it."""
        table = table_key(change.database, change.table)
        match change.position:
            case TopicPosition(topic, partition):
                sender = (topic, partition, table)
            case FilePosition():
                # The files of one table version are read in the order TiCDC wrote them.
                sender = (f"{change.schema_version}/{change.table_id}", 0, table)
        last_ts, number = self._passes.get(sender, (0, 0))
        if change.commit_ts < last_ts:
            number += 1
        self._passes[sender] = (change.commit_ts, number)
        return number
