"""Events that wait for their commit ts to be resolved, and the order in which they then go.

What arrives twice is told apart here: a DDL is kept once however often it is sent; rows are kept as
often as they come, with the pass of their sender they came in (rows may be equal by right).
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
from ticdc_assets.stream.ordering import Phase


class BufferedEvent(Struct, frozen=True):
    """A buffered event with its place in the order."""

    ts: int
    phase: int
    arrival: int
    event: RowChange | SchemaChange | Bootstrap
    # How often the sender had gone back in time before it sent this row.
    sender_pass: int = 0


class EventBuffer:
    """Takes events as they arrive, gives them out as they are due."""

    def __init__(self) -> None:
        self.taken_ts = 0
        # Rows that came when their commit ts was applied already.
        self.superseded = 0
        self._waiting: list[BufferedEvent] = []
        self._arrivals = 0
        self._ddls_seen: set[tuple[int, str, str, str]] = set()
        self._stated: dict[tuple[str, str, int | None], TableSchema] = {}
        self._heard: dict[tuple[str, int], int] = defaultdict(int)
        self._passes: dict[tuple[str, int, TableKey], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

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
                self._hear(event.position, event.ts)

    def take(self, ts: int) -> list[BufferedEvent]:
        """Everything up to and including `ts`, in order."""
        due = sorted(
            (d for d in self._waiting if d.ts <= ts), key=lambda d: (d.ts, d.phase, d.arrival)
        )
        self._waiting = [d for d in self._waiting if d.ts > ts]
        self.taken_ts = max(self.taken_ts, ts)
        return due

    def put_back(self, held: Iterable[Iterable[BufferedEvent]]) -> None:
        """Take back what was due and could not be applied; it comes first the next time."""
        for dues in held:
            self._waiting.extend(dues)

    def overdue(self) -> list[BufferedEvent]:
        """What was due before and is still here."""
        return [due for due in self._waiting if due.ts <= self.taken_ts]

    def stated(self, database: str, table: str, version: int | None) -> TableSchema | None:
        """The schema that a message or file stated for a version, whenever it did."""
        return self._stated.get((*table_key(database, table), version))

    def _add_row(self, change: RowChange) -> None:
        sender_pass = self._pass_of(change)
        if change.commit_ts <= self.taken_ts:
            self.superseded += 1
            return
        phase = Phase.AFTER_DDLS if change.ordering == "table_version" else Phase.ROWS
        self._waiting.append(
            BufferedEvent(change.commit_ts, phase, self._arrivals, change, sender_pass)
        )

    def _add_ddl(self, change: SchemaChange) -> None:
        self._hear(change.position, change.commit_ts)
        for schema in (change.schema, change.pre_schema):
            self._remember(schema)
        name = (change.commit_ts, change.sql, change.database, change.table)
        # The watermark of a DDL's own ts may come just before it.
        if name not in self._ddls_seen and change.commit_ts >= self.taken_ts:
            self._ddls_seen.add(name)
            self._waiting.append(
                BufferedEvent(change.commit_ts, Phase.DDLS, self._arrivals, change)
            )

    def _add_bootstrap(self, bootstrap: Bootstrap) -> None:
        """A table was so at the earliest when its sender had said what it said before."""
        schema = bootstrap.schema
        if not self._remember(schema):
            return
        match bootstrap.position:
            case FilePosition():
                since = schema.version or 0
            case TopicPosition(topic, partition):
                since = self._heard[topic, partition]
        ts = max(since, self.taken_ts + 1)
        self._waiting.append(BufferedEvent(ts, Phase.AFTER_DDLS, self._arrivals, bootstrap))

    def _remember(self, schema: TableSchema | None) -> bool:
        """Keep a stated schema for rows that refer to it; tell whether it is news."""
        if schema is None or not schema.table:
            return False
        name = (*table_key(schema.database, schema.table), schema.version)
        if name in self._stated:
            return False
        self._stated[name] = schema
        return True

    def _hear(self, position: Position, ts: int) -> None:
        if isinstance(position, TopicPosition):
            sender = (position.topic, position.partition)
            self._heard[sender] = max(self._heard[sender], ts)

    def _pass_of(self, change: RowChange) -> int:
        table = table_key(change.database, change.table)
        match change.position:
            case TopicPosition(topic, partition):
                sender = (topic, partition, table)
            case FilePosition():
                # The files of one table version are read in the order they were written.
                sender = (f"{change.schema_version}/{change.table_id}", 0, table)
        last, number = self._passes.get(sender, (0, 0))
        if change.commit_ts < last:
            number += 1
        self._passes[sender] = (change.commit_ts, number)
        return number
